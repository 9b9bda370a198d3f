//! Grains in every output format: readings of the specification that its cases don't cover.
//!
//! It is long because each case has its expected output in full.

use gristmill_queries::cal::ast::{Assemble, Budget, FormatSpec, Statement, Stream};
use gristmill_queries::cal::vocabulary::{BudgetUnit, Format, StreamEvent};
use gristmill_queries::cal::{Code, Options, parse};
use gristmill_queries::render::assemble::auto_toon;
use gristmill_queries::render::budget::budget_of;
use gristmill_queries::render::stream_events::events;
use gristmill_queries::render::*;
use gristmill_schemas::json::Json;

/// 2026-01-15T12:00:00Z
const NOW: i64 = 1_768_478_400_000;

fn style() -> RenderStyle {
    RenderStyle::new(NOW, &[], None)
}

fn grain(json: &str) -> GrainView<'static> {
    let payload = Json::parse(json.as_bytes()).unwrap().into_owned();
    let address = format!(
        "{:064x}",
        json.len() as u64 * 7919 + json.bytes().map(u64::from).sum::<u64>()
    );
    GrainView::from_json(&address, payload.as_object().unwrap().clone()).unwrap()
}

fn belief(subject: &str, relation: &str, object: &str) -> GrainView<'static> {
    grain(&format!(
        r#"{{"type":"belief","subject":"{subject}","relation":"{relation}","object":"{object}","confidence":0.90,"created_at":{NOW}}}"#
    ))
}

/// Renders grains as the RECALL of `query` does.
fn rendered(query: &str, grains: &[GrainView]) -> String {
    let Statement::Recall(recall) = parse(query, Options::default()).unwrap().query.statement
    else {
        panic!("{query}")
    };
    let style = RenderStyle::new(NOW, &recall.options, None);
    let entries: Vec<GrainEntry> = grains
        .iter()
        .map(|grain| GrainEntry::new(grain, recall.projection(), &style))
        .collect();
    render_recall(&entries, recall.format.unwrap(), &style)
}

/// Runs an ASSEMBLE whose sources yield these grains.
fn assembled(query: &str, sources: &[Vec<GrainView<'static>>]) -> Assembled {
    let Statement::Assemble(statement) = parse(query, Options::default()).unwrap().query.statement
    else {
        panic!("{query}")
    };
    let template = match &statement.format {
        Some(FormatSpec::Inline(sections)) => Some(CustomTemplate::new(sections, None).unwrap()),
        _ => None,
    };
    assemble(&input(&statement, sources, template.as_ref()))
}

fn input<'i>(
    statement: &'i Assemble,
    sources: &'i [Vec<GrainView<'static>>],
    template: Option<&'i CustomTemplate<'i>>,
) -> AssemblyInput<'i, GrainView<'static>> {
    let found = statement
        .sources
        .iter()
        .zip(sources)
        .map(|(source, grains)| SourceInput::of(source, grains));
    AssemblyInput::of(statement, found.collect(), template, NOW)
}

#[test]
fn text_is_escaped_for_lines_and_attributes() {
    let grains = [grain(
        r#"{"type":"belief","subject":"a \"b\"","relation":"mg:has_said","object":"x\r\n\ty </belief> & <z>","confidence":1.0,"created_at":0}"#,
    )];
    assert_eq!(
        rendered("RECALL AS sml", &grains),
        r#"<belief subject="a 'b'" confidence="1">has said x y </belief> & <z></belief>"#
    );
    let safe = RenderStyle {
        neutralize_tags: true,
        ..style()
    };
    let entry = GrainEntry::new(&grains[0], None, &safe);
    assert_eq!(
        entry.element(Format::Sml, &safe),
        r#"<belief subject="a 'b'" confidence="1">has said x y < /belief> & <z></belief>"#
    );
}

#[test]
fn absent_values_are_not_rendered() {
    let bare = |grain_type: &str| {
        [grain(&format!(
            r#"{{"type":"{grain_type}","created_at":{NOW}}}"#
        ))]
    };
    for (grain_type, sml, text) in [
        ("belief", "<belief></belief>", "[belief] "),
        ("goal", "<goal></goal>", "[goal] "),
        (
            "action",
            "<action phase=\"completed\"></action>",
            "[action]  (completed)",
        ),
        (
            "observation",
            "<observation></observation>",
            "[observation] ",
        ),
        ("consent", "<consent></consent>", "[consent] "),
        ("consensus", "<consensus></consensus>", "[consensus] "),
        (
            "event",
            "<event time=\"0m ago\"></event>",
            "[event]  (0m ago)",
        ),
    ] {
        assert_eq!(rendered("RECALL AS sml", &bare(grain_type)), sml);
        assert_eq!(rendered("RECALL AS text", &bare(grain_type)), text);
        assert_eq!(rendered("RECALL AS triples", &bare(grain_type)), "");
    }
}

#[test]
fn a_grain_shows_the_first_text_that_it_has() {
    for (json, content) in [
        (
            r#"{"type":"event","content_blocks":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"created_at":0}"#,
            "a b",
        ),
        (
            r#"{"type":"event","content":"flat","content_blocks":[{"type":"text","text":"a"}],"created_at":0}"#,
            "flat",
        ),
        (
            r#"{"type":"action","content":"","error":"","stdout":"out","created_at":0}"#,
            "out",
        ),
        (
            r#"{"type":"action","object":{"b":1,"a":2.50},"content":"c","created_at":0}"#,
            r#"{"a":2.50,"b":1}"#,
        ),
        (
            r#"{"type":"goal","description":"d","object":"o","created_at":0}"#,
            "o",
        ),
        (
            r#"{"type":"observation","content":"c","created_at":0}"#,
            "c",
        ),
        (
            r#"{"type":"consensus","agreed_content":"c","created_at":0}"#,
            "c",
        ),
        (r#"{"type":"state","plan":["only"],"created_at":0}"#, "only"),
        (
            r#"{"type":"workflow","steps":["a",{"do":"b"}],"created_at":0}"#,
            r#"1. a  2. {"do":"b"}"#,
        ),
        (
            r#"{"type":"consent","scope":["read","share"],"created_at":0}"#,
            "read, share",
        ),
        (
            r#"{"type":"consent","context":{"purpose":"care"},"scope":["read"],"created_at":0}"#,
            "care",
        ),
        (
            r#"{"type":"consent","purpose":"own","context":{"purpose":"care"},"created_at":0}"#,
            "own",
        ),
        (
            r#"{"type":"fact","subject":"s","relation":"acme:is_a","object":"o","created_at":0}"#,
            "is a o",
        ),
    ] {
        assert_eq!(
            project(&grain(json), None, &style()).content(),
            content,
            "{json}"
        );
    }
}

#[test]
fn times_are_of_the_event_and_relative_or_absolute() {
    let event = grain(
        r#"{"type":"event","content":"x","timestamp_ms":1768474800000,"created_at":1768478400000}"#,
    );
    assert_eq!(
        rendered("RECALL AS text", std::slice::from_ref(&event)),
        "[event] x (1h ago)"
    );
    assert_eq!(
        rendered(
            "RECALL WITH iso_timestamps AS sml",
            std::slice::from_ref(&event)
        ),
        "<event time=\"2026-01-15T11:00:00Z\">x</event>"
    );
}

#[test]
fn project_renders_the_requested_fields_but_never_addresses_or_namespaces() {
    let grains = [grain(
        r#"{"type":"belief","subject":"s","relation":"mg:knows_of","object":"o","confidence":0.5,"namespace":"secret",
            "structural_tags":["a","b"],"x_mood":"good","hc:id":"P-1","context":{"hc:ward":"7"},"created_at":1768478400000}"#,
    )];
    let shown = |query: &str| rendered(query, &grains);
    assert_eq!(
        shown(
            "RECALL PROJECT content(subject, relation, object), attr(tags, x_mood, x_none, hc:id, \
             hc:ward, time) AS sml"
        ),
        r#"<belief tags="a,b" x_mood="good" hc:id="P-1" hc:ward="7" time="0m ago">s knows of o</belief>"#
    );
    assert_eq!(
        shown("RECALL PROJECT content(object), attr(hash, namespace, confidence) AS sml"),
        r#"<belief confidence="0.5">o</belief>"#
    );
    assert_eq!(shown("RECALL PROJECT content(hash) AS text"), "[belief] ");
    assert_eq!(
        shown("RECALL PROJECT content(object), attr(x_none, hash, confidence) AS toon"),
        "beliefs[1]{content,x_none,confidence}:\no,null,0.5"
    );
    assert_eq!(
        shown("RECALL PROJECT attr(confidence, tags) AS toon"),
        "beliefs[1]{confidence,tags}:\n0.5,\"a,b\""
    );
    assert_eq!(
        shown("RECALL PROJECT content(object), attr(confidence) AS markdown"),
        "## Beliefs\n- o (confidence: 0.5)"
    );
    assert_eq!(
        shown("RECALL PROJECT content(object), attr(confidence) AS json"),
        r#"[{"type":"belief","confidence":0.5,"content":"o"}]"#
    );
    let goal = [grain(
        r#"{"type":"goal","description":"d","goal_state":"active","deadline":1773532800000,"created_at":0}"#,
    )];
    assert_eq!(
        rendered(
            "RECALL goals PROJECT content(deadline), attr(state, goal_state) AS sml",
            &goal
        ),
        r#"<goal state="active" goal_state="active">2026-03-15</goal>"#
    );
}

#[test]
fn a_projected_type_is_that_of_the_grain_and_rendered_once() {
    let shown = |query: &str, grain: &GrainView| rendered(query, std::slice::from_ref(grain));
    assert_eq!(
        shown(
            "RECALL PROJECT content(object), attr(type) AS json",
            &belief("s", "r", "o")
        ),
        r#"[{"type":"belief","content":"o"}]"#
    );
    let reasoning = grain(
        r#"{"type":"reasoning","conclusion":"c","inference_method":"abductive","created_at":0}"#,
    );
    assert_eq!(
        shown(
            "RECALL reasonings PROJECT content(conclusion), attr(reasoning_type, type) AS json",
            &reasoning
        ),
        r#"[{"type":"reasoning","reasoning_type":"abductive","content":"c"}]"#
    );
    assert_eq!(
        shown("RECALL reasonings AS json", &reasoning),
        r#"[{"type":"reasoning","reasoning_type":"abductive","content":"c"}]"#
    );
    assert_eq!(
        shown(
            "RECALL reasonings PROJECT content(conclusion), attr(type) AS yaml",
            &reasoning
        ),
        "- type: reasoning\n  content: c"
    );
}

#[test]
fn the_object_of_a_grain_without_one_is_the_equivalent_field_of_its_type() {
    for (stored, object) in [
        (
            r#"{"type":"goal","description":"rest","goal_state":"active","created_at":0}"#,
            "rest",
        ),
        (
            r#"{"type":"goal","object":"sleep","description":"rest","goal_state":"active","created_at":0}"#,
            "sleep",
        ),
        (
            r#"{"type":"action","tool_name":"t","content":"done","created_at":0}"#,
            "done",
        ),
        (
            r#"{"type":"observation","observer_id":"a","observer_type":"agent","content":"rain","created_at":0}"#,
            "rain",
        ),
        (
            r#"{"type":"consensus","agreed_content":"yes","created_at":0}"#,
            "yes",
        ),
        (r#"{"type":"event","content":"hi","created_at":0}"#, ""),
    ] {
        let grain = grain(stored);
        let text = rendered(
            "RECALL PROJECT content(object) AS text",
            std::slice::from_ref(&grain),
        );
        assert_eq!(text, format!("[{}] {object}", grain.grain_type), "{stored}");
        let query = "ASSEMBLE FROM a: (RECALL) FORMAT TEMPLATE { ELEMENT { {{grain.object}} } }";
        assert_eq!(
            assembled(query, &[vec![grain]]).text,
            format!("{object}\n"),
            "{stored}"
        );
    }
}

#[test]
fn grains_of_several_types_are_grouped_where_the_format_groups() {
    let grains = [
        belief("alice", "prefers", "tea"),
        grain(
            r#"{"type":"goal","subject":"alice","description":"rest","goal_state":"active","created_at":0}"#,
        ),
        belief("bob", "prefers", "rum"),
    ];
    assert_eq!(
        rendered("RECALL AS text", &grains),
        "[belief] alice prefers tea (0.9)\n[belief] bob prefers rum (0.9)\n[goal] alice: rest \
         (active)"
    );
    assert_eq!(
        rendered("RECALL AS toon", &grains),
        "beliefs[2]{subject,content,confidence}:\nalice,prefers tea,0.9\nbob,prefers rum,0.9\n\n\
         goals[1]{subject,content,state}:\nalice,rest,active"
    );
    assert_eq!(
        rendered("RECALL AS yaml", &grains[..2]),
        "- type: belief\n  subject: alice\n  confidence: 0.9\n  content: prefers tea\n- type: \
         goal\n  subject: alice\n  state: active\n  content: rest"
    );
    assert_eq!(
        rendered("RECALL AS triples", &grains),
        "alice\tprefers\ttea\nbob\tprefers\trum"
    );
    let empty: [GrainView; 0] = [];
    for (format, nothing) in [
        ("sml", ""),
        ("markdown", ""),
        ("text", ""),
        ("triples", ""),
        ("toon", ""),
        ("json", "[]"),
        ("yaml", "[]"),
    ] {
        assert_eq!(
            rendered(&format!("RECALL AS {format}"), &empty),
            nothing,
            "{format}"
        );
    }
}

#[test]
fn one_result_can_be_rendered_in_several_formats() {
    let entries = [GrainEntry::new(
        &belief("alice", "prefers", "tea"),
        None,
        &style(),
    )];
    let wanted = [
        (None, Format::Text),
        (Some("table"), Format::Toon),
        (None, Format::Text),
    ];
    let formats = render_formats(&wanted, |format| render_recall(&entries, format, &style()));
    assert_eq!(
        Json::Object(formats).to_string(),
        r#"{"text":"[belief] alice prefers tea (0.9)","table":"beliefs[1]{subject,content,confidence}:\nalice,prefers tea,0.9"}"#
    );
}

#[test]
fn an_assembly_without_grains_is_an_envelope() {
    let text = |query: &str| assembled(query, &[vec![]]).text;
    assert_eq!(
        text("ASSEMBLE c FOR \"say \\\"hi\\\"\" FROM (RECALL)"),
        "<context intent=\"say 'hi'\">\n\n</context>"
    );
    assert_eq!(
        text("ASSEMBLE c FROM (RECALL) FORMAT markdown"),
        "## Context: c"
    );
    assert_eq!(
        text("ASSEMBLE c FROM (RECALL) FORMAT toon"),
        "context: c\ntokens: 0/4000"
    );
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 9 grains FORMAT toon"),
        "grains: 0/9"
    );
    assert_eq!(text("ASSEMBLE FROM (RECALL) FORMAT json"), "[]");
}

#[test]
fn in_toon_sources_with_and_without_a_projection_share_a_table_that_drops_nothing() {
    let sources = [
        vec![belief("carol", "likes", "tea")],
        vec![belief("dave", "likes", "rum")],
    ];
    let query = "ASSEMBLE FROM a: (RECALL beliefs PROJECT content(object), attr(confidence, tags)), b: (RECALL beliefs)
                 FORMAT toon";
    let text = assembled(query, &sources).text;
    assert!(
        text.contains("beliefs[2]{subject,content,confidence,tags}:"),
        "{text}"
    );
    assert!(text.contains("\n  dave,"), "{text}");
}

#[test]
fn duplicates_are_dropped_from_less_important_sources_only() {
    let (tea, rum) = (
        belief("alice", "prefers", "tea"),
        belief("alice", "drinks", "rum"),
    );
    let goal = grain(r#"{"type":"goal","subject":"alice","description":"rest","created_at":0}"#);
    let nameless = grain(r#"{"type":"belief","object":"x","created_at":1}"#);
    let sources = [
        vec![tea.clone()],
        vec![
            tea.clone(),
            rum.clone(),
            goal.clone(),
            nameless.clone(),
            nameless.clone(),
        ],
    ];
    let plain = assembled(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) FORMAT text",
        &sources,
    );
    assert_eq!(
        plain
            .sources
            .iter()
            .map(|source| source.duplicates)
            .collect::<Vec<_>>(),
        [0, 2],
        "by address"
    );
    let dedup = assembled(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) FORMAT text WITH dedup(subject)",
        &sources,
    );
    assert_eq!(
        dedup
            .sources
            .iter()
            .map(|source| source.duplicates)
            .collect::<Vec<_>>(),
        [0, 3],
        "rum by subject too"
    );
    let turned = assembled(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) PRIORITY b FORMAT text WITH dedup(subject)",
        &sources,
    );
    assert_eq!(
        turned
            .sources
            .iter()
            .map(|source| source.duplicates)
            .collect::<Vec<_>>(),
        [1, 1],
        "b keeps both of its own"
    );
}

#[test]
fn a_failed_source_leaves_its_budget_to_the_others() {
    let Statement::Assemble(statement) = parse(
        "ASSEMBLE FROM a: (RECALL), b: (RECALL) BUDGET 10 grains FORMAT text",
        Options::default(),
    )
    .unwrap()
    .query
    .statement
    else {
        panic!()
    };
    let many: Vec<GrainView> = (0..20)
        .map(|at| belief("s", "r", &"o".repeat(at)))
        .collect();
    let sources = [vec![], many];
    let mut input = input(&statement, &sources, None);
    input.sources[0].failed = true;
    let assembled = assemble(&input);
    assert_eq!(assembled.sources[1].allocated, 10);
    assert_eq!(assembled.sources[1].included, 10);
    assert_eq!(assembled.sources[1].cut, 10);
}

#[test]
fn disclosure_follows_the_option_and_a_tight_budget() {
    let sources = [vec![belief("alice", "prefers", "tea")]];
    let text = |query: &str| assembled(query, &sources).text;
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 900 tokens FORMAT text WITH progressive_disclosure"),
        "[belief] alice prefers tea"
    );
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 1000 tokens FORMAT text WITH progressive_disclosure"),
        "[belief] alice prefers tea (0.9)"
    );
    assert_eq!(
        text(
            "ASSEMBLE FROM (RECALL) BUDGET 900 tokens FORMAT text WITH \
             progressive_disclosure(headlines)"
        ),
        "[belief] alice prefers tea (0.9)"
    );
    assert_eq!(
        text("ASSEMBLE FROM (RECALL) BUDGET 5 grains FORMAT text WITH progressive_disclosure"),
        "[belief] alice prefers tea (0.9)"
    );
}

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
fn auto_toon_needs_a_tight_token_budget_and_sources_of_one_type() {
    let decide = |query: &str, sources: &[Vec<GrainView<'static>>]| {
        let Statement::Assemble(statement) =
            parse(query, Options::default()).unwrap().query.statement
        else {
            panic!()
        };
        auto_toon(&input(&statement, sources, None))
    };
    let beliefs: Vec<GrainView> = (1..=10)
        .map(|at| belief("s", "r", &"o".repeat(at)))
        .collect();
    let mut mixed = beliefs.clone();
    mixed.push(grain(r#"{"type":"goal","description":"d","created_at":0}"#));
    assert!(decide(
        "ASSEMBLE FROM (RECALL) BUDGET 100 tokens",
        std::slice::from_ref(&beliefs)
    ));
    assert!(!decide(
        "ASSEMBLE FROM (RECALL) BUDGET 1000 tokens",
        std::slice::from_ref(&beliefs)
    ));
    assert!(!decide(
        "ASSEMBLE FROM (RECALL) BUDGET 100 grains",
        &[beliefs]
    ));
    assert!(!decide(
        "ASSEMBLE FROM (RECALL) BUDGET 100 tokens",
        &[mixed]
    ));
}

#[test]
fn streams_have_the_requested_events_in_causal_order() {
    let Statement::Assemble(statement) = parse(
        "ASSEMBLE c FROM a: (RECALL), (RECALL) BUDGET 500 tokens FORMAT text",
        Options::default(),
    )
    .unwrap()
    .query
    .statement
    else {
        panic!()
    };
    let sources = [
        (0..40)
            .map(|at| belief("s", "r", &"word ".repeat(at)))
            .collect::<Vec<_>>(),
        vec![],
    ];
    let input = input(&statement, &sources, None);
    let assembled = assemble(&input);
    let told = |stream: Stream| -> Vec<String> {
        let events = events("asm_1", &stream, &input, &assembled);
        events
            .iter()
            .map(|event| event.get("type").unwrap().as_str().unwrap().to_owned())
            .collect()
    };
    let all = told(Stream {
        events: vec![StreamEvent::All],
        chunk_size: Some(50),
    });
    assert_eq!(
        all[..8],
        [
            "assembly_started",
            "source_started",
            "source_completed",
            "source_started",
            "source_completed",
            "dedup_completed",
            "budget_allocated",
            "disclosure_decided"
        ]
    );
    assert!(all[8..all.len() - 1].iter().all(|event| event == "chunk") && all.len() > 12);
    assert_eq!(all.last().unwrap(), "assembly_completed");
    assert_eq!(
        told(Stream {
            events: vec![StreamEvent::Budget],
            chunk_size: None
        })
        .len(),
        3
    );
    let text: String = events(
        "a",
        &Stream {
            events: vec![StreamEvent::Chunks],
            chunk_size: None,
        },
        &input,
        &assembled,
    )
    .iter()
    .map(|event| event.get("content").unwrap().as_str().unwrap().to_owned())
    .collect();
    assert_eq!(text, assembled.text);
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

#[test]
fn the_default_budget_is_four_thousand_tokens() {
    let Statement::Assemble(statement) = parse("ASSEMBLE FROM (RECALL)", Options::default())
        .unwrap()
        .query
        .statement
    else {
        panic!()
    };
    assert_eq!(
        budget_of(&statement),
        Budget {
            amount: 4000,
            unit: BudgetUnit::Tokens
        }
    );
}
