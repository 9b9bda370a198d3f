//! What the selection and the byte search find alike next to control sequences, symbols, underscores
//! and the headers of texts.

use super::agreement::found_with;
use super::*;

/// The identifiers of [`IDENTIFIERS`] that are names, ids, addresses and numbers.
const PLANTED: [&str; 4] = [
    "Ada Okafor",
    "moy-4711-k9",
    "ada@x.example",
    "+49 160 5551003",
];

#[test]
fn selection_and_byte_search_find_identifiers_next_to_control_sequences() {
    for (before, after) in [
        ("\u{1b}[1;34m", "\u{1b}[0m"),
        ("\u{1b}[38;5;12m", "\u{1b}[m"),
        ("\u{1b}[K", "\u{1b}[K"),
        ("x\u{1b}[3G", "\u{1b}[80Gx"),
        ("\u{1b}[2K\u{1b}[1G", "\u{1b}[K"),
        ("\u{1b}(B\u{1b}[m", "\u{1b}(B"),
        ("\u{1b}]8;;https://x.example/a\u{7}", "\u{1b}]8;;\u{7}"),
        (
            "\u{1b}]8;;https://x.example/a\u{1b}\\",
            "\u{1b}]8;;\u{1b}\\",
        ),
        ("\\u001b[31m", "\\u001b[0m"),
        ("{\\\"a\\\":\\\"\\\\u001b[31m", "\\\\u001b[0m"),
        ("\\033[31m", "\\033[0m"),
        ("\\x1b[31m", "\\x1b[0m"),
        ("\\e[31m", "\\e[0m"),
        ("\\e]8;;x\\a", "\\e]8;;\\a"),
        ("^[[31m", "^[[m"),
        ("[31m", "[0m"),
        ("\u{9b}31m", "\u{9b}0m"),
    ] {
        for identifier in PLANTED {
            let text = format!("Author: {before}{identifier}{after}, {before}Bo{after}");
            for encoding in [Encoding::MessagePack, Encoding::Cbor] {
                let found = both(&request(&[identifier]), &text, encoding);
                assert_eq!(found, Some((true, true)), "{text:?}");
                let alone = format!("{before}{identifier}");
                let found = both(&request(&[identifier]), &alone, encoding);
                assert_eq!(found, Some((true, true)), "{alone:?}");
            }
        }
    }
}

#[test]
fn selection_and_byte_search_find_a_name_with_control_sequences_in_it() {
    for text in [
        "by Ada\u{1b}[0m \u{1b}[1mOkafor",
        "Ada\u{1b}[0m \u{1b}[1mOkafor",
        "\u{1b}[1mA\u{1b}[0mda \u{1b}[01;31m\u{1b}[KOka\u{1b}[m\u{1b}[Kfor",
        "Ada\u{1b}[5COkafor",
        "Ada[0m [1mOkafor was here",
    ] {
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let found = both(&request(&["Ada Okafor"]), text, encoding);
            assert_eq!(found, Some((true, true)), "{text:?}");
        }
    }
}

#[test]
fn selection_and_byte_search_find_identifiers_next_to_symbols() {
    for (before, after) in [
        ("", "\u{b9}"),
        ("", "\u{b2}, \u{b3}"),
        ("", "\u{2122}"),
        ("", "\u{2120}"),
        ("", "\u{aa}"),
        ("\u{2460}", ""),
        ("1\u{fe0f}\u{20e3}", ""),
        ("", "\u{bd}"),
        ("", "\u{2081}"),
        ("\u{2163}", "\u{2163}"),
        ("\u{2116}", ""),
        ("N\u{ba}", ""),
        ("\u{640}", "\u{640}"),
        ("\\u00b9", "\\u2122"),
    ] {
        for identifier in PLANTED {
            let text = format!("by {before}{identifier}{after} here");
            for encoding in [Encoding::MessagePack, Encoding::Cbor] {
                let found = both(&request(&[identifier]), &text, encoding);
                assert_eq!(found, Some((true, true)), "{text}");
            }
        }
    }
    for identifier in ["Ada Okafor", "moy-4711-k9"] {
        let letters = identifier.chars().flat_map(|letter| [letter, '\u{336}']);
        let text = format!("not {} here", letters.collect::<String>());
        let found = both(&request(&[identifier]), &text, Encoding::MessagePack);
        assert_eq!(found, Some((true, true)), "{text}");
    }
}

#[test]
fn selection_and_byte_search_find_an_id_in_the_name_of_a_file() {
    for (identifier, text, is_found) in [
        ("moy-4711-k9", "img/moy-4711-k9_avatar.png", true),
        ("moy-4711-k9", "avatar_moy-4711-k9_64x64.png", true),
        ("moy-4711-k9", "s2_moy-4711-k9_1.png", true),
        ("ada@x.example", "ada@x.example_backup.json", true),
        ("ada@x.example", "b_ada@x.example", false),
        ("moy-4711-k9", "moy-4711-k9-2.png", false),
        ("moy-4711-k9", "x2-moy-4711-k9.png", false),
        // Underscores divide this id, so they may divide a longer one.
        ("moy_4711-k9", "moy_4711-k9_avatar.png", false),
        ("moy-17", "moy-17_avatar.png", false),
    ] {
        let found = both(&request(&[identifier]), text, Encoding::MessagePack);
        assert_eq!(found, Some((is_found, is_found)), "{identifier} in {text}");
    }
}

#[test]
fn selection_and_byte_search_do_not_find_other_identifiers_next_to_decorations() {
    for (identifier, text) in [
        ("user-1", "user-12"),
        ("user-1", "\u{1b}[1muser-12\u{1b}[0m"),
        ("user-12", "user-1\u{b2}"),
        ("user-1", "user-12\u{b9}"),
        ("user-123", "user-1\u{bd}23"),
        ("Ada Okafor", "Ada Okafor\u{e9}\u{b9}"),
        ("Ada Okafor", "\u{1b}[1mAda Okaforson\u{1b}[0m"),
        ("ark@x.example", "[mark@x.example]"),
        ("arl-4711-k9", "[Karl-4711-k9]"),
        ("Ulani Lopes", "Ka\u{2bb}ulani Lopes"),
    ] {
        // Its compatibility form is user-12.
        let folds = text == "user-1\u{b2}";
        let found = both(&request(&[identifier]), text, Encoding::MessagePack);
        assert_eq!(found, Some((folds, folds)), "{identifier} in {text:?}");
    }
}

#[test]
fn what_precedes_a_text_is_no_letter_of_it() {
    for (identifier, text, is_found) in [
        ("doe@x.test", "doe@x.test", true),
        ("doe@x.test", "jdoe@x.test", false),
        ("doe@x.test", "data:jdoe@x.test", false),
        ("doe@x.test", "a,jdoe@x.test", false),
        // The header of a text of ten bytes is j in CBOR, that of one of eleven bytes is k.
        ("jdoe@x.test", "doe@x.test", false),
        ("jdoe@x.test", "jdoe@x.test", true),
        ("arina lopes", "karina lopes", false),
        ("karina lopes", "arina lopes", false),
        ("Arina Lopes", "Karina Lopes", false),
        ("ulani lopes", "by kaulani lopes", false),
    ] {
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let found = both(&request(&[identifier]), text, encoding);
            let encoding = encoding.name();
            assert_eq!(
                found,
                Some((is_found, is_found)),
                "{identifier} in {text}, {encoding}"
            );
        }
    }
}

#[test]
fn selection_and_byte_search_find_texts_in_encoded_values() {
    let did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    let signed = |protected: &[u8], header: &[u8]| {
        let length = 0x40 + protected.len() as u8;
        let signature = [&[0x58, 0x40][..], &[0xf7; 64]].concat();
        [
            b"\xd2\x84",
            &[length][..],
            protected,
            header,
            b"\xf6",
            &signature,
        ]
        .concat()
    };
    let key_id = [b"\xa1\x04\x58\x38", did.as_bytes()].concat();
    for (identifier, bytes, is_found) in [
        (did, signed(b"\xa1\x01\x27", &key_id), true),
        (
            "Ada Okafor",
            signed(b"\xa1\x04\x4aAda Okafor", b"\xa0"),
            true,
        ),
        (
            "Ada Okafor",
            signed(b"", b"\xa1\x64note\x73Ada Okafor was here"),
            true,
        ),
        (
            "Ada Okafor",
            signed(b"", b"\xa1\x64note\x6dAda Okaforson"),
            false,
        ),
        (
            "Ada Okafor",
            signed(b"", b"\xa1\x64note\x6bRada Okafor"),
            false,
        ),
        (
            "Ada Okafor",
            b"\xa2\x61n\x74it was by Ada Okafor\x61x\x01".to_vec(),
            true,
        ),
        (
            "Ada Okafor",
            b"\x92\xd9\x41Ada Okafor ............ ............ ............ ...............\x01"
                .to_vec(),
            true,
        ),
        ("user-1", b"\xa1\x61u\x67user-12".to_vec(), false),
        ("ser-12", b"\xa1\x61u\x67user-12".to_vec(), false),
    ] {
        let bytes_hex = hex::encode(&bytes);
        let members = format!(r#""content":"hi","extra":{{"$bytes_hex":"{bytes_hex}"}}"#);
        let found = found_with(&request(&[identifier]), &members);
        assert_eq!(
            found,
            [(is_found, is_found); 2],
            "{identifier} in {bytes:?}"
        );
    }
}

#[test]
fn lengths_and_headers_are_no_part_of_another_form_of_a_text() {
    let long = |text: &str, length: usize| format!("{text}{}", ".".repeat(length - text.len()));
    for (identifier, text) in [
        // The length 27 is an escape character.
        ("arina lopes", "Karina Lopes, Porto, Serra1".to_owned()),
        ("arina lopes", long("Karina Lopes ", 283)),
        // The length 106 is a j.
        ("jdoed@x.test", long("\u{1b}[1mdoed@x.test \u{1b}[0m ", 106)),
        ("jdoed@x.test", long("doed@x.test said\\nlorem", 106)),
        ("arina lopes", "log: &#27;[31mKarina Lopes".to_owned()),
        ("arina lopes", "log: %1B[31mKarina Lopes".to_owned()),
        ("doe@x.test", "jdoe@x.test\\nhi".to_owned()),
        ("doe@x.test", "jdoe@x.test &amp; co".to_owned()),
        ("doe@x.test", "jdoe@x.test \u{1b}[1mok\u{1b}[0m".to_owned()),
        ("doe@x.test", "data:jdoe@x.test \u{2116}1".to_owned()),
        ("doe@x.test", "data:jdoe@x.test\\nhi".to_owned()),
    ] {
        let request = request(&[identifier]);
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let blob = event(&text, encoding).unwrap();
            assert!(!is_selected(&request, &blob), "{identifier} in {text:?}");
            for value in [&blob[..], text.as_bytes()] {
                let found = search(&request).count_in_value(value);
                assert_eq!(found, 0, "{identifier} in {text:?}");
            }
        }
    }
}

#[test]
fn what_is_found_in_a_text_is_found_in_the_value_that_has_it() {
    for text in [
        "Ada Okafor",
        "by \u{1b}[1mAda Okafor\u{1b}[0m",
        "\u{1b}[1mAda Okafor\u{1b}[0m",
        "by \\u0041da Okafor",
        "QWRhIE9rYWZvcg== and more",
        "Ada%20Okafor",
    ] {
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let blob = event(text, encoding).unwrap();
            let request = request(&["Ada Okafor"]);
            assert!(search(&request).count_in_value(&blob) > 0, "{text:?}");
            // In CBOR, the header of a short text may look like a letter of another form.
            let is_told_apart = encoding == Encoding::MessagePack;
            assert!(
                !is_told_apart || search(&request).count(&blob) > 0,
                "{text:?}"
            );
        }
    }
}

#[test]
fn exact_folding_looks_for_identifiers_as_they_are_written() {
    let exact = SubjectRequest {
        folding: Folding::Exact,
        ..request(&["Ada Okafor"])
    };
    for (text, is_found) in [("Ada Okafor", true), ("A\u{338}da Okafor", false)] {
        let found = both(&exact, text, Encoding::MessagePack);
        assert_eq!(found, Some((is_found, is_found)), "{text:?}");
    }
}
