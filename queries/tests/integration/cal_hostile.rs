//! Hostile input: it ends with an error code, quickly, and never with a panic.

use std::time::{Duration, Instant};

use gristmill_queries::cal::{
    Code, Options, from_json_bytes, parse, parse_bytes, query_hash, to_json,
};
use proptest::prelude::*;

/// Returns the error code of an input. The time limit is generous enough for a debug build on a
/// busy machine.
fn code(bytes: &[u8]) -> Code {
    let start = Instant::now();
    let error = parse_bytes(bytes, Options::default()).expect_err("hostile input parses");
    assert!(start.elapsed() < Duration::from_secs(60), "{error}");
    error.code()
}

/// Returns `head` followed by as many copies of `piece` as the maximum length allows.
fn filled(head: &str, piece: &str) -> String {
    head.to_owned() + &piece.repeat((8192 - head.len()) / piece.len())
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    assert_eq!(code(filled("", "(").as_bytes()), Code::E013);
    assert_eq!(code(filled("EXPLAIN ", "(").as_bytes()), Code::E013);
    assert_eq!(
        code(filled("", "(LET $a = RECALL | SUBJECTS; ").as_bytes()),
        Code::E013
    );
    assert_eq!(
        code(filled("RECALL WHERE subject IN ", "(RECALL WHERE subject IN ").as_bytes()),
        Code::E007
    );
    assert_eq!(
        code(filled("RECALL WHERE tags INCLUDE ", "[").as_bytes()),
        Code::E007
    );
    assert_eq!(code(filled("RECALL WITH x_o(", "[").as_bytes()), Code::E007);
    assert_eq!(code(filled("EXPLAIN ", "EXPLAIN ").as_bytes()), Code::E002);
    assert_eq!(
        code(filled("DEFINE TEMPLATE t ELEMENT ", "{").as_bytes()),
        Code::E094
    );
    assert_eq!(
        code(filled("DEFINE TEMPLATE t ELEMENT {", " {").as_bytes()),
        Code::E002
    );
    let sections = filled("DEFINE TEMPLATE t ELEMENT { ", "{{#grain.type}}");
    let sections = sections[..sections.rfind("{{#").unwrap()].to_owned() + " }";
    assert_eq!(code(sections.as_bytes()), Code::E092);
    let deep = format!(
        "DEFINE TEMPLATE t ELEMENT {{ {} }}",
        "{{#grain.type}}".repeat(200)
    );
    assert_eq!(code(deep.as_bytes()), Code::E093);
}

#[test]
fn long_lists_are_an_error() {
    let values = vec!["\"a\""; 1000].join(",");
    assert_eq!(
        code(format!("RECALL WHERE subject IN ({values})").as_bytes()),
        Code::E011
    );
    let parameters: Vec<String> = (0..1000).map(|at| format!("$p{at}")).collect();
    assert_eq!(
        code(format!("RECALL WHERE subject IN ({})", parameters.join(",")).as_bytes()),
        Code::E002
    );
    assert_eq!(code(filled("RECALL ", "| COUNT ").as_bytes()), Code::E021);
    assert_eq!(code(filled("RECALL ", "LIMIT 5 ").as_bytes()), Code::E012);
    assert_eq!(
        code(filled("ASSEMBLE FROM (RECALL)", ",(RECALL)").as_bytes()),
        Code::E032
    );
    assert_eq!(
        code(filled("COALESCE(RECALL", ",RECALL").as_bytes()),
        Code::E039
    );
    assert_eq!(code(filled("", "LET $a=RECALL;").as_bytes()), Code::E009);
    assert_eq!(code(filled("RECALL BETWEEN ", "9").as_bytes()), Code::E020);
    assert_eq!(code(filled("RECALL LIMIT ", "9").as_bytes()), Code::E010);
}

#[test]
fn invalid_utf8_is_an_error() {
    assert_eq!(code(&[b'x'; 8193]), Code::E001);
    assert_eq!(code(&[0xff; 8193]), Code::E001, "length comes first");
    assert_eq!(code(b"RECALL \xff"), Code::E070);
    assert_eq!(code(b"\xc3"), Code::E070);
    assert_eq!(
        code(b"RECALL beliefs WHERE subject = \"\xed\xa0\x80\""),
        Code::E070,
        "a surrogate"
    );
    assert_eq!(code(b"   \n -- nothing"), Code::E014);
    assert_eq!(code(b""), Code::E014);
    assert_eq!(code("RECALL ABOUT \"a\u{202e}b\"".as_bytes()), Code::E071);
    assert_eq!(
        code("DEFINE TEMPLATE t ELEMENT { \u{2066} }".as_bytes()),
        Code::E071
    );
    assert_eq!(
        code(filled("RECALL ABOUT \"", "\\\"").as_bytes()),
        Code::E005
    );
    assert_eq!(
        code(filled("RECALL ", "--").as_bytes().split_at(6).1),
        Code::E014
    );
    assert_eq!(code(b"RECALL\0"), Code::E002);
    assert_eq!(code("\u{feff}RECALL".as_bytes()), Code::E002);
}

#[test]
fn errors_have_positions() {
    let error = parse("RECALL beliefs\n  WHERE «x» = 1", Options::default()).unwrap_err();
    let position = error.position().unwrap();
    assert_eq!(
        (position.line, position.column, position.start, position.end),
        (2, 9, 23, 25)
    );
    let error = parse("RECALL fact", Options::default()).unwrap_err();
    let position = error.position().unwrap();
    assert_eq!((position.start, position.end), (7, 11));
    assert!(error.suggestion().contains("beliefs"));
    let error = parse(
        "DEFINE TEMPLATE t ELEMENT { a {{nope}} }",
        Options::default(),
    )
    .unwrap_err();
    assert_eq!(error.position().unwrap().start, 30);
}

#[test]
fn hostile_json_is_an_error() {
    let code = |text: &str| {
        from_json_bytes(text.as_bytes(), Options::default())
            .expect_err(text)
            .code()
    };
    assert_eq!(code(""), Code::E014);
    assert_eq!(code("{"), Code::E120);
    assert_eq!(code("[]"), Code::E120);
    assert_eq!(code(&"[".repeat(100_000)), Code::E120);
    assert_eq!(code(&"x".repeat(1_000_000)), Code::E001);
    assert_eq!(code(r#"{"statement":"delete"}"#), Code::E120);
    assert_eq!(code(r#"{"statement":"recall","order":"x"}"#), Code::E120);
    assert_eq!(
        code(r#"{"statement":"recall","about":"a","about":"b"}"#),
        Code::E120
    );
    let not_utf8 = from_json_bytes(
        b"{\"statement\":\"recall\",\"about\":\"\xff\"}",
        Options::default(),
    );
    assert_eq!(not_utf8.unwrap_err().code(), Code::E070);
    assert_eq!(
        code(r#"{"cal_version":2,"statement":"recall"}"#),
        Code::E100
    );
    let long = format!(r#"{{"statement":"recall","about":"{}"}}"#, "x".repeat(9000));
    assert_eq!(code(&long), Code::E001);
    let nested = (0..60).fold(r#"{"statement":"recall"}"#.to_owned(), |inner, _| {
        format!(r#"{{"statement":"set_op","op":"union","left":{inner},"right":{{"statement":"recall"}}}}"#)
    });
    assert_eq!(code(&nested), Code::E013);
    let error = from_json_bytes(
        br#"{"statement":"batch","entries":[{"label":"a","query":{"statement":"recall","where":[{"field":"subject","op":"=","value":5}]}}]}"#,
        Options::default(),
    )
    .unwrap_err();
    assert_eq!(
        (error.code(), error.pointer().as_str()),
        (Code::E020, "/entries/0/query/where/0/value")
    );
}

/// Keywords, symbols and literals of statements.
fn token() -> impl Strategy<Value = String> {
    let words = gristmill_queries::cal::keywords::Keyword::ALL
        .iter()
        .map(|keyword| keyword.name().to_owned());
    let more = [
        "beliefs",
        "belief",
        "events",
        "goals",
        "subject",
        "relation",
        "tags",
        "time",
        "confidence",
        "hc",
        "x_o",
        "sml",
        "tokens",
        "grains",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ";",
        "|",
        "/",
        "=",
        "!=",
        ">=",
        "<",
        ">",
        "\"a\"",
        "\"",
        "5",
        "0.5",
        "-1",
        "1e",
        "sha256:a1b2c3d4",
        "sha256:",
        "$a",
        "$b",
        "--",
        "\n",
        "{{grain.type}}",
        "{{",
        "dedup",
        "progressive_disclosure",
        "mmr",
        "chunk_size",
        "all",
        "é",
        "PREFERENCE",
        "delete",
    ];
    let all: Vec<String> = words.chain(more.map(str::to_owned)).collect();
    proptest::sample::select(all)
}

proptest! {
    #[test]
    fn the_parser_never_panics_on_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_bytes(&bytes, Options::default());
        let _ = from_json_bytes(&bytes, Options::default());
    }

    #[test]
    fn the_parser_never_panics_on_text(text in any::<String>()) {
        let _ = parse(&text, Options::default());
        let _ = parse(&format!("RECALL beliefs ABOUT \"{text}"), Options::default());
        let _ = parse(&format!("DEFINE TEMPLATE t ELEMENT {{ {text} }}"), Options { aliases: true });
    }

    #[test]
    fn the_parser_never_panics_on_tokens(tokens in proptest::collection::vec(token(), 0..40), glue in "[ \
        ]{0,1}") {
        let text = tokens.join(&glue);
        if let Ok(parsed) = parse(&text, Options::default()) {
            // The text and the JSON form of a valid query parse to the same tree.
            let printed = parsed.query.to_string();
            prop_assert_eq!(&parse(&printed, Options::default()).unwrap().query, &parsed.query);
            let json = to_json(&parsed.query).to_string();
            prop_assert_eq!(&from_json_bytes(json.as_bytes(), Options::default()).unwrap().query, &parsed.query);
            prop_assert_eq!(query_hash(&parsed.query).len(), 71);
        }
    }

    #[test]
    fn the_parser_never_panics_on_cut_and_repeated_queries(at in 0usize..400, length in 0usize..30) {
        let text = concat!(
            r#"LET $t = RECALL beliefs WHERE relation IS AGENCY | SUBJECTS; ASSEMBLE c FOR "x" FROM a: (RECALL MY events "#,
            r#"IN SCOPE "n" SINCE "last week" WHERE role = "user" AND hc:id IN ("a", $p) WITH dedup(subject) RECENT 5 AS sml), "#,
            r#"b: (RECALL beliefs WHERE subject IN ($t)) BUDGET 900 tokens PRIORITY b > a FORMAT TEMPLATE { ELEMENT { "#,
            r#"{{grain.type}} } } STREAM { all, chunk_size = 20 } WITH progressive_disclosure(full)"#,
        );
        prop_assert!(parse(text, Options::default()).is_ok());
        let at = at.min(text.len());
        let end = (at + length).min(text.len());
        if text.is_char_boundary(at) && text.is_char_boundary(end) {
            let _ = parse(&format!("{}{}", &text[..at], &text[end..]), Options::default());
            let _ = parse(&format!("{}{}", &text[..end], &text[at..]), Options::default());
        }
    }
}
