//! `report`: writes a page about the lake.

use gristmill_queries::pages::{PageError, ReportOptions, lake_report};
use gristmill_queries::sql::lake_context;

use super::CommandContext;
use super::sql::{failure, options};
use crate::args::query::ReportArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::output::{is_stdout, write_file};

/// Writes the page; it appears under its name only when it is complete.
pub async fn run(
    context: &CommandContext,
    arguments: ReportArgs,
) -> Result<CommandOutcome, Failure> {
    let lake = context.open_lake().await?;
    let session = lake_context(&lake, &options(context)?)
        .await
        .map_err(failure)?;
    let options = ReportOptions {
        subject: &lake.location().name(),
        deadline: None,
    };
    let page = lake_report(&session, options).await.map_err(page_failure)?;
    write_file(&arguments.output, page.html.as_bytes())?;
    if !is_stdout(Some(&arguments.output)) {
        context.hint(format_args!(
            "wrote {}; open it in a browser",
            arguments.output.display()
        ));
    }
    Ok(CommandOutcome::Done)
}

fn page_failure(error: PageError) -> Failure {
    match error {
        PageError::Section { section, cause } => {
            failure(cause).within(&format!("section `{section}`"))
        }
        PageError::Template(error) => Failure::data(format!("can't render the page: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use gristmill_queries::sql::DataFusionError;

    use super::*;
    use crate::exit::report;

    #[test]
    fn a_section_that_lacks_memory_is_no_problem_of_the_data() {
        let failed = page_failure(PageError::Section {
            section: "cost",
            cause: DataFusionError::ResourcesExhausted("sort needs more".to_owned()),
        });
        let message = failed.to_string();
        assert!(
            message.starts_with("gristmill: section `cost`: "),
            "{message}"
        );
        assert_eq!(message.matches("gristmill: ").count(), 1, "{message}");
        assert_eq!(report(Err(failed)), 1);
    }
}
