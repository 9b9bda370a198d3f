//! Tests of the search for identifiers in bytes.

use gristmill_schemas::grain::{EncodeOptions, Encoding, encode_json};
use gristmill_schemas::json::{Json, Object};
use proptest::prelude::*;

use super::*;
use crate::erase::{Hits, IdentifierMatcher, Person, SelectionOptions};
use crate::text::with_grain_if_any;

mod agreement;
mod surroundings;

fn request(identifiers: &[&str]) -> SubjectRequest {
    let identifiers = identifiers
        .iter()
        .map(|identifier| (*identifier).to_owned())
        .collect();
    let extent = SelectionOptions {
        initials: true,
        ..SelectionOptions::default()
    };
    SubjectRequest {
        people: vec![Person {
            identifiers,
            ..Person::default()
        }],
        extent,
        ..SubjectRequest::default()
    }
}

fn search(request: &SubjectRequest) -> IdentifierSearch {
    IdentifierSearch::new(request, |_| false, []).unwrap()
}

const IDENTIFIERS: [&str; 6] = [
    "Ada Okafor",
    "José Díaz",
    "moy-4711-k9",
    "ada@x.example",
    "+49 160 5551003",
    "Jean-Luc Picard",
];

/// Returns an event whose content is `text`; `None` if it can't be encoded.
fn event(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    let mut json = Object::new();
    json.insert("type", "event");
    json.insert("created_at", 1_767_225_600_000_i64);
    json.insert("role", "user");
    json.insert("content", text);
    let options = EncodeOptions {
        encoding,
        ..EncodeOptions::default()
    };
    Some(encode_json(&Json::Object(json), options).ok()?.blob)
}

/// Returns whether the selection finds a match in the grain `blob`.
fn is_selected(request: &SubjectRequest, blob: &[u8]) -> bool {
    let mut hits = Hits::default();
    let matcher = IdentifierMatcher::new(request);
    with_grain_if_any(blob, |grain| matcher.match_grain(grain.unwrap(), &mut hits));
    !hits.people.is_empty()
}

/// Returns whether the selection and the search find a match in a grain whose content is
/// `text`.
fn both(request: &SubjectRequest, text: &str, encoding: Encoding) -> Option<(bool, bool)> {
    let blob = event(text, encoding)?;
    Some((
        is_selected(request, &blob),
        search(request).count(&blob) > 0,
    ))
}

fn encoded(text: &str, way: usize) -> String {
    use base64::Engine;
    match way {
        0 => text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        1 => text
            .chars()
            .map(|letter| format!("&#{};", u32::from(letter)))
            .collect(),
        2 => base64::engine::general_purpose::STANDARD.encode(format!("to {text}, hello")),
        3 => hex::encode(format!("to {text}, hello")),
        4 => text
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect(),
        _ => text.to_owned(),
    }
}

fn cased(text: &str, way: usize) -> String {
    match way {
        0 => text.to_uppercase(),
        1 => text.to_lowercase(),
        2 => text.replace('a', "\u{430}").replace('o', "\u{3bf}"),
        3 => text.replace('d', "d\u{ad}"),
        4 => text.replace('e', "e\u{301}"),
        5 => text.replace(' ', "\u{a0}"),
        6 => text.replace('d', "d\u{e0064}"),
        7 => text.replace('o', "\u{206b}o\u{180e}"),
        _ => text.to_owned(),
    }
}

proptest! {
    #[test]
    fn selection_and_byte_search_find_planted_identifiers(
        before in "[a-zA-Z ]{0,80}",
        after in "[a-zA-Z ]{0,80}",
        form in prop::sample::select(vec![
            "Ada Okafor", "Okafor, Ada", "OKAFOR Ada", "ada_okafor", "Ada.Okafor", "AdaOkafor", "A. \
                Okafor", "Okafor, \
                A.",
            "Jose Diaz", "Díaz, José", "jose-diaz", "moy-4711-k9", "moy4711k9", "sess-moy-4711-k9", "moy-4711-k9-v2",
            "moy_4711_k9", "ada@x.example", "ada+news@x.example", "+491605551003", "0160/555 \
                1003", "0049 \
                (0)160 5551003",
            "160-555-1003", "Picard, Jean-Luc", "jean.luc.picard", "J. Picard",
        ]),
        letters in 0..9_usize,
        way in 0..9_usize,
        is_cbor: bool,
    ) {
        let encoding = if is_cbor { Encoding::Cbor } else { Encoding::MessagePack };
        let text = format!("{before} {} {after}", encoded(&cased(form, letters), way));
        let Some(found) = both(&request(&IDENTIFIERS), &text, encoding) else { return Ok(()) };
        prop_assert_eq!(found, (true, true), "{}", text);
    }

    #[test]
    fn selection_and_byte_search_agree_on_any_text(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "ada", "Ada", "OKAFOR", "okafor", "jose", "José", "diaz", "Díaz", "moy", "4711", "k9", "v2", "sess", "a", "A", "x",
            " ", " ", "-", "_", ".", ",", ", ", ". ", "@", "+", "/", "(", ")", "x.example", "0160", "160", "+49", "0", "5551003",
            "\u{a0}", "\u{ad}", "\u{301}", "\u{430}", "\u{131}", "%20", "&nbsp;", "\\n", "\\u0061", "9", "é",
            "\u{7684}", "\u{304c}", "\u{ac00}", "\u{314b}", "\u{1b}[1m", "[0m", "\\e[0m",
            "\u{b9}", "\u{2122}", "\u{336}", "\u{640}",
        ]), 1..9),
    ) {
        let text = pieces.concat();
        let Some((selected, proven)) = both(&request(&IDENTIFIERS[..5]), &text, Encoding::MessagePack) else { return Ok(()) };
        // The last byte of a letter may equal the MessagePack header of what follows (`é`
        // before nine bytes). Nothing in the bytes distinguishes the two, and the search counts
        // what may be a value.
        let is_ambiguous = text.bytes().any(|byte| (0xa1..=0xbf).contains(&byte));
        prop_assert!(selected == proven || proven && is_ambiguous, "{:?}: {}, {}", text, selected, proven);
    }
}

#[test]
fn a_value_in_a_footer_is_found_after_a_length_that_looks_like_a_digit() {
    let did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    assert_eq!(did.len(), usize::from(b'8'));
    let request = request(&[did]);
    let statistics = |length: u8| [&[0x18, length][..], did.as_bytes(), &[0x18]].concat();
    assert_eq!(search(&request).count(&statistics(b'8')), 1);
    assert_eq!(search(&request).count(&statistics(b'9')), 0);
}

#[test]
fn selection_and_byte_search_agree_on_syllables_and_marks() {
    for (identifier, text, is_found) in [
        (
            "\u{bc15}\u{c9c0}\u{c218}",
            "\u{b098}\u{bc15}\u{c9c0}\u{c218}\u{ac00}",
            true,
        ),
        (
            "\u{bc15}\u{c9c0}\u{c218}",
            "\u{bc15}\u{c9c0}\u{c219}",
            false,
        ),
        (
            "\u{ae40} \u{cca0}\u{c218}",
            "\u{ae40}  \u{cca0}\u{c218}",
            true,
        ),
        (
            "\u{ae40} \u{cca0}\u{c218}",
            "\u{cca0}\u{c218} \u{ae40}",
            false,
        ),
        (
            "\u{306a}\u{304c}\u{305f}",
            "\u{306a}\u{304c}\u{305f}\u{3068}",
            true,
        ),
        (
            "\u{306a}\u{304c}\u{305f}",
            "\u{306a}\u{304c}\u{3060}",
            false,
        ),
        // A vowel as a letter of its own, as in a laugh or in tears, completes no syllable.
        (
            "\u{bc15}\u{c9c0}\u{c218}",
            "\u{bc15}\u{c9c0}\u{c218}\u{3160}\u{3160}",
            true,
        ),
        (
            "\u{ae40}\u{bbfc}\u{c900}",
            "\u{ae40}\u{bbfc}\u{c900}\u{315c}",
            true,
        ),
        ("\u{306a}\u{3042}", "\u{306a}\u{3042}\u{3099}", true),
        ("\u{306a}\u{304b}", "\u{306a}\u{304b}\u{3099}", false),
        ("\u{1019}\u{1025}", "\u{1019}\u{1026}", false),
        // Marks in another order than the canonical one.
        ("\u{306a}\u{304c}", "\u{306a}\u{304b}\u{301}\u{3099}", true),
        ("\u{306a}\u{304b}", "\u{306a}\u{304b}\u{301}\u{3099}", false),
        (
            "\u{645}\u{62d}\u{645}\u{651}\u{64e}\u{62f}",
            "\u{645}\u{62d}\u{645}\u{64e}\u{651}\u{62f}",
            true,
        ),
        (
            "\u{5d3}\u{5bc}\u{5b8}\u{5d5}\u{5b4}\u{5d3}",
            "\u{5d3}\u{5b8}\u{5bc}\u{5d5}\u{5b4}\u{5d3}",
            true,
        ),
    ] {
        assert_eq!(
            both(&request(&[identifier]), text, Encoding::MessagePack),
            Some((is_found, is_found)),
            "{identifier} in {text}"
        );
    }
}

#[test]
fn selection_and_byte_search_find_other_spellings_of_identifiers_without_blanks() {
    for (identifier, text) in [
        ("ada@\u{4f8b}\u{3048}.jp", "to ada@xn--r8jz45g.jp now"),
        ("ada@\u{4f8b}\u{3048}.jp", "to ada+n@xn--r8jz45g.jp now"),
        ("ada@xn--r8jz45g.jp", "to ada@\u{4f8b}\u{3048}.jp now"),
        ("ADA@XN--R8JZ45G.JP", "to ada@\u{4f8b}\u{3048}.jp now"),
        (
            "Ada@XN--MLLER-KVA.example",
            "to ada@m\u{fc}ller.example now",
        ),
        ("j\u{fc}rgen@\u{4f8b}.jp", "to juergen@\u{4f8b}.jp now"),
    ] {
        assert_eq!(
            both(&request(&[identifier]), text, Encoding::MessagePack),
            Some((true, true)),
            "{identifier} in {text}"
        );
    }
    // A part of such a name is no name of its own.
    let name = request(&["\u{738b}\u{5c0f} J\u{fc}rgen M\u{fc}ller"]);
    let found = both(&name, "with Mueller, Juergen", Encoding::MessagePack);
    assert_eq!(found, Some((false, false)));
}

#[test]
fn selection_and_byte_search_find_a_name_across_the_entries_of_a_map() {
    for (members, is_found) in [
        (r#""Ada":"Okafor""#, true),
        (r#""contacts":{"Okafor":"Ada"}"#, true),
        (r#""contacts":{"Ada":{"Okafor":1}}"#, true),
        (r#""contacts":{"Ada":false,"Okafor":false}"#, true),
        (r#""contacts":{"Ada":true,"Okafor":1}"#, true),
        (r#""contacts":{"A":"Ada","Okafor":1}"#, true),
        (r#""contacts":{"Ada":{"last":"Okafor"}}"#, true),
        (r#""contacts":{"Ingrid":{"friend":"Ada"},"Okafor":1}"#, true),
        (r#""contacts":{"A":["x","Ada"],"Okafor":1}"#, true),
        (
            r#""team":{"lead":{"name":"Ada"},"second":{"name":"Okafor"}}"#,
            true,
        ),
        (
            r#""team":{"lead":{"name":"Ada","zip":3},"second":{"name":"Okafor"}}"#,
            false,
        ),
        (r#""team":{"first":"Ada","last":"Okafor"}"#, false),
        (r#""contacts":{"Ada":1,"Okafor":1}"#, false),
    ] {
        let json = format!(
            r#"{{"type":"event","created_at":1767225600000,"role":"user",
                "content":"hi",{members}}}"#
        );
        let json = Json::parse(json.as_bytes()).unwrap();
        let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        let request = request(&["Ada Okafor"]);
        let mut hits = Hits::default();
        let matcher = IdentifierMatcher::new(&request);
        with_grain_if_any(&blob, |grain| {
            matcher.match_grain(grain.unwrap(), &mut hits)
        });
        assert_eq!(!hits.people.is_empty(), is_found, "{members}");
        assert_eq!(search(&request).count(&blob) > 0, is_found, "{members}");
    }
}

#[test]
fn identifiers_are_found_next_to_letters_of_scripts_without_blanks() {
    for text in [
        "\u{79c1}\u{306f}Ada Okafor\u{3067}\u{3059}",
        "\u{8054}\u{7cfb}Okafor, Ada\u{3002}",
        "\u{e1c}\u{e21}\u{e37}\u{e48}\u{e2d}Ada-Okafor\u{e04}\u{e23}\u{e31}\u{e1a}",
        "Ada Okafor\u{b2d8}",
        "\u{314b}\u{314b}AdaOkafor\u{314b}\u{314b}",
        "\u{53d1}\u{5230}ada@x.example\u{8c22}\u{8c22}",
        "\u{53d1}\u{5230}ada+n@x.example\u{8c22}\u{8c22}",
        "\u{7528}\u{6237}moy-4711-k9\u{7684}\u{8ba2}\u{5355}",
        "\u{7528}\u{6237}-sess-moy-4711-k9-v2\u{7684}",
        "\u{7528}\u{6237}moy_4711_k9\u{7684}",
        "\u{7535}\u{8bdd}0160 5551003\u{8c22}\u{8c22}",
        "\u{c804}\u{d654}01605551003\u{c785}\u{b2c8}\u{b2e4}",
        "\u{ff83}\u{ff9e}\u{ff9d}\u{ff9c}01605551003\u{ff83}\u{ff9e}\u{ff7d}",
    ] {
        assert_eq!(
            both(&request(&IDENTIFIERS), text, Encoding::MessagePack),
            Some((true, true)),
            "{text}"
        );
    }
    for text in [
        "Ada\u{548c}Okafor",
        "\u{79c1}\u{306f}Ada Okaforson\u{3067}\u{3059}",
        "Ada Okafor\u{e9}\u{7684}",
        "\u{7535}\u{8bdd}016055510034\u{8c22}",
    ] {
        assert_eq!(
            both(&request(&IDENTIFIERS), text, Encoding::MessagePack),
            Some((false, false)),
            "{text}"
        );
    }
}

#[test]
fn selection_and_byte_search_ignore_a_disabled_class() {
    for (class, identifier, text) in [
        (Variation::NameOrder, "Ada Okafor", "Okafor, Ada"),
        (Variation::NameSeparators, "Ada Okafor", "ada_okafor"),
        (Variation::NameSeparators, "Ada Okafor", "AdaOkafor"),
        (Variation::Initials, "Ada Okafor", "A. Okafor"),
        (Variation::Accents, "José Díaz", "Jose Diaz"),
        (Variation::Homoglyphs, "Ada Okafor", "\u{410}da Okafor"),
        (Variation::TurkishI, "Irmak Okafor", "\u{131}rmak Okafor"),
        (Variation::Phone, "+49 160 5551003", "0160 5551003"),
        (Variation::EmailTag, "ada@x.example", "ada+b@x.example"),
        (
            Variation::Idn,
            "ada@m\u{fc}ller.example",
            "ada@xn--mller-kva.example",
        ),
        (Variation::IdAffixes, "moy-4711-k9", "sess-moy-4711-k9"),
        (Variation::IdSeparators, "moy-4711-k9", "moy4711k9"),
        (Variation::UrlEncoding, "Ada Okafor", "Ada%20Okafor"),
        (Variation::HtmlEntities, "Ada Okafor", "Ada&nbsp;Okafor"),
        (Variation::Base64, "Ada Okafor", "QWRhIE9rYWZvcg=="),
        (Variation::Hex, "Ada Okafor", "416461204f6b61666f72"),
    ] {
        let text = format!("this is {text} here");
        let mut request = request(&[identifier]);
        assert_eq!(
            both(&request, &text, Encoding::MessagePack),
            Some((true, true)),
            "{text}"
        );
        request.variations.remove(class);
        assert_eq!(
            both(&request, &text, Encoding::MessagePack),
            Some((false, false)),
            "{text}"
        );
    }
}
