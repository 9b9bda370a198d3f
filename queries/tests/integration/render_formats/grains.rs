//! The grains of a RECALL in every format.

use gristmill_queries::cal::vocabulary::Format;
use gristmill_queries::render::*;
use gristmill_schemas::json::Json;

use super::{NOW, assembled, belief, grain, rendered, style};

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
fn an_empty_object_is_a_value() {
    let grains = [belief("s", "mg:is_set", "")];
    for (format, text) in [
        (
            "sml",
            "<belief subject=\"s\" confidence=\"0.9\">is set </belief>",
        ),
        ("markdown", "## Beliefs\n- s is set  (confidence: 0.9)"),
        ("text", "[belief] s is set  (0.9)"),
        ("triples", "s\tis set\t"),
    ] {
        assert_eq!(rendered(&format!("RECALL AS {format}"), &grains), text);
    }
    let toon = rendered("RECALL AS toon", &grains);
    assert!(toon.contains("s,\"is set \",0.9"), "{toon}");
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
fn a_projected_boolean_is_no_text() {
    let action = [grain(
        r#"{"type":"action","tool_name":"t","is_error":false,"x_note":"true","created_at":0}"#,
    )];
    for (format, expected) in [
        (
            "json",
            r#"[{"type":"action","is_error":false,"x_note":"true","content":"t"}]"#,
        ),
        (
            "yaml",
            "- type: action\n  is_error: false\n  x_note: \"true\"\n  content: t",
        ),
        (
            "toon",
            "actions[1]{content,is_error,x_note}:\nt,false,\"true\"",
        ),
        (
            "sml",
            r#"<action is_error="false" x_note="true">t</action>"#,
        ),
    ] {
        let query =
            format!("RECALL actions PROJECT content(tool), attr(is_error, x_note) AS {format}");
        assert_eq!(rendered(&query, &action), expected, "{format}");
    }
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
