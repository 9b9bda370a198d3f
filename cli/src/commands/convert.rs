//! `convert`: converts between transcripts, messages and grains, and checks that exchanges survive
//! a round trip.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, ErrorKind};

use gristmill_connectors::source::{Source, SourceBytes, SourceKind, discover, fetch};
use gristmill_connectors::transcript::convert::{Conversion, Notice, OutputFormat, convert};
use gristmill_connectors::transcript::exchange::normalize::normalize;
use gristmill_connectors::transcript::exchange::round_trip_report::{
    CheckReport, EndpointReport, check_round_trip,
};
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::options::ReadOptions;
use gristmill_connectors::wire::adapter::Adapter;
use gristmill_connectors::wire::registry;
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::price::PriceTable;
use serde::Serialize;

use super::CommandContext;
use crate::args::transfer::ConvertArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;
use crate::output::stdout_failure;

/// Number of unreadable lines of a source that are reported individually; further ones are counted.
const REPORTED_FAULTS: u64 = 5;

/// Size of the output buffer in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Converts the sources one after another; the outcome is `Problems` if a line couldn't be read.
pub async fn run(
    context: &CommandContext,
    arguments: ConvertArgs,
) -> Result<CommandOutcome, Failure> {
    let named = if arguments.sources.is_empty() {
        vec!["-".to_owned()]
    } else {
        arguments.sources.clone()
    };
    let adapter = arguments.provider.as_deref().map(adapter_of).transpose()?;
    let prices = context.prices()?;
    let sources = discover(&named).await?;
    let mut conversion = ConversionRun {
        context,
        arguments: &arguments,
        adapter,
        prices: &prices,
        problems: 0,
        totals: BTreeMap::new(),
    };
    for source in &sources {
        if conversion.source(source).await? == Output::Closed {
            return Ok(CommandOutcome::Done);
        }
    }
    let ConversionRun {
        mut problems,
        totals,
        ..
    } = conversion;
    if arguments.check_round_trip {
        let endpoints = totals.into_values().collect::<Vec<_>>();
        problems += endpoints
            .iter()
            .map(|endpoint| endpoint.unequal)
            .sum::<u64>();
        context
            .printer(arguments.results)
            .record(&EndpointReports { endpoints })?;
    }
    Ok(CommandOutcome::done_if(problems == 0))
}

/// State of standard output.
#[derive(PartialEq, Eq)]
enum Output {
    Open,
    Closed,
}

/// A run of the command over its sources.
struct ConversionRun<'r> {
    context: &'r CommandContext,
    arguments: &'r ConvertArgs,
    adapter: Option<&'static dyn Adapter>,
    prices: &'r PriceTable,
    /// Unreadable lines and unsupported sources so far.
    problems: u64,
    /// Results of the round-trip check so far, by endpoint.
    totals: BTreeMap<String, EndpointReport>,
}

impl ConversionRun<'_> {
    /// Converts or checks one source.
    async fn source(&mut self, source: &Source) -> Result<Output, Failure> {
        let bytes = fetch(source).await?;
        let Some(kind) = self.kind_of(source, &bytes) else {
            self.problems += 1;
            let why = why_not(&bytes, &source.uri);
            note(format_args!("{}: {why}", source.uri));
            return Ok(Output::Open);
        };
        if self.arguments.check_round_trip {
            self.check(source, &bytes, kind);
            return Ok(Output::Open);
        }
        let to = self.arguments.to.0;
        let conversion = Conversion {
            from: kind,
            to,
            options: self.read_options(source),
            target: self.adapter.filter(|_| to == OutputFormat::Exchanges),
            prices: self.prices,
        };
        match write_one(source, &bytes, conversion) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Output::Closed),
            unreadable => self.problems += unreadable.map_err(|error| stdout_failure(&error))?,
        }
        Ok(Output::Open)
    }

    /// Returns the kind of a source: the given one, or else the detected one. Input without content
    /// is exchanges, of which there are none, and so is with --provider what isn't of a known
    /// format: the reader reports every line that it can't read.
    fn kind_of(&self, source: &Source, bytes: &SourceBytes) -> Option<TranscriptKind> {
        let detected = || TranscriptKind::detect(bytes, &source.uri);
        let exchanges = || {
            let is_of_provider =
                self.adapter.is_some() && !TranscriptKind::is_foreign(bytes, &source.uri);
            (is_of_provider || bytes.trim_ascii().is_empty()).then_some(TranscriptKind::Exchanges)
        };
        self.arguments.from.0.or_else(detected).or_else(exchanges)
    }

    /// Checks that the exchanges of a source survive a round trip.
    fn check(&mut self, source: &Source, bytes: &SourceBytes, kind: TranscriptKind) {
        let normalized = normalize(bytes, kind);
        let lines = normalized
            .as_ref()
            .map_or(&bytes[..], |normalized| normalized.lines.as_bytes());
        let report = check_round_trip(lines, self.read_options(source));
        self.problems += report_check(source, &report);
        for endpoint in report.endpoints {
            add(&mut self.totals, endpoint);
        }
    }

    fn read_options(&self, source: &Source) -> ReadOptions<'_> {
        ReadOptions {
            fallback: Timestamp::of_file(source.time),
            provider: self.adapter.map(|adapter| adapter.key()),
            namespace: self.arguments.namespace.as_deref(),
            threads: self.context.threads(),
            ..ReadOptions::default()
        }
    }
}

/// Result of the round-trip check, by endpoint.
#[derive(Serialize)]
struct EndpointReports {
    endpoints: Vec<EndpointReport>,
}

/// Returns the adapter with this key, or the first of this provider.
pub fn adapter_of(name: &str) -> Result<&'static dyn Adapter, Failure> {
    let of_provider = || registry::adapters().find(|adapter| adapter.provider() == name);
    registry::by_key(name).or_else(of_provider).ok_or_else(|| {
        let mut known: Vec<_> = registry::adapters().map(|adapter| adapter.key()).collect();
        known.sort_unstable();
        Failure::usage(format!(
            "unknown provider `{name}`; known providers: {}",
            known.join(", ")
        ))
    })
}

/// Explains to the user why a source has no kind that can be converted.
fn why_not(bytes: &[u8], uri: &str) -> String {
    match SourceKind::detect(bytes, uri) {
        None | Some(SourceKind::Transcript(_)) => TranscriptKind::why_not(bytes, uri),
        Some(_) => "it has encoded grains: `gristmill inspect` shows some, and from a lake \
                    `gristmill export --format jsonl` writes all as JSON"
            .to_owned(),
    }
}

/// Converts one source; returns the number of unreadable lines.
fn write_one(source: &Source, bytes: &SourceBytes, conversion: Conversion<'_>) -> io::Result<u64> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let mut problems = 0;
    let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
    convert(bytes, conversion, &mut out, &mut |notice| match notice {
        Notice::Fault(fault) => {
            problems += 1;
            match problems <= REPORTED_FAULTS {
                true => note(format_args!("{}: {fault}", source.uri)),
                false => *codes.entry(fault.code.name()).or_default() += 1,
            }
        }
        Notice::Dated {
            response,
            header,
            file,
        } => {
            tracing::warn!(
                source = source.uri,
                by_response = response,
                by_header = header,
                by_file = file,
                "some messages have no recorded time; see `time_source`"
            );
        }
        Notice::Dropped(dropped) => tracing::warn!("{dropped}"),
        Notice::Opaque {
            line,
            label,
            reason,
        } => {
            tracing::warn!(
                source = source.uri,
                line,
                endpoint = label,
                "stored unparsed: {reason}"
            );
        }
    })?;
    if !codes.is_empty() {
        let counts: Vec<String> = codes
            .iter()
            .map(|(code, count)| format!("{count} {code}"))
            .collect();
        note(format_args!(
            "{}: {} more: {}",
            source.uri,
            problems - REPORTED_FAULTS,
            counts.join(", ")
        ));
    }
    Ok(problems)
}

/// Reports unreadable lines and differing exchanges; returns the number of unreadable lines.
fn report_check(source: &Source, report: &CheckReport) -> u64 {
    for fault in &report.faults {
        note(format_args!("{}: {fault}", source.uri));
    }
    for difference in &report.differences {
        let (line, endpoint, id, path) = (
            difference.line,
            &difference.endpoint,
            &difference.id,
            &difference.path,
        );
        note(format_args!(
            "{}: line {line}: {endpoint} {id} differs at {path}",
            source.uri
        ));
    }
    report.faults.len() as u64
}

fn add(totals: &mut BTreeMap<String, EndpointReport>, part: EndpointReport) {
    let total = totals.entry(part.endpoint.clone()).or_default();
    total.endpoint = part.endpoint;
    total.exchanges += part.exchanges;
    total.equal += part.equal;
    total.unequal += part.unequal;
    total.opaque += part.opaque;
    total.first_difference = total.first_difference.take().or(part.first_difference);
}
