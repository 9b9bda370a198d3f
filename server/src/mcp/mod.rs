//! The Model Context Protocol: the tools `search`, `recall`, `assemble` and `describe`, and
//! `remember` where writes are allowed.
//!
//! | module | question |
//! |---|---|
//! | this one | How does a session run from its first message to its last? |
//! | `arguments` | Which CAL statement is a tool call? |
//! | `output` | What of an answer fits into a model's context? |
//!
//! Every tool is one CAL statement, so the namespace of the session holds for all of them, and
//! limits and error codes are those of CAL.

pub(crate) mod arguments;
mod output;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use gristmill_queries::cal::{Bindings, CalError, Options, Statement};
use gristmill_queries::exec::{
    ExecutionError, Executor, LakeWriter, Response, Session, current_millis,
};
use gristmill_queries::sql::DataFusionError;
use rmcp::handler::server::common::schema_for_type;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError, serve_server};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

use crate::newest_lake::{NewestLake, SnapshotError};
use arguments::{AssembleArguments, DescribeArguments, RecallArguments, RememberArguments};
use arguments::{SearchArguments, ToolCall};

/// Authority and limits of an MCP session.
#[derive(Debug, Clone, Default)]
pub struct McpOptions {
    /// The only visible namespace; `None` for the whole lake.
    pub namespace: Option<String>,
    /// The user that `mine` and new grains refer to.
    pub user: Option<String>,
    /// The agent that acts for the user.
    pub agent: Option<String>,
    /// Offers the tool `remember`, and lets `recall` run statements that append.
    pub allow_writes: bool,
    /// Largest answer of a tool in estimated tokens; 0 for the default of 4,000.
    pub max_tokens: usize,
}

/// Largest answer of a tool by default, in estimated tokens.
const DEFAULT_MAX_TOKENS: usize = 4_000;

/// Reason why an MCP session ended early.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The lake can't be read.
    #[error(transparent)]
    Lake(#[from] SnapshotError),
    /// The client didn't open a session.
    #[error("the client opened no MCP session: {0}")]
    Initialize(Box<ServerInitializeError>),
    /// The session's task failed.
    #[error("the MCP session failed: {0}")]
    Session(#[from] tokio::task::JoinError),
}

/// Serves one session over a pair of byte streams, one JSON-RPC message per line, until the client
/// closes its side.
///
/// # Errors
/// [`McpError`] if the lake can't be read or the client doesn't begin with `initialize`. Errors of
/// tool calls are answers of the session.
pub async fn serve<R, W>(
    lake: NewestLake,
    options: McpOptions,
    input: R,
    output: W,
) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let session = McpSession::start(lake, options).await?;
    let running = match serve_server(session, (input, output)).await {
        // A client that disconnects before it opens a session has sent no request.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        other => other.map_err(|error| McpError::Initialize(Box::new(error)))?,
    };
    running.waiting().await?;
    Ok(())
}

/// One session: an executor of CAL with the session's authority.
struct McpSession {
    lake: NewestLake,
    options: McpOptions,
    /// Calls run one after another, so that a session's writes are visible to its next call.
    executor: Mutex<Executor>,
    max_tokens: usize,
}

impl McpSession {
    async fn start(lake: NewestLake, options: McpOptions) -> Result<McpSession, McpError> {
        let snapshot = lake.snapshot().await?;
        let session = Session {
            namespace: options.namespace.clone(),
            user: options.user.clone(),
            agent: options.agent.clone(),
            writes: options.allow_writes,
            hides_causes: options.namespace.is_some(),
            ..Session::at(current_millis())
        };
        let mut executor = Executor::new(snapshot.context.clone(), session);
        if options.allow_writes {
            executor = executor.with_writer(Arc::new(LakeWriter::new(snapshot.lake.clone())));
        }
        let max_tokens = match options.max_tokens {
            0 => DEFAULT_MAX_TOKENS,
            tokens => tokens,
        };
        Ok(McpSession {
            lake,
            options,
            executor: Mutex::new(executor),
            max_tokens,
        })
    }

    /// Runs a tool call. Errors are answers too: the model reads code, message and suggestion.
    async fn call(&self, call: ToolCall) -> CallToolResult {
        let answered = async {
            match self.run(&call).await {
                Ok(response) => {
                    let text = output::answer(&response, call.shape, self.max_tokens);
                    CallToolResult::success(vec![ContentBlock::text(text)])
                }
                Err(error) => refusal(&error),
            }
        };
        caught(answered).await.unwrap_or_else(unanswered)
    }

    async fn run(&self, call: &ToolCall) -> Result<Response, ExecutionError> {
        let mut executor = self.executor.lock().await;
        let snapshot = match self.options.allow_writes {
            true => self.lake.latest_snapshot().await,
            false => self.lake.snapshot().await,
        };
        let snapshot = snapshot.map_err(|error| executor.disclosed(execution_error(error)))?;
        executor.set_context(snapshot.context.clone());
        executor.session_mut().now_ms = current_millis();
        executor
            .run_text(
                call.statement.as_bytes(),
                &Bindings::new(),
                Options::default(),
            )
            .await
    }

    /// Returns the tools with what a client may assume of them: without hints it takes each for one
    /// that overwrites.
    fn tools(&self) -> Vec<Tool> {
        let reads = ToolAnnotations::new().read_only(true).open_world(false);
        let appends = ToolAnnotations::new()
            .read_only(false)
            .destructive(false)
            .open_world(false);
        // A whole statement may append.
        let recalls = match self.options.allow_writes {
            true => appends.clone(),
            false => reads.clone(),
        };
        let mut tools = vec![
            Tool::new(SEARCH, SEARCH_ABOUT, schema_for_type::<SearchArguments>())
                .with_annotations(reads.clone()),
            Tool::new(RECALL, RECALL_ABOUT, schema_for_type::<RecallArguments>())
                .with_annotations(recalls),
            Tool::new(
                ASSEMBLE,
                ASSEMBLE_ABOUT,
                schema_for_type::<AssembleArguments>(),
            )
            .with_annotations(reads.clone()),
            Tool::new(
                DESCRIBE,
                DESCRIBE_ABOUT,
                schema_for_type::<DescribeArguments>(),
            )
            .with_annotations(reads),
        ];
        if self.options.allow_writes {
            let remember = Tool::new(
                REMEMBER,
                REMEMBER_ABOUT,
                schema_for_type::<RememberArguments>(),
            );
            tools.push(remember.with_annotations(appends));
        }
        tools
    }

    fn instructions(&self) -> String {
        let scope = match &self.options.namespace {
            Some(namespace) => format!("This session sees the namespace `{namespace}`."),
            None => "This session sees every namespace of the lake.".to_owned(),
        };
        let writes = match self.options.allow_writes {
            true => "`remember` appends a grain; nothing is ever overwritten.",
            false => "It is read-only.",
        };
        format!(
            "Long-term memory of AI agents, stored as grains: beliefs (subject, relation, \
             object), events (messages), goals, observations and others. Begin with `describe`. \
             Use `search` for words, `recall` for exact conditions, `assemble` for a context that \
             fits a token budget. {scope} {writes}"
        )
    }
}

const SEARCH: &str = "search";
const SEARCH_ABOUT: &str = "Finds the grains that best match words, best first, with a relevance \
                            score. Use it when you don't know the exact subject or relation.";
const RECALL: &str = "recall";
const RECALL_ABOUT: &str = "Returns the current grains that pass exact conditions, such as all \
                            beliefs about a subject or the newest events. Superseded grains are \
                            left out. A whole CAL statement can be given instead.";
const ASSEMBLE: &str = "assemble";
const ASSEMBLE_ABOUT: &str = "Returns a text for a prompt: the grains that matter for a topic, \
                              rendered in one format and cut to a token budget.";
const DESCRIBE: &str = "describe";
const DESCRIBE_ABOUT: &str = "Describes the memory: how many current grains of each type there \
                              are, which fields a type has, or the grammar of CAL.";
const REMEMBER: &str = "remember";
const REMEMBER_ABOUT: &str = "Appends a grain, or a new version of one. The old version stays in \
                              the history.";

impl ServerHandler for McpSession {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("gristmill", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.instructions())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let call = match &*request.name {
            SEARCH => parsed::<SearchArguments>(arguments)?.into_call(),
            RECALL => parsed::<RecallArguments>(arguments)?.into_call(),
            ASSEMBLE => parsed::<AssembleArguments>(arguments)?.into_call(self.max_tokens),
            DESCRIBE => parsed::<DescribeArguments>(arguments)?.into_call(),
            REMEMBER if self.options.allow_writes => {
                parsed::<RememberArguments>(arguments)?.into_call()
            }
            other => return Err(self.unknown_tool(other)),
        };
        Ok(CallToolResponse::Complete(match call {
            Ok(call) => self.call(call).await,
            Err(error) => refusal(&error.into()),
        }))
    }
}

impl McpSession {
    fn unknown_tool(&self, name: &str) -> ErrorData {
        let hint = match name {
            REMEMBER => "start `gristmill mcp` with --allow-writes to offer it",
            _ => "`tools/list` lists the tools",
        };
        ErrorData::invalid_params(format!("there is no tool `{name}`; {hint}"), None)
    }
}

/// Parses the arguments of a call; unknown ones are refused, because a misspelt condition would
/// silently widen the answer.
fn parsed<T: DeserializeOwned>(arguments: serde_json::Value) -> Result<T, ErrorData> {
    serde_json::from_value(arguments).map_err(|error| {
        ErrorData::invalid_params(
            format!("wrong arguments: {error}; `tools/list` has the schema of each tool"),
            None,
        )
    })
}

fn execution_error(error: SnapshotError) -> ExecutionError {
    match error {
        SnapshotError::Lake(error) => error.into(),
        SnapshotError::Context(error) => error.into(),
        SnapshotError::OfOther(cause) => {
            ExecutionError::Store(DataFusionError::External(cause.into()))
        }
    }
}

/// Returns the result of `work`, or `None` if it panics: a call that ends so would have no answer,
/// for which its client would wait.
async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

/// Returns the answer of a call that has panicked.
fn unanswered() -> CallToolResult {
    let error = serde_json::json!({
        "code": "INTERNAL",
        "message": "the call ended without a result",
        "suggestion": "The log of the server has the reason; please report it.",
    });
    CallToolResult::error(vec![ContentBlock::text(error.to_string())])
}

/// Returns an error as the answer of a tool: the error object of CAL.
fn refusal(error: &ExecutionError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_json().to_string())])
}

/// Prints a statement that was built as a tree, after the checks that text gets.
fn checked(statement: Statement) -> Result<String, CalError> {
    let text = statement.to_string();
    gristmill_queries::cal::parse(&text, Options::default())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gristmill_engine::lake::Lake;
    use gristmill_queries::sql::{HiddenCause, SqlOptions};
    use serde_json::json;

    use super::*;

    /// Returns a session that looks for the newest version at each call.
    async fn session(place: &Path, namespace: Option<&str>) -> McpSession {
        let lake = Lake::open_or_create(&place.display().to_string()).await;
        let lake = NewestLake::new(lake.unwrap(), SqlOptions::default()).await;
        let options = McpOptions {
            namespace: namespace.map(str::to_owned),
            allow_writes: true,
            ..McpOptions::default()
        };
        McpSession::start(lake.unwrap(), options).await.unwrap()
    }

    /// Calls `recall` without conditions; returns whether it failed, and its text.
    async fn recalled(session: &McpSession) -> (bool, String) {
        let call = parsed::<RecallArguments>(json!({})).unwrap().into_call();
        let answer = session.call(call.unwrap()).await;
        let answer = serde_json::to_value(&answer).unwrap();
        let text = answer["content"][0]["text"].as_str().unwrap();
        (answer["isError"] == true, text.to_owned())
    }

    #[tokio::test]
    async fn a_call_that_panics_has_an_answer() {
        assert_eq!(caught(async { 3 }).await, Some(3));
        let panicking = async { [1][std::hint::black_box(1)] };
        assert_eq!(caught(panicking).await, None);
    }

    #[tokio::test]
    async fn no_tool_of_a_session_that_writes_is_taken_for_one_that_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let session = session(&folder.path().join("lake"), None).await;
        let tools = serde_json::to_value(session.tools()).unwrap();
        let hints = tools.as_array().unwrap().iter().map(|tool| {
            let hints = &tool["annotations"];
            (
                tool["name"].as_str().unwrap(),
                hints["readOnlyHint"] == true,
                hints["destructiveHint"] == false,
            )
        });
        assert_eq!(
            hints.collect::<Vec<_>>(),
            [
                ("search", true, false),
                ("recall", false, true),
                ("assemble", true, false),
                ("describe", true, false),
                ("remember", false, true),
            ]
        );
    }

    #[tokio::test]
    async fn a_lake_that_cannot_be_read_discloses_no_cause_to_a_confined_session() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake");
        let confined = session(&place, Some("home")).await;
        let (failed, text) = recalled(&confined).await;
        assert!(!failed, "{text}");
        let whole = session(&place, None).await;
        let log = place.join("grains").join("_delta_log");
        let commits = std::fs::read_dir(&log).unwrap().flatten();
        let names = commits.filter_map(|file| file.file_name().into_string().ok());
        let versions = names.filter_map(|name| name.strip_suffix(".json")?.parse::<u64>().ok());
        let next = log.join(format!("{:020}.json", versions.max().unwrap() + 1));
        std::fs::write(next, "no commit").unwrap();
        let (failed, text) = recalled(&confined).await;
        assert!(failed && text.contains(&HiddenCause.to_string()), "{text}");
        let (failed, text) = recalled(&whole).await;
        assert!(failed && !text.contains(&HiddenCause.to_string()), "{text}");
    }
}
