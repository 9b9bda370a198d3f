//! `erase`: plans an erasure and carries it out.

use std::io::Write;
use std::path::Path;

use gristmill_engine::destination::PendingFile;
#[cfg(not(feature = "cluster"))]
use gristmill_engine::erase::erase;
use gristmill_engine::erase::{
    ErasureOptions, ErasurePlan, ErasureReport, RequestOrigin, SubjectRequest, plan,
};
use gristmill_engine::lake::Lake;
use gristmill_queries::render::shell_quoted;

use super::CommandContext;
use super::keys::keyring;
use super::subject_selector::request_of;
use crate::args::governance::{EraseArgs, ErasureRunArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;
use crate::output::{begin_file, is_stdout};

/// Plans an erasure and carries it out with `--execute`.
pub async fn run(
    context: &CommandContext,
    arguments: EraseArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    // The demo has explanations of its own.
    let is_explained = printer.is_for_people() && arguments.results.most_lines.is_none();
    let is_explained = is_explained && !context.common.quiet;
    let request = request_of(context, &arguments.selector)?;
    let mut lake = context.open_lake().await?;
    if !arguments.execute {
        let planned = planned(context, &arguments, &mut lake, &request).await?;
        printer.record(&planned)?;
        hint(context, &planned, is_explained);
        note_if_nothing(context, &planned);
        return Ok(CommandOutcome::Done);
    }
    let is_exclusive = arguments.run.exclusive;
    let options = erasure_options(context, arguments.run, None, arguments.destroy_keys)?;
    // Before the erasure, after which the same command would certify that nothing was found.
    let copy = arguments.certificate.as_deref();
    let file = copy.map(begin_file).transpose()?;
    #[cfg(feature = "cluster")]
    let erased =
        super::cluster::erase(context, &arguments.cluster, &mut lake, &request, &options).await?;
    #[cfg(not(feature = "cluster"))]
    let erased = erase(&mut lake, &request, &options).await?;
    let copied = match copy.zip(file) {
        Some((path, file)) => copy_certificate(context, &lake, &erased, path, file).await,
        None => Ok(()),
    };
    // Certificate and result must not be mixed on standard output.
    match is_stdout(copy) {
        true => printer.print_requests(),
        false => printer.record(&erased)?,
    }
    copied?;
    // The plan of a resumed erasure doesn't have what the interrupted run removed.
    let scope = &erased.scope;
    if scope.grains + scope.rejects + scope.events == 0 {
        note_if_nothing(context, &erased.plan);
    }
    // The demo prints the certificate, which states it.
    if arguments.results.most_lines.is_none() {
        note_short_identifiers(context, &request, &erased.plan);
    }
    note_retained_texts(context, &erased);
    if erased.proven {
        if is_explained {
            explain_proof(context, arguments.certificate.as_deref(), &erased);
        }
        return Ok(CommandOutcome::Done);
    }
    note(format_args!(
        "the erasure was carried out but is not proven: {} occurrences remain in {}. {}",
        erased.proofs.byte_search.remnants,
        erased.proofs.byte_search.remnant_files.join(", "),
        remedy_of_remnants(is_exclusive)
    ));
    Ok(CommandOutcome::Problems)
}

/// Writes the certificate to `file`, which appears at `path`. The failure names the lake's own.
async fn copy_certificate(
    context: &CommandContext,
    lake: &Lake,
    erased: &ErasureReport,
    path: &Path,
    mut file: PendingFile,
) -> Result<(), Failure> {
    let signed = lake
        .location()
        .read(&erased.certificate.as_str().into())
        .await?;
    let written = file.write_all(&signed).and_then(|()| file.finish(true));
    written.map_err(|error| {
        let original = certificate_in(context, erased);
        let cause =
            format!("{error}. The erasure was carried out, and its certificate is `{original}`");
        Failure::writing(path, &cause)
    })
}

/// Returns the place of the certificate in the lake.
fn certificate_in(context: &CommandContext, erased: &ErasureReport) -> String {
    format!("{}/{}", context.lake(), erased.certificate)
}

/// Plans the erasure of `request`.
async fn planned(
    context: &CommandContext,
    arguments: &EraseArgs,
    lake: &mut Lake,
    request: &SubjectRequest,
) -> Result<ErasurePlan, Failure> {
    let threads = context.row_group_threads();
    #[cfg(feature = "cluster")]
    if arguments.cluster.cluster.is_some() {
        let cluster = &arguments.cluster;
        return super::cluster::plan_erasure(context, cluster, lake, request, threads).await;
    }
    #[cfg(not(feature = "cluster"))]
    let _ = arguments;
    let (planned, _) = plan(lake, request, threads).await?;
    Ok(planned)
}

/// Returns what can be done about occurrences that remain.
fn remedy_of_remnants(is_exclusive: bool) -> &'static str {
    match is_exclusive {
        true => {
            "They were there after files without references were removed: files of `grains`, \
             `rejects`, `state` and `sources` were written by another process meanwhile, so run \
             the erasure again without other writers; `gristmill sql` shows the rows of `audit` \
             that name the people, which stay; files in `erasures` are proofs, which stay, too; \
             other files aren't of the lake: look at them, and remove them yourself"
        }
        false => {
            "Unreferenced files of tables may belong to a running writer; use --exclusive to \
             remove them at once. Files in `erasures` are proofs, which stay. Other files aren't of \
             the lake: look at them, and remove them yourself"
        }
    }
}

/// Notes how many identifiers texts weren't searched for, because they are short.
fn note_short_identifiers(context: &CommandContext, request: &SubjectRequest, plan: &ErasurePlan) {
    let short = plan.too_short_for_text.len();
    if short > 0 {
        let people = request.people.iter();
        let all: usize = people.map(|person| person.identifiers.len()).sum();
        context.hint(format_args!(
            "texts were searched for {} of {all} identifiers; {short} too short or too common, \
             compared with whole values only",
            all.saturating_sub(short)
        ));
    }
}

/// Lists the texts of legal acts that name the people and stay.
fn note_retained_texts(context: &CommandContext, erased: &ErasureReport) {
    for texts in &erased.proofs.byte_search.retained_texts {
        let kinds: Vec<&str> = texts.kinds.iter().map(String::as_str).collect();
        let numbers: Vec<String> = texts.entries.iter().map(i64::to_string).collect();
        let place = match numbers.is_empty() {
            true if texts.file.ends_with(".cose") => format!("the certificate `{}`", texts.file),
            true => format!("{} rows of `{}`", texts.rows, texts.file),
            false => format!("entry {} of the audit log", numbers.join(", ")),
        };
        context.hint(format_args!(
            "{} in {place} names the people and stays, as evidence of a legal act; the certificate \
             states it (`exceptions.legal_act`)",
            kinds.join(", ")
        ));
    }
}

/// What the figures of a plan mean.
const PLAN_FIGURES: &str = "\
by reason: a grain counts under each reason for which it was found
variations: grains that were found in these other spellings only
too short for text: compared with whole values only, not searched for in texts
excluded: found, and stays";

/// What the figures of an erasure mean.
const PROOF_FIGURES: &str = "\
explained: occurrences within records that stay; remnants: others, 0 is the proof
survey, lookup: remaining grains searched again, erased addresses looked up, and what was left
pages: compressed parts of files that were opened and searched";

/// Prints what the figures of a proven erasure mean, and how to make a page of its certificate, of
/// which `copy` is a copy.
fn explain_proof(context: &CommandContext, copy: Option<&Path>, erased: &ErasureReport) {
    let file = match copy {
        Some(copy) => copy.display().to_string(),
        None => certificate_in(context, erased),
    };
    note(PROOF_FIGURES);
    note(format_args!(
        "a page of the certificate for an auditor: `gristmill certificate show {} --html PAGE`",
        shell_quoted(&file)
    ));
}

fn hint(context: &CommandContext, plan: &ErasurePlan, is_explained: bool) {
    if !context.common.quiet && plan.has_work() {
        if is_explained {
            note(PLAN_FIGURES);
        }
        note(
            "nothing was changed; use --execute to erase the selected data. `report-subject` with \
             the same options shows it, and further identifiers that it has",
        );
    }
    if !plan.has_work() && !plan.excluded.is_empty() {
        let stays = plan.excluded.iter();
        let stays = stays.map(|(reason, count)| format!("{count} ({reason})"));
        context.hint(format_args!(
            "nothing is to be erased; what was found stays: {}",
            stays.collect::<Vec<_>>().join(", ")
        ));
    }
}

/// Warns if nobody was found: a mistyped name looks like a person of whom nothing is held.
fn note_if_nothing(context: &CommandContext, plan: &ErasurePlan) {
    if !plan.has_work() && plan.excluded.is_empty() {
        context.hint(
            "the lake has nothing about these people: check the spelling of their identifiers; \
             `gristmill sql` shows which ids and subjects it has",
        );
    }
}

/// Returns the options of an erasure. `legal_ground` is that of its certificate if the arguments
/// have none.
pub(super) fn erasure_options(
    context: &CommandContext,
    arguments: ErasureRunArgs,
    legal_ground: Option<String>,
    destroy_keys: bool,
) -> Result<ErasureOptions, Failure> {
    // A configuration file can set the flag alone.
    if arguments.purge_versions && !arguments.exclusive {
        return Err(Failure::usage("--purge-versions needs --exclusive"));
    }
    Ok(ErasureOptions {
        origin: RequestOrigin {
            reference: arguments.reference,
            legal_ground: arguments.legal_ground.or(legal_ground),
            operator: arguments.operator,
        },
        keyring: keyring(&context.common.keys)?,
        signing_key: arguments.signing_key,
        exclusive: arguments.exclusive,
        destroy_keys,
        purge_versions: arguments.purge_versions,
        threads: context.row_group_threads(),
    })
}
