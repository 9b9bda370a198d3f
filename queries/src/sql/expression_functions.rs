//! Scalar functions that check the form of expressions, citations and grains for rules.
//!
//! | function | result |
//! |---|---|
//! | `is_jq(text)` | whether the text is an expression of jq, by its syntax |
//! | `is_cron(text)` | whether the text is a cron expression of five fields, or of six or seven with seconds and years |
//! | `is_time_zone(text)` | whether the text is the name of an IANA time zone |
//! | `citation_faults(blob)` | what is wrong with the citations of a grain; NULL if nothing is |
//! | `beyond_device_profile(blob, profile)` | by what a grain exceeds a device profile: `size`, `depth` and names of fields; NULL if it doesn't |
//!
//! Names of functions in expressions of jq aren't resolved. A text that is longer than
//! [`LONGEST`], or nested deeper than [`DEEPEST`], isn't judged: the result is NULL.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use croner::parser::CronParser;
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, DeviceProfile, Grain, GrainHeader, Payload, citation_faults,
    may_contain_citation,
};

use super::scalar_functions::{blobs, function, strings, texts};

/// Maximum length of an expression that is judged, in bytes.
const LONGEST: usize = 8 << 10;

/// Maximum number of places in an expression of jq at which its parser may call itself.
const DEEPEST: usize = 256;

/// The number of such places up to which an expression is parsed on the caller's stack. A level
/// takes up to 32 KiB in debug builds.
const SHALLOW: usize = 8;

/// Stack on which deeper expressions are parsed, in bytes: four times what they take.
const PARSER_STACK: usize = 32 << 20;

/// Maximum length of a cron expression in bytes.
const LONGEST_CRON: usize = 256;

/// Registers all of them.
pub(super) fn register(context: &SessionContext) {
    for function in functions() {
        context.register_udf(function);
    }
}

fn functions() -> Vec<ScalarUDF> {
    use DataType::{Binary, Boolean, Utf8};
    vec![
        function("is_jq", vec![Utf8], Boolean, |arguments| {
            each_text(arguments, is_jq)
        }),
        function("is_cron", vec![Utf8], Boolean, |arguments| {
            each_text(arguments, |text| Some(is_cron(text)))
        }),
        function("is_time_zone", vec![Utf8], Boolean, |arguments| {
            each_text(arguments, |text| {
                Some(text.parse::<chrono_tz::Tz>().is_ok())
            })
        }),
        function("citation_faults", vec![Binary], Utf8, |arguments| {
            let blobs = blobs(arguments)?;
            Ok(texts(blobs.iter().map(|blob| faults(blob?))))
        }),
        function(
            "beyond_device_profile",
            vec![Binary, Utf8],
            Utf8,
            |arguments| {
                let (blobs, profiles) = (blobs(arguments)?, strings(arguments, 1)?);
                let rows = blobs.iter().zip(profiles.iter());
                Ok(texts(rows.map(|(blob, profile)| beyond(blob?, profile?))))
            },
        ),
    ]
}

/// Returns the verdict on each text; NULL for NULL.
fn each_text(arguments: &[ArrayRef], verdict: fn(&str) -> Option<bool>) -> Result<ArrayRef> {
    let texts = strings(arguments, 0)?;
    let verdicts = texts.iter().map(|text| verdict(text?));
    Ok(Arc::new(verdicts.collect::<BooleanArray>()))
}

/// Returns whether `text` is an expression of jq; `None` if it is too long or too deep to say.
fn is_jq(text: &str) -> Option<bool> {
    let depth = nesting(text);
    if text.len() > LONGEST || depth > DEEPEST {
        return None;
    }
    if depth <= SHALLOW {
        return Some(is_term(text));
    }
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(PARSER_STACK);
        let parsing = parser.spawn_scoped(scope, || is_term(text)).ok()?;
        parsing.join().ok()
    })
}

fn is_term(text: &str) -> bool {
    jaq_core::load::parse(text, |parser| parser.term()).is_some()
}

/// Words after which the parser calls itself.
const NESTING_WORDS: [&str; 9] = [
    "def", "if", "then", "else", "try", "catch", "reduce", "foreach", "as",
];

/// Returns an upper bound of how often the parser calls itself.
fn nesting(text: &str) -> usize {
    let is_opening = |byte: &u8| matches!(byte, b'(' | b'[' | b'{' | b'-' | b'|' | b',' | b';');
    let openings = text.bytes().filter(|byte| is_opening(byte)).count();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    openings + words.filter(|word| NESTING_WORDS.contains(word)).count()
}

fn is_cron(text: &str) -> bool {
    text.is_ascii() && text.len() <= LONGEST_CRON && CronParser::new().parse(text).is_ok()
}

/// Calls `answer` with the grain of `blob` and returns what it returns; `None` if the grain can't
/// be decoded.
fn with_grain<T>(blob: &[u8], answer: impl FnOnce(&Grain<'_>) -> Option<T>) -> Option<T> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient).ok()?;
    answer(&grain)
}

fn faults(blob: &[u8]) -> Option<String> {
    let header = GrainHeader::read(blob).ok()?;
    // Most grains cite nothing; a byte search avoids decoding them.
    if !header.flags.compressed() && !may_contain_citation(blob) {
        return None;
    }
    with_grain(blob, |grain| {
        let faults: Vec<String> = grain
            .citations()
            .flat_map(|citation| citation_faults(&citation))
            .map(|fault| fault.message().to_owned())
            .collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    })
}

fn beyond(blob: &[u8], profile: &str) -> Option<String> {
    let profile = DeviceProfile::from_name(profile)?;
    with_grain(blob, |grain| {
        let found = profile.beyond(grain, blob.len());
        let size = found.size.map(|_| "size".to_owned());
        let depth = found.depth.map(|_| "depth".to_owned());
        let names: Vec<String> = size.into_iter().chain(depth).chain(found.fields).collect();
        (!names.is_empty()).then(|| names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expressions_of_jq_are_recognized_by_their_syntax() {
        for text in [
            ".",
            ".data.items",
            ".data.items[] | {id, name: .title}",
            "map(select(.state == \"open\")) | length",
            "if .a then .b else .c end",
            "def f(x): x * 2; .[] | f(.)",
            "reduce .[] as $x (0; . + $x)",
            ".a // \"none\" | ascii_downcase",
            "\"\\(.first) \\(.last)\"",
            "[.[]? | try tonumber catch 0]",
            ".headers[\"content-type\"]",
        ] {
            assert_eq!(is_jq(text), Some(true), "{text}");
        }
        for text in [
            "",
            ".data.items[",
            ".a | | .b",
            "{a: }",
            "if .a then .b",
            ".a ++",
            "$.data.items",
            "data items",
            "\"open",
        ] {
            assert_eq!(is_jq(text), Some(false), "{text}");
        }
        assert_eq!(is_jq(&".a".repeat(LONGEST)), None);
    }

    #[test]
    fn nested_expressions_up_to_the_limit_fit_the_stack() {
        let judge = |open: &str, close: &str, count: usize| {
            let text = format!("{}.{}", open.repeat(count), close.repeat(count));
            is_jq(&text)
        };
        for (open, close, each) in [
            ("(", ")", 1),
            ("[", "]", 1),
            ("-", "", 1),
            (". | ", "", 1),
            ("try ", "", 1),
            ("if . then ", " else . end", 3),
            ("{a: ", "}", 1),
            ("def f: .; ", "", 2),
        ] {
            assert_eq!(judge(open, close, DEEPEST / each), Some(true), "{open}");
            assert_eq!(judge(open, close, DEEPEST + 1), None, "{open}");
        }
    }

    #[test]
    fn cron_expressions_have_fields_within_their_ranges() {
        for text in [
            "0 9 * * MON-FRI",
            "*/5 0-6 1,15 * ?",
            "0 0 L * *",
            "30 6 * JAN,JUL 0",
            "0 30 9 * * MON",
        ] {
            assert!(is_cron(text), "{text}");
        }
        for text in [
            "",
            "0 9 * *",
            "every morning",
            "61 9 * * *",
            "0 25 * * *",
            "0 9 32 * *",
            "0 9 * 13 *",
            "0 9 * * FUNDAY",
            "0 9 * * ｍｏｎ",
        ] {
            assert!(!is_cron(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_ends_the_process(text in "[-0-9a-zA-Z*/,?#@LW. |(){}\\[\\]:;\"\\\\$]{0,120}") {
            is_jq(&text);
            is_cron(&text);
        }
    }
}
