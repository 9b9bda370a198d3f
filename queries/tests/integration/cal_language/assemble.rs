//! ASSEMBLE and templates.

use super::{assert_outcomes, json, outcome};

#[test]
fn assemble_has_its_clauses_in_order() {
    assert_outcomes(&[
        ("ASSEMBLE FROM (RECALL)", "ok"),
        ("ASSEMBLE FOR \"x\" FROM (RECALL)", "ok"),
        ("ASSEMBLE \"x\" FROM (RECALL)", "E002"),
        (
            "ASSEMBLE x FOR \"a\" FROM a: (RECALL), (RECALL) BUDGET 5 grains PRIORITY a FORMAT \
             data STREAM WITH summarize",
            "ok",
        ),
        ("ASSEMBLE x FROM (RECALL) FOR \"a\"", "E002"),
        (
            "ASSEMBLE x FROM a: (RECALL) PRIORITY a BUDGET 5 grains",
            "E002",
        ),
        ("ASSEMBLE x FROM (RECALL) WITH summarize FORMAT sml", "E002"),
        (
            "ASSEMBLE x FROM (RECALL) WITH summarize WITH explanation",
            "E002",
        ),
        ("ASSEMBLE x FROM (RECALL),", "E002"),
        ("ASSEMBLE x FROM (ASSEMBLE y FROM (RECALL))", "E002"),
        ("ASSEMBLE x FROM (EXISTS sha256:a1b2c3d4)", "E002"),
        ("ASSEMBLE x FROM a: (RECALL), a: (RECALL)", "E034"),
        ("ASSEMBLE x FROM a: (RECALL) PRIORITY b", "E035"),
        ("ASSEMBLE x FROM a: (RECALL) PRIORITY a > a", "E034"),
        ("ASSEMBLE x FROM a: (RECALL), b: (RECALL) PRIORITY b", "ok"),
        ("ASSEMBLE x FROM a: (RECALL) PRIORITY a: 0.5", "E002"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 5", "E002"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 0 tokens", "E006"),
        ("ASSEMBLE x FROM (RECALL) BUDGET -5 tokens", "E006"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 1.5 tokens", "E006"),
        ("ASSEMBLE x FROM (RECALL) BUDGET $n tokens", "E002"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 16000 TOKENS", "ok"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 16001 tokens", "E033"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 201 grains", "E033"),
        ("ASSEMBLE x FROM (RECALL) BUDGET 5 bytes", "E002"),
        ("ASSEMBLE x FROM (RECALL) FORMAT html", "E002"),
        ("ASSEMBLE x FROM (RECALL) FORMAT Structured", "ok"),
        ("ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE mine", "ok"),
        ("ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE", "E002"),
        ("ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { }", "E002"),
        (
            "ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { ELEMENT { x }",
            "E002",
        ),
        (
            "ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { ELEMENT { x } } WITH summarize",
            "ok",
        ),
        ("ASSEMBLE x FROM (RECALL) STREAM { }", "E002"),
        (
            "ASSEMBLE x FROM (RECALL) STREAM { progress, budget, chunks }",
            "ok",
        ),
        ("ASSEMBLE x FROM (RECALL) STREAM { everything }", "E077"),
        ("ASSEMBLE x FROM (RECALL) STREAM { chunk_size = 20 }", "ok"),
        ("ASSEMBLE x FROM (RECALL) STREAM { chunk_size = 0 }", "E078"),
        ("ASSEMBLE x FROM (RECALL) STREAM { chunk_size }", "E002"),
        ("ASSEMBLE x FROM (RECALL) STREAM { all", "E002"),
    ]);
    let sources = |count: usize| vec!["(RECALL)"; count].join(", ");
    assert_eq!(outcome(&format!("ASSEMBLE x FROM {}", sources(8))), "ok");
    assert_eq!(outcome(&format!("ASSEMBLE x FROM {}", sources(9))), "E032");
    assert_eq!(
        outcome(&format!("ASSEMBLE {} FROM (RECALL)", "n".repeat(64))),
        "ok"
    );
    assert_eq!(
        outcome(&format!(
            "ASSEMBLE x FOR \"{}\" FROM (RECALL)",
            "é".repeat(256)
        )),
        "ok"
    );
    assert_eq!(
        outcome(&format!(
            "ASSEMBLE x FOR \"{}\" FROM (RECALL)",
            "é".repeat(257)
        )),
        "E002"
    );
    assert_eq!(
        json("ASSEMBLE x FROM (RECALL) STREAM"),
        json("ASSEMBLE x FROM (RECALL) STREAM { ALL }")
    );
}

#[test]
fn templates_are_checked_when_they_are_defined() {
    assert_outcomes(&[
        (
            "DEFINE TEMPLATE t EXTENDS structured HEADER { a } ELEMENT { b } FOOTER { c }",
            "ok",
        ),
        (
            "define template t element { {{#each}}{{grain.content}}{{/each}} }",
            "ok",
        ),
        ("DEFINE TEMPLATE t ELEMENT { } ELEMENT_SUMMARY { x }", "ok"),
        ("DEFINE TEMPLATE t", "E002"),
        ("DEFINE t ELEMENT { x }", "E002"),
        ("DEFINE TEMPLATE \"t\" ELEMENT { x }", "E002"),
        ("DEFINE TEMPLATE t AS \"x\"", "E002"),
        ("DEFINE TEMPLATE t BODY { x }", "E002"),
        ("DEFINE TEMPLATE t ELEMENT x", "E002"),
        ("DEFINE TEMPLATE t ELEMENT { x", "E002"),
        ("DEFINE TEMPLATE t ELEMENT { x } }", "E002"),
        ("DEFINE TEMPLATE t EXTENDS data ELEMENT { x }", "E086"),
        ("DEFINE TEMPLATE t EXTENDS json ELEMENT { x }", "E087"),
        ("DEFINE TEMPLATE t ELEMENT { a } ELEMENT { b }", "E095"),
        ("DEFINE TEMPLATE t ELEMENT { {{grain.nope}} }", "E090"),
        (
            "DEFINE TEMPLATE t ELEMENT { {{#grain.nope}}x{{/grain.nope}} }",
            "E090",
        ),
        ("DEFINE TEMPLATE t ELEMENT { {{#grain.tags}}x }", "E091"),
        ("DEFINE TEMPLATE t ELEMENT { x{{/grain.tags}} }", "E091"),
        ("DEFINE TEMPLATE t ELEMENT { {{}} }", "E094"),
        ("DEFINE TEMPLATE t ELEMENT { {{=<% %>=}} }", "E094"),
        ("DEFINE TEMPLATE t ELEMENT { {{grain.type }", "E094"),
        (
            "DEFINE TEMPLATE t ELEMENT { {\"type\": \"{{grain.type}}\"} }",
            "ok",
        ),
        (
            "ASSEMBLE x FROM (RECALL) FORMAT TEMPLATE { ELEMENT { {{nope}} } }",
            "E090",
        ),
    ]);
    let define = |bytes: usize| {
        outcome(&format!(
            "DEFINE TEMPLATE t HEADER {{ {} }}",
            "x".repeat(bytes)
        ))
    };
    assert_eq!(
        define(4095),
        "ok",
        "with its newline the text has 4096 bytes"
    );
    assert_eq!(define(4096), "E092");
    assert_eq!(
        json("DEFINE TEMPLATE t ELEMENT {\n  a\n} SOURCE_BREAK { - } HEADER {}"),
        r#"{"cal_version":1,"statement":"define_template","name":"t","sections":{"header":"","element":"  a\n","source_break":"-\n"}}"#
    );
}
