//! Tests of the search for patterns, against naive searches.

use proptest::prelude::*;

use super::*;
use crate::erase::{Person, SubjectRequest};

proptest! {
    #[test]
    fn the_finder_agrees_with_a_naive_search(
        patterns in prop::collection::btree_set("[ab]{1,14}", 1..30),
        bytes in "[ab.]{0,80}",
    ) {
        let patterns: Vec<String> = patterns.into_iter().collect();
        let finder = MultiFinder::new((0..).zip(patterns.iter().map(|needle| needle.clone().into_bytes())));
        let mut found = Vec::new();
        finder.find(bytes.as_bytes(), |number, range| found.push((number, range.start, range.end)));
        found.sort_unstable();
        let places = |(number, needle): (u32, &String)| {
            let stands = |at: &usize| bytes[*at..].starts_with(&**needle);
            let whole = |at| (number, at, at + needle.len());
            (0..bytes.len()).filter(stands).map(whole).collect::<Vec<_>>()
        };
        let long = (0..).zip(&patterns).filter(|(_, needle)| needle.len() >= MIN_PATTERN_BYTES);
        prop_assert_eq!(found, long.flat_map(places).collect::<Vec<_>>());
    }
}

#[test]
fn patterns_with_a_common_prefix_are_all_found() {
    let names: Vec<String> = (0..20_000)
        .map(|number| format!("user-{number:06}"))
        .collect();
    let finder = MultiFinder::new((0..).zip(names.iter().map(|name| name.clone().into_bytes())));
    let text = names.join(" ") + " user-020000";
    let mut found = Vec::new();
    finder.find(text.as_bytes(), |number, _| found.push(number));
    found.sort_unstable();
    assert_eq!(found, (0..20_000).collect::<Vec<u32>>());
}

/// Returns a search for the identifiers of one person.
fn search<const N: usize>(identifiers: [&str; N]) -> IdentifierSearch {
    let person = Person {
        identifiers: identifiers.map(str::to_owned).into(),
        ..Person::default()
    };
    let request = SubjectRequest {
        people: vec![person],
        ..SubjectRequest::default()
    };
    IdentifierSearch::new(&request, |_| false, []).unwrap()
}

fn count(patterns: &PatternSearch, bytes: &[u8]) -> (u64, u64) {
    patterns.count(bytes, &mut Vec::new())
}

#[test]
fn an_address_is_found_as_text_as_digest_and_without_its_first_bytes() {
    let address = ContentAddress::of(b"grain");
    let patterns = PatternSearch::new([&address], search([]));
    assert_eq!(count(&patterns, format!("x{address}y").as_bytes()), (1, 0));
    assert_eq!(
        count(
            &patterns,
            &[&[7; 3], &address.as_bytes()[..], &[7; 3]].concat()
        ),
        (1, 0)
    );
    assert_eq!(
        count(&patterns, &[&[7; 3], &address.as_bytes()[8..]].concat()),
        (1, 0)
    );
    assert_eq!(
        count(
            &patterns,
            ContentAddress::of(b"other").to_string().as_bytes()
        ),
        (0, 0)
    );
}

#[test]
fn an_address_is_found_at_any_offset() {
    let addresses: Vec<ContentAddress> = (0..40_u32)
        .map(|number| ContentAddress::of(&number.to_le_bytes()))
        .collect();
    let patterns = PatternSearch::new(&addresses, search([]));
    for (before, address) in addresses.iter().enumerate() {
        let text = address.to_string();
        for bytes in [
            address.as_bytes()[8..].to_vec(),
            text.clone().into_bytes(),
            text.to_uppercase().into_bytes(),
        ] {
            let placed = [vec![b'.'; before], bytes.clone()].concat();
            assert_eq!(
                count(&patterns, &placed),
                (1, 0),
                "at the end, behind {before} bytes"
            );
            let placed = [placed, vec![b'.'; before % 17]].concat();
            assert_eq!(count(&patterns, &placed), (1, 0), "behind {before} bytes");
            assert_eq!(
                count(&patterns, &placed[..before + bytes.len() - 1]),
                (0, 0),
                "cut"
            );
        }
    }
}

#[test]
fn many_addresses_are_found_without_false_matches() {
    let addresses: Vec<ContentAddress> = (0..20_000_u32)
        .map(|number| ContentAddress::of(&number.to_le_bytes()))
        .collect();
    let (erased, kept) = addresses.split_at(10_000);
    let patterns = PatternSearch::new(erased, search(["u-17", "alice-77"]));
    let text = |addresses: &[ContentAddress]| {
        addresses
            .iter()
            .map(|address| format!("{address},"))
            .collect::<String>()
    };
    assert_eq!(count(&patterns, text(erased).as_bytes()), (10_000, 0));
    assert_eq!(count(&patterns, text(kept).as_bytes()), (0, 0));
    assert_eq!(count(&patterns, b"u-17 met alice-77 at u-18's"), (0, 2));
}

#[test]
fn an_identifier_is_found_at_word_boundaries_in_any_case() {
    let patterns = PatternSearch::new([], search(["u-17", "José Díaz"]));
    for (text, expected) in [
        ("\u{a4}u-17\u{a1}", 1),
        ("(U-17)", 1),
        ("u-171", 0),
        ("xu-17", 0),
        ("u-17-b", 0),
        ("JOSÉ DÍAZ", 1),
        ("jose\u{301} di\u{301}az", 1),
        ("José Díazé", 0),
    ] {
        assert_eq!(count(&patterns, text.as_bytes()), (0, expected), "{text}");
    }
    // A MessagePack length before an identifier is no letter.
    assert_eq!(
        count(&patterns, &[&[0xa4][..], b"u-17", &[0xa1]].concat()),
        (0, 1)
    );
}

#[test]
fn an_identifier_is_found_after_a_length_that_looks_like_a_letter() {
    let did = format!("did:key:{}", "z".repeat(40));
    let patterns = PatternSearch::new([], search(["alice-77", &did, "José Díaz"]));
    let parquet = [b"\x08\0\0\0alice-77", &b"8\0\0\0abc"[..]].concat();
    for (bytes, what) in [
        (&b"\xa1\x68alice-77\x67subject"[..], "CBOR"),
        (&[b"\xd90", did.as_bytes()].concat(), "MessagePack"),
        (&parquet, "Parquet"),
        (b"met alice-77A\0\0\0and so on", "the end of a value"),
        (br#"{"a":"Dear all,\nalice-77"}"#, "an escape"),
        (br#""Jos\u00E9 D\u00edaz""#, "escaped letters"),
    ] {
        assert_eq!(count(&patterns, bytes), (0, 1), "{what}");
    }
    for text in ["galice-77", "alice-771", "xalice-77"] {
        assert_eq!(count(&patterns, text.as_bytes()), (0, 0), "{text}");
    }
}

#[test]
fn a_letter_of_prose_is_not_taken_for_a_length() {
    let patterns = PatternSearch::new([], search(["ward", "andy"]));
    for prose in [
        "met Edward and",
        "Woodward",
        "is a dandy",
        "facing windward",
    ] {
        assert_eq!(count(&patterns, prose.as_bytes()), (0, 0), "{prose}");
    }
    for cbor in [
        &b"\xa2\x61sdward\x61od"[..],
        b"\xa1\x67user_iddandyx",
        b"\x82cbobdward",
        b"\xa1\x61n\x82\x01dward",
    ] {
        assert_eq!(count(&patterns, cbor), (0, 1), "{cbor:?}");
    }
}
