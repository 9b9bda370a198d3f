//! What the selection and the byte search find alike: bounds of texts, parts of names, digits,
//! prefixes.

use gristmill_schemas::grain::HEADER_LENGTH;

use super::*;

#[test]
fn selection_and_byte_search_agree_on_texts_next_to_bytes_that_look_like_letters() {
    let number = 1_767_225_600_195_i64;
    for (members, is_found) in [
        (r#""extra":[true,"Ada Okafor is here"]"#.to_owned(), true),
        (
            r#""extra":{"a":true,"Ada Okafor is here":1}"#.to_owned(),
            true,
        ),
        (r#""extra":[false,"Ada Okafor ab"]"#.to_owned(), true),
        (format!(r#""extra":[{number},"Ada Okafor is here"]"#), true),
        (r#""extra":{"I met Ada Okafor":65}"#.to_owned(), true),
        (
            r#""extra":{"I met Ada Okafor":true,"abcdef":1}"#.to_owned(),
            true,
        ),
        (
            r#""extra":{"I met Ada Okafor":false,"thirteenbytes":1}"#.to_owned(),
            true,
        ),
        (r#""extra":["Ada Okafor is here","yes"]"#.to_owned(), true),
        (r#""extra":["I met Ada Okafor","yes"]"#.to_owned(), true),
        (r#""extra":["call 01605551003","yes"]"#.to_owned(), true),
        (format!(r#""extra":["Ada Okafor{}"]"#, ".".repeat(55)), true),
        (
            format!(r#""extra":["{}Ada Okafor","yes"]"#, "x ".repeat(300)),
            true,
        ),
        (r#""extra":["rada okafor is here"]"#.to_owned(), false),
        (r#""extra":["I met Ada Okaford","yes"]"#.to_owned(), false),
        // A letter of two bytes that are also the header of a text of 136 bytes.
        (r#""extra":["\u0648Ada Okafor is here"]"#.to_owned(), false),
    ] {
        let json = format!(
            r#"{{"type":"event","created_at":1767225600000,"role":"user",
                "content":"hi",{members}}}"#
        );
        let json = Json::parse(json.as_bytes()).unwrap();
        let request = request(&IDENTIFIERS);
        let matcher = IdentifierMatcher::new(&request);
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let options = EncodeOptions {
                encoding,
                ..EncodeOptions::default()
            };
            let blob = encode_json(&json, options).unwrap().blob;
            let mut hits = Hits::default();
            with_grain_if_any(&blob, |grain| {
                matcher.match_grain(grain.unwrap(), &mut hits)
            });
            let found = (!hits.people.is_empty(), search(&request).count(&blob) > 0);
            assert_eq!(
                found,
                (is_found, is_found),
                "{members} in {}",
                encoding.name()
            );
        }
    }
}

#[test]
fn selection_and_byte_search_tell_addresses_apart_that_end_alike() {
    for (text, is_found) in [
        ("to smith@x.example today", true),
        ("to smith+news@x.example today", true),
        ("Done.\\nsmith@x.example", true),
        ("to john.smith@x.example today", false),
        ("john+smith@x.example", false),
        ("john.smith+news@x.example", false),
    ] {
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let found = both(&request(&["smith@x.example"]), text, encoding);
            assert_eq!(found, Some((is_found, is_found)), "{text}");
        }
    }
}

#[test]
fn selection_and_byte_search_divide_names_at_the_same_places() {
    for (identifier, text, is_found) in [
        ("Roberts, Robert", "by RobertRoberts today", true),
        ("Roberts, Robert", "by RobertsRobert today", true),
        (
            "\u{905}\u{92e}\u{93f}\u{924} \u{936}\u{930}\u{94d}\u{92e}\u{93e}",
            "by \u{936}\u{930}\u{94d}\u{92e}\u{93e}\u{905}\u{92e}\u{93f}\u{924} today",
            true,
        ),
        // What has other characters than letters and those between names isn't varied.
        ("Pau Col\u{b7}lell", "by Pau Col\u{b7}lell today", true),
        ("Pau Col\u{b7}lell", "by Col\u{b7}lell, Pau today", false),
        // What CBOR has before short texts.
        ("Carl Berg", "a Carlsberg today", false),
        ("Carl Berg", "at Bergwcarl today", false),
        ("Ale Berg", "by Alex Berg today", false),
        (
            "Robert \u{201c}Bob\u{201d} Smith",
            "by Smith Robert Bob today",
            false,
        ),
    ] {
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            assert_eq!(
                both(&request(&[identifier]), text, encoding),
                Some((is_found, is_found)),
                "{identifier} in {text}"
            );
        }
    }
}

#[test]
fn a_telephone_number_with_other_characters_than_plain_ones_is_searched_as_it_is_selected() {
    for identifier in [
        "+49 160\u{2011}5551003",
        "\u{202a}+49 160 5551003\u{202c}",
        "+49\u{2013}160\u{2013}5551003",
    ] {
        assert_eq!(
            both(
                &request(&[identifier]),
                "call 0160 5551003 today",
                Encoding::MessagePack
            ),
            Some((true, true)),
            "{identifier}"
        );
    }
}

#[test]
fn selection_and_byte_search_agree_on_digits_that_are_not_plain() {
    for (text, is_found) in [
        ("call \u{ff10}\u{ff11}\u{ff16}\u{ff10} 5551003 today", true),
        ("call 0\u{200b}160 5551003 today", true),
        (
            "call \u{1d7ce}\u{1d7cf}\u{1d7d4}\u{1d7ce} 5551003 today",
            false,
        ),
        ("call 0160 555100\u{1d7d1} today", false),
        ("call \u{1d7ce}160 5551003 today", false),
        ("call 0160 5551003\u{b2} today", true),
    ] {
        assert_eq!(
            both(&request(&["+49 160 5551003"]), text, Encoding::MessagePack),
            Some((is_found, is_found)),
            "{text}"
        );
    }
}

#[test]
fn selection_and_byte_search_find_an_id_after_a_prefix_of_letters_with_marks() {
    for (prefix, is_found) in [
        ("\u{938}\u{924}\u{94d}\u{930}", true),
        ("\u{938}\u{924}\u{94d}\u{930}7", false),
    ] {
        let text = format!("to {prefix}-moy-4711-k9 now");
        assert_eq!(
            both(&request(&["moy-4711-k9"]), &text, Encoding::MessagePack),
            Some((is_found, is_found)),
            "{text}"
        );
    }
}

/// Returns whether the selection and the search find a match in the grain `blob`.
fn found_in(request: &SubjectRequest, blob: &[u8]) -> (bool, bool) {
    let matcher = IdentifierMatcher::new(request);
    let mut hits = Hits::default();
    with_grain_if_any(blob, |grain| matcher.match_grain(grain.unwrap(), &mut hits));
    (!hits.people.is_empty(), search(request).count(blob) > 0)
}

#[test]
fn selection_and_byte_search_find_a_name_across_fields_and_other_entries_as_they_are_stored() {
    for (members, is_found) in [
        // In both encodings, the content is next to the entry of another key.
        (r#""content":"I met Ada","oyelaran":1"#, true),
        (r#""content":"I met Ada","opinions":{"Oyelaran":1}"#, true),
        (r#""content":"I met Ada","opinions":1,"oyelaran":1"#, false),
        // The content is between the two others.
        (r#""bio":"Ada","content":"hi","oyelaran":1"#, false),
    ] {
        let json =
            format!(r#"{{"type":"event","created_at":1767225600000,"role":"user",{members}}}"#);
        let json = Json::parse(json.as_bytes()).unwrap();
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            let options = EncodeOptions {
                encoding,
                ..EncodeOptions::default()
            };
            let blob = encode_json(&json, options).unwrap().blob;
            assert_eq!(
                found_in(&request(&["Ada Oyelaran"]), &blob),
                (is_found, is_found),
                "{members} in {}",
                encoding.name()
            );
        }
    }
}

#[test]
fn selection_and_byte_search_find_a_name_across_the_keys_of_null_entries() {
    let json = br#"{"type":"event","created_at":1767225600000,"role":"user","content":"hi"}"#;
    let json = Json::parse(json).unwrap();
    let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
    // No encoder writes null entries.
    let (header, map) = blob.split_at(HEADER_LENGTH);
    let (head, entries) = map.split_first().unwrap();
    for (nulls, is_found) in [
        (&b"\xa3Ada\xc0\xa6Okafor\xc0"[..], true),
        (b"\xa3Ada\xc0\xa5Zorro\xc0", false),
    ] {
        let blob = [header, &[head + 2], nulls, entries].concat();
        assert_eq!(
            found_in(&request(&["Ada Okafor"]), &blob),
            (is_found, is_found)
        );
    }
}

/// Returns whether the selection and the search find a match in an event with `members`, in
/// MessagePack and in CBOR.
pub(super) fn found_with(request: &SubjectRequest, members: &str) -> [(bool, bool); 2] {
    let json = format!(r#"{{"type":"event","created_at":1767225600000,"role":"user",{members}}}"#);
    let json = Json::parse(json.as_bytes()).unwrap();
    [Encoding::MessagePack, Encoding::Cbor].map(|encoding| {
        let options = EncodeOptions {
            encoding,
            ..EncodeOptions::default()
        };
        found_in(request, &encode_json(&json, options).unwrap().blob)
    })
}

#[test]
fn selection_and_byte_search_find_a_name_whose_parts_are_whole_texts() {
    for (members, is_found) in [
        (r#""content":"hi","extra":["Ada","Okafor"]"#, true),
        (r#""content":"hi","extra":["x","Ada","Okafor","y"]"#, true),
        (r#""content":"hi","contacts":{"Ada":"Okafor"}"#, true),
        (
            r#""content":"hi","extra":[{"name":"Ada"},{"name":"Okafor"}]"#,
            true,
        ),
        (r#""content":"hi","extra":["Rada","Okafor","y"]"#, false),
        (r#""content":"hi","extra":["x","Ada","Okaford"]"#, false),
    ] {
        let found = found_with(&request(&["Ada Okafor"]), members);
        assert_eq!(found, [(is_found, is_found); 2], "{members}");
    }
}

#[test]
fn selection_and_byte_search_find_a_name_over_many_texts() {
    for (name, members, is_found) in [
        (
            "Maria Oyelaran Lopez",
            r#""extra":["Maria","Oyelaran","Lopez"]"#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":["Lopez","Maria","Oyelaran"]"#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":["to Maria","OYELARAN","Lopez, too"]"#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":["x","Maria",true,"Oyelaran","Lopez","y"]"#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":{"Maria":{"Oyelaran":"Lopez"}}"#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":[{"name":"Maria"},{"name":"Oyelaran"},{"name":"Lopez"}]"#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""content":"I met Maria","oyelaran":"Lopez""#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""content":"I met Maria","opinions":{"Oyelaran":"Lopez"}"#,
            true,
        ),
        (
            "Ana Maria D\u{ed}az Lopez",
            r#""extra":["Ana","Maria","Diaz","Lopez"]"#,
            true,
        ),
        (
            "Ana Maria D\u{ed}az Lopez",
            r#""extra":["Ana Maria","D\u00edaz","Lopez"]"#,
            true,
        ),
        (
            "Jean-Luc Picard",
            r#""extra":["Jean","Luc","Picard"]"#,
            true,
        ),
        (
            "Hotel Zum Goldenen Lamm Bad Aibling",
            r#""extra":["Hotel","Zum Goldenen","Lamm","Bad","Aibling"]"#,
            true,
        ),
        ("Miller & Sons", r#""extra":["Miller","&","Sons"]"#, true),
        (
            "\u{738b} \u{5c0f}\u{660e} \u{674e}",
            r#""extra":["\u738b","\u5c0f\u660e","\u674e"]"#,
            true,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":["Maria","Oyelaran","and","Lopez"]"#,
            false,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":["Maria","Oyelarans","Lopez"]"#,
            false,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":["Maria","Oyelaran",7,"Lopez"]"#,
            false,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":["Oyelaran","Maria","Lopez"]"#,
            false,
        ),
        (
            "Maria Oyelaran Lopez",
            r#""extra":{"a":"Maria","b":"Oyelaran","c":"Lopez"}"#,
            false,
        ),
    ] {
        let content = if members.contains("content") {
            ""
        } else {
            r#""content":"hi","#
        };
        let found = found_with(&request(&[name]), &format!("{content}{members}"));
        assert_eq!(found, [(is_found, is_found); 2], "{name}: {members}");
    }
}
