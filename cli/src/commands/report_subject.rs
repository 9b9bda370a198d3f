//! `report-subject`: reports all data about the data subjects, as JSON Lines and as a page.

use std::io::{self, BufWriter, IsTerminal};
use std::path::Path;

use gristmill_engine::destination::PendingFile;
use gristmill_engine::erase::{
    Disclosed, ErasurePlan, Exemption, Recording, disclose, plan_disclosure,
};
use gristmill_engine::error::EngineError;
use gristmill_queries::pages::{SubjectPage, SubjectPageHead};

use super::CommandContext;
use super::further_identifiers::FurtherIdentifiers;
use super::keys::keyring_if_given;
use super::subject_selector::request_of;
use crate::args::governance::{ReportSubjectArgs, SubjectSelector};
use crate::exit::{CommandOutcome, Failure};
use crate::json_lines::{JsonLinesWriter, RecordLayout};
use crate::output::{UntilClosed, begin_file, finish_file, is_stdout, unless_stdout};

/// Writes all data about the data subjects, as JSON Lines and as a page.
pub async fn run(
    context: &CommandContext,
    arguments: ReportSubjectArgs,
) -> Result<CommandOutcome, Failure> {
    let out = unless_stdout(arguments.out.as_deref());
    let to_stdout = out.is_none() && (arguments.out.is_some() || arguments.html.is_none());
    let page_to_stdout = is_stdout(arguments.html.as_deref());
    if to_stdout && page_to_stdout {
        let message = "only one of --out and --html can be standard output";
        return Err(Failure::usage(message));
    }
    let layout = match to_stdout {
        true => context.json_layout(arguments.results)?,
        false => RecordLayout::Lines,
    };
    let request = request_of(context, &arguments.selector)?;
    // Before the survey, and before anything is written: a wrong passphrase ends the command.
    let key = keyring_if_given(&context.common.keys)?
        .map(|keyring| keyring.derive("gristmill/erasure/pseudonyms"))
        .transpose()?;
    let mut lake = context.open_lake().await?;
    let (plan, survey) = plan_disclosure(&mut lake, &request, context.row_group_threads()).await?;
    let mut file = out.map(opened).transpose()?;
    let mut is_direct = to_stdout || file.as_ref().is_some_and(|(_, file)| file.is_stream());
    let mut lines = match &mut file {
        Some((path, file)) => Some(JsonLinesWriter::to(path, file)),
        None => to_stdout.then(|| JsonLinesWriter::to_stdout(layout)),
    };
    let mut page = match arguments.html.as_deref() {
        Some(path) => {
            let head = SubjectPageHead {
                people: &names_in(&arguments.selector),
                plan: &plan,
                lake_version: lake.grains.version(),
            };
            let page = PageFile::begin(path, &head)?;
            is_direct |= page.is_stream;
            Some(page)
        }
        None => None,
    };
    let mut further = FurtherIdentifiers::beyond(&arguments.selector);
    let mut write = |held: &Disclosed| {
        further.examine(held);
        if let Some(lines) = &mut lines {
            lines.write(held)?;
        }
        page.as_mut().map_or(Ok(()), |page| page.item(held))
    };
    // What has gone into a pipe can't be withdrawn if the disclosure can't be recorded.
    let recording = match is_direct {
        true => Recording::BeforeItems,
        false => Recording::AfterItems,
    };
    let key = key.as_ref();
    let count = disclose(&mut lake, &request, &survey, key, recording, &mut write).await?;
    lines.map(JsonLinesWriter::finish).transpose()?;
    if let Some((path, file)) = file {
        finish_file(path, file)?;
    }
    if let Some(page) = page {
        page.finish()?;
    }
    // With a file of people it isn't known to whom an identifier belongs.
    let further = Some(further).filter(|_| arguments.selector.subjects.is_none());
    explain(context, &plan, count, further.as_ref());
    if key.is_none() {
        context.hint(WITHOUT_PSEUDONYM);
    }
    if to_stdout && count > 0 && io::stdout().is_terminal() {
        context.hint("`--html PAGE` makes a page of this, to read or to hand out");
    }
    if !to_stdout && !page_to_stdout {
        let printer = context.printer(arguments.results);
        printer.record(&summary_of(&plan, count, further.as_ref()))?;
    }
    Ok(CommandOutcome::Done)
}

/// Prints what the numbers alone don't show: that nothing was found, that an erasure with the same
/// options would leave some of what is disclosed, and by what else the people may be found.
fn explain(
    context: &CommandContext,
    plan: &ErasurePlan,
    disclosed: u64,
    further: Option<&FurtherIdentifiers>,
) {
    let selected = plan.selected.grains + plan.selected.rejects;
    if disclosed == 0 {
        context.hint(
            "the lake has nothing about these people; `gristmill sql` shows which ids and subjects \
             it has",
        );
    } else if disclosed > selected {
        let items = match disclosed {
            1 => "1 item is".to_owned(),
            _ => format!("{disclosed} items are"),
        };
        context.hint(format_args!(
            "{items} disclosed, of which `erase` with the same options would select {selected}; {}",
            reasons_to_stay(plan, disclosed - selected)
        ));
    }
    if let Some(options) = further.and_then(FurtherIdentifiers::as_options) {
        context.hint(format_args!(
            "identifiers in this data, by which there may be more if they are theirs: {options}"
        ));
    }
}

/// What the audit log lacks if no keyring was opened.
const WITHOUT_PSEUDONYM: &str = "the audit log records this disclosure without a pseudonym of the \
                                 people, for which no keyring was opened: give its passphrase \
                                 (GRISTMILL_PASSPHRASE or --passphrase-file); `gristmill keys \
                                 generate NAME` makes a keyring";

/// What the name of [`Exemption::NotSelected`] means.
const NOT_SELECTED: &str = "not selected: they mention the people, were derived from their data or \
                            share a session with them; --text-mentions, --derived and --related \
                            select these";

/// Returns why `stays` items would stay.
fn reasons_to_stay(plan: &ErasurePlan, stays: u64) -> String {
    let mut reasons: Vec<String> = plan
        .excluded
        .iter()
        .map(
            |(reason, count)| match *reason == Exemption::NotSelected.name() {
                true => format!("{count} ({NOT_SELECTED})"),
                false => format!("{count} ({reason})"),
            },
        )
        .collect();
    let mentions = stays.saturating_sub(plan.excluded.values().sum());
    if mentions > 0 {
        reasons.push(format!("{mentions} (only mention the people)"));
    }
    format!("the others stay: {}", reasons.join(", "))
}

/// Creates the file at `path`.
fn opened(path: &Path) -> Result<(&Path, PendingFile), Failure> {
    Ok((path, begin_file(path)?))
}

/// A page that is being written.
struct PageFile<'p> {
    path: &'p Path,
    page: SubjectPage<BufWriter<UntilClosed<PendingFile>>>,
    is_stream: bool,
}

impl<'p> PageFile<'p> {
    fn begin(path: &'p Path, head: &SubjectPageHead<'_>) -> Result<PageFile<'p>, Failure> {
        let file = begin_file(path)?;
        let is_stream = file.is_stream();
        let page = SubjectPage::begin(BufWriter::new(UntilClosed(file)), head);
        let page = page.map_err(|error| Failure::writing(path, &error))?;
        Ok(PageFile {
            path,
            page,
            is_stream,
        })
    }

    fn item(&mut self, held: &Disclosed) -> Result<(), EngineError> {
        self.page.item(held).map_err(|error| EngineError::File {
            what: "can't write",
            path: self.path.display().to_string(),
            cause: error.into(),
        })
    }

    fn finish(self) -> Result<(), Failure> {
        let failure = |error: io::Error| Failure::writing(self.path, &error);
        let file = self.page.finish().map_err(failure)?;
        let file = file
            .into_inner()
            .map_err(|error| failure(error.into_error()))?;
        finish_file(self.path, file.0)
    }
}

/// Returns the identifiers in the arguments, for the title of the page.
fn names_in(selector: &SubjectSelector) -> Vec<String> {
    let identifiers = selector.identifiers().into_iter();
    let named = identifiers.flat_map(|(_, values)| values);
    let named: Vec<String> = named.chain(&selector.session).cloned().collect();
    match named.is_empty() {
        true => vec!["the people of the request".to_owned()],
        false => named,
    }
}

fn summary_of(
    plan: &ErasurePlan,
    disclosed: u64,
    further: Option<&FurtherIdentifiers>,
) -> serde_json::Value {
    serde_json::json!({
        "disclosed": disclosed,
        "selected": plan.selected,
        "excluded": plan.excluded,
        "further_identifiers": further,
        "variations": plan.variations,
        "variations_off": plan.variations_off,
        "too_short_for_text": plan.too_short_for_text,
        "unsearchable": plan.unsearchable,
        "grains_read": plan.grains_read,
    })
}
