//! Templates of ASSEMBLE: presets, budgets, checks.

use gristmill_queries::cal::Code;
use gristmill_queries::render::*;

use super::{assembled, belief};

#[test]
fn a_template_fills_what_it_does_not_define_from_its_preset() {
    let sources = [
        vec![
            belief("alice", "prefers", "tea"),
            belief("bob", "prefers", "rum"),
        ],
        vec![belief("carol", "prefers", "gin")],
    ];
    let text = |template: &str, more: &str| {
        let query = format!(
            "ASSEMBLE c FROM a: (RECALL), b: (RECALL) BUDGET 100 grains FORMAT TEMPLATE {{ \
             {template} }} {more}"
        );
        assembled(&query, &sources).text
    };
    assert_eq!(
        text("HEADER { {{assembly.name}} }", ""),
        "c\n- alice prefers tea (confidence: 0.9)\n- bob prefers rum (confidence: 0.9)\n- carol \
         prefers gin (confidence: 0.9)\n"
    );
    assert_eq!(
        text("ELEMENT { {{grain.subject}} } ELEMENT_SUMMARY { s }", ""),
        "alice\nbob\ncarol\n"
    );
    assert_eq!(
        text(
            "ELEMENT { {{grain.subject}} } ELEMENT_SUMMARY { s }",
            "WITH progressive_disclosure(summary)"
        ),
        "s\ns\ns\n"
    );
    assert_eq!(
        text(
            "ELEMENT { x } SOURCE_BREAK { {{source.label}}:{{#each}}{{grain.object}}{{/each}} }",
            ""
        ),
        "x\nx\nb:gin\nx\n"
    );
    assert_eq!(
        text(
            "ELEMENT { } FOOTER { {{#each}}{{grain.object}} {{/each}} }",
            ""
        ),
        "tea rum gin \n"
    );
    assert_eq!(
        text(
            "ELEMENT { \
             {{grain.humanized_relation}}|{{grain.importance}}|{{#grain.is_full}}full{{/grain.is_full}}|{{grain.relative_time}} \
             }",
            ""
        ),
        "prefers|||0m ago\n".repeat(3)
    );
}

#[test]
fn whether_a_grain_is_shown_in_full_is_printed_and_decides_sections() {
    let sources = [vec![belief("alice", "prefers", "tea")]];
    let text = |more: &str| {
        let query = format!(
            "ASSEMBLE FROM a: (RECALL) BUDGET 100 grains FORMAT TEMPLATE {{ ELEMENT {{ \
             {{{{grain.is_full}}}} {{{{grain.is_summary}}}}\
             {{{{^grain.is_full}}}} not full{{{{/grain.is_full}}}} }} }} {more}"
        );
        assembled(&query, &sources).text
    };
    assert_eq!(text(""), "false false not full\n");
    assert_eq!(text("WITH progressive_disclosure(full)"), "true false\n");
    assert_eq!(
        text("WITH progressive_disclosure(summary)"),
        "false true not full\n"
    );
}

#[test]
fn a_template_shows_what_the_budget_cut_and_is_capped() {
    let grains: Vec<GrainView> = (1..=5)
        .map(|at| belief("s", "r", &"o".repeat(at)))
        .collect();
    let query = "ASSEMBLE FROM a: (RECALL) BUDGET 2 grains FORMAT TEMPLATE { ELEMENT { \
                 {{grain.object}} } ELEMENT_OMIT { - } }";
    assert_eq!(
        assembled(query, std::slice::from_ref(&grains)).text,
        "o\noo\n-\n-\n-\n"
    );
    let bomb = format!(
        "ASSEMBLE FROM a: (RECALL) BUDGET 10 tokens FORMAT TEMPLATE {{ HEADER {{ \
         {}{{{{grain.object}}}}boom{} }} ELEMENT {{ x }} }}",
        "{{#each}}".repeat(5),
        "{{/each}}".repeat(5)
    );
    let out = assembled(&bomb, &[grains]);
    assert!(out.truncated);
    assert_eq!(
        out.text.chars().count(),
        80,
        "twice ten tokens of four characters"
    );
}

#[test]
fn unchecked_templates_are_checked_when_they_are_rendered() {
    let mut sections = gristmill_queries::cal::ast::Sections::default();
    sections.define(
        gristmill_queries::cal::vocabulary::SectionName::Element,
        "{{nope}}\n".to_owned(),
    );
    assert_eq!(
        CustomTemplate::new(&sections, None).unwrap_err().code(),
        Code::E090
    );
}
