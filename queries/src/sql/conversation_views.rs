//! Views of conversations: `messages`, `blocks`, `message_views`, `tool_calls`, `threads`, `usage`,
//! and the function `thread(session_id)`.
//!
//! All of them are computed when they are scanned. Data of a canonical message that has no field in
//! a grain is in `context` under `msg:`. Costs are computed by `cost_usd` and stored nowhere.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::datasource::ViewTable;
use datafusion::prelude::SessionContext;

use super::as_of::literal_value;
use super::lazy_views::{self, View};

/// Returns the views and their queries; `price_version` is shown by `usage`.
pub(super) fn views(price_version: &str) -> [View; 6] {
    [
        ("messages", MESSAGES.to_owned()),
        ("blocks", BLOCKS.to_owned()),
        ("message_views", MESSAGE_VIEWS.to_owned()),
        ("tool_calls", TOOL_CALLS.to_owned()),
        ("threads", THREADS.to_owned()),
        (
            "usage",
            USAGE.replace("{version}", &price_version.replace('\'', "''")),
        ),
    ]
}

/// Name of the function.
pub(super) const THREAD_FUNCTION: &str = "thread";

/// Registers the function.
pub(super) fn register(context: &SessionContext) {
    context.register_udtf(THREAD_FUNCTION, Arc::new(ThreadFunction));
}

/// `model_id` is `provider:model`; without a colon the provider is unknown.
const MESSAGES: &str = "
    SELECT content_address, session_id, parent_message_id, role, created_at, namespace, user_id, run_id,
           json_get_str(context, 'msg:id') AS message_id, json_get_str(context, 'msg:status') AS status,
           model_id, CASE WHEN strpos(model_id, ':') > 0 THEN split_part(model_id, ':', 1) END AS provider,
           CASE WHEN strpos(model_id, ':') > 0 THEN substr(model_id, strpos(model_id, ':') + 1) ELSE model_id END AS model,
           stop_reason, coalesce(content, CASE WHEN json_get_str(context, 'msg:status') = 'error' THEN coalesce(
               json_get_str(content_blocks, 0, 'body', 'error', 'message'), json_get_str(content_blocks, 0, 'body', 'message'),
               json_get_str(content_blocks, 0, 'body', 'error'), json_get_str(content_blocks, 0, 'body')) END) AS content,
           content_blocks, token_usage,
           counts['input_tokens'] AS input_tokens, counts['output_tokens'] AS output_tokens,
           counts['cached_input_tokens'] AS cached_input_tokens,
           counts['cache_creation_input_tokens'] AS cache_creation_input_tokens,
           cost_usd(model_id, token_usage, NULL, created_at) AS cost_usd,
           coalesce(json_get_str(context, 'msg:time_source'), 'recorded') AS time_source
    FROM (SELECT *, token_counts(token_usage) AS counts FROM events WHERE role IS NOT NULL)";

const BLOCKS: &str = "
    SELECT content_address, session_id, role, created_at, block['position'] AS position, block['kind'] AS kind,
           block['text'] AS text, block['tool_use_id'] AS tool_use_id, block['name'] AS name, block['input'] AS input,
           block['is_error'] AS is_error, block['block'] AS block
    FROM (SELECT content_address, session_id, role, created_at, unnest(message_blocks(content, content_blocks)) AS block
          FROM events WHERE role IS NOT NULL)";

/// `channel` is NULL (unclassified) unless the message stated one.
const MESSAGE_VIEWS: &str = "
    SELECT content_address, session_id, created_at, namespace, user_id, view['position'] AS position, view['kind'] AS kind,
           view['role'] AS role, view['action'] AS action, view['is_pre'] AS is_pre, view['uri'] AS uri,
           view['name'] AS name, view['content'] AS content, view['size_bytes'] AS size_bytes,
           view['mime_type'] AS mime_type, view['args'] AS args, view['properties'] AS properties,
           view['labels'] AS labels, view['channel'] AS channel
    FROM (SELECT content_address, session_id, created_at, namespace, user_id,
                 unnest(cmf_views(role, content, content_blocks, context)) AS view
          FROM events WHERE role IS NOT NULL)";

/// A call has one row, with the first of its results: those with its id and session that follow it
/// before the next such call. Results that precede all calls with their id belong to the first
/// call. Calls without a result, results without a call (the first of each id), and actions that
/// contain both are included; without an id nothing is matched. The latency is the difference of
/// two recorded times, or the duration that the result states.
///
/// `calls` numbers the calls of an id. Each number has one call at most, which comes before its
/// results, so the window `answers` has the first result behind the call.
const TOOL_CALLS: &str = "
    SELECT tool_call_id, session_id, name, input, output, coalesce(is_error, false) AS is_error, error, called_at, answered_at,
           coalesce(duration_ms, CASE WHEN call_dated_by IS NULL AND result_dated_by IS NULL
               THEN (arrow_cast(answered_at, 'Int64') - arrow_cast(called_at, 'Int64')) / 1000 END) AS latency_ms,
           call_address, result_address, coalesce(result_dated_by, call_dated_by, 'recorded') AS time_source
    FROM (SELECT tool_call_id, session_id, row_number() OVER answers AS place,
                 CASE WHEN is_call THEN coalesce(tool_name, lead(tool_name) OVER answers) ELSE tool_name END AS name,
                 CASE WHEN is_call THEN input END AS input,
                 CASE WHEN is_call THEN lead(content) OVER answers ELSE content END AS output,
                 CASE WHEN is_call THEN lead(is_error) OVER answers ELSE is_error END AS is_error,
                 CASE WHEN is_call THEN lead(error) OVER answers ELSE error END AS error,
                 CASE WHEN is_call THEN created_at END AS called_at,
                 CASE WHEN is_call THEN lead(created_at) OVER answers ELSE created_at END AS answered_at,
                 CASE WHEN is_call THEN lead(duration_ms) OVER answers ELSE duration_ms END AS duration_ms,
                 CASE WHEN is_call THEN content_address END AS call_address,
                 CASE WHEN is_call THEN lead(content_address) OVER answers ELSE content_address END AS result_address,
                 CASE WHEN is_call THEN dated_by END AS call_dated_by,
                 CASE WHEN is_call THEN lead(dated_by) OVER answers ELSE dated_by END AS result_dated_by
          FROM (SELECT *, sum(CASE WHEN is_call THEN 1 ELSE 0 END) OVER (
                           PARTITION BY conversation, tool_call_id, unnamed ORDER BY created_at, action_phase, content_address
                           ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS calls
                FROM (SELECT *, action_phase = 'call' AS is_call, coalesce(session_id, '') AS conversation,
                             CASE WHEN tool_call_id IS NULL THEN content_address END AS unnamed,
                             json_get_str(context, 'msg:time_source') AS dated_by
                      FROM actions WHERE action_phase IN ('call', 'result')))
          WINDOW answers AS (PARTITION BY conversation, tool_call_id, unnamed, CASE WHEN calls = 0 THEN 1 ELSE calls END
                             ORDER BY action_phase, created_at, content_address))
    WHERE place = 1
    UNION ALL
    SELECT tool_call_id, session_id, tool_name AS name, input, content AS output, coalesce(is_error, false) AS is_error, error,
           created_at AS called_at, created_at AS answered_at, duration_ms AS latency_ms,
           content_address AS call_address, content_address AS result_address,
           coalesce(json_get_str(context, 'msg:time_source'), 'recorded') AS time_source
    FROM actions WHERE action_phase IS NULL OR action_phase NOT IN ('call', 'result', 'definition')";

/// Every message after the first with the same parent starts a branch.
const THREADS: &str = "
    SELECT m.session_id, m.messages, m.first_at, m.last_at, b.branches, m.input_tokens, m.output_tokens, m.cost_usd,
           m.unpriced_tokens
    FROM (SELECT session_id, count(*) AS messages, min(created_at) AS first_at, max(created_at) AS last_at,
                 coalesce(sum(input_tokens), 0) AS input_tokens, coalesce(sum(output_tokens), 0) AS output_tokens,
                 sum(cost_usd) AS cost_usd,
                 coalesce(sum(input_tokens + output_tokens + cached_input_tokens + cache_creation_input_tokens)
                     FILTER (WHERE cost_usd IS NULL), 0) AS unpriced_tokens
          FROM messages WHERE session_id IS NOT NULL GROUP BY session_id) m
    JOIN (SELECT session_id, 1 + sum(children - 1) AS branches
          FROM (SELECT session_id, parent_message_id, count(*) AS children FROM messages
                WHERE session_id IS NOT NULL GROUP BY session_id, parent_message_id)
          GROUP BY session_id) b
    ON m.session_id = b.session_id";

const USAGE: &str = "
    SELECT provider, model, date_trunc('day', created_at) AS day, count(*) AS messages, sum(input_tokens) AS input_tokens,
           sum(output_tokens) AS output_tokens, sum(cached_input_tokens) AS cached_input_tokens,
           sum(cache_creation_input_tokens) AS cache_creation_input_tokens, sum(cost_usd) AS cost_usd,
           '{version}' AS price_version, count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced_messages,
           coalesce(sum(input_tokens + output_tokens + cached_input_tokens + cache_creation_input_tokens)
               FILTER (WHERE cost_usd IS NULL), 0) AS unpriced_tokens
    FROM messages WHERE token_usage IS NOT NULL GROUP BY provider, model, date_trunc('day', created_at)";

/// Of messages with the same time, the ids ascend in the order of the conversation. Without OFFSET
/// the planner drops the order of what a query reads from, also where the query selects columns
/// only.
const THREAD: &str = "SELECT * FROM messages WHERE session_id = $session \
                      ORDER BY created_at, message_id, content_address OFFSET 0";

/// `thread(session_id)`: the messages of one session, oldest first. A query that does more than
/// select columns must state this order again: its filters, for example, may read batches of rows
/// in several partitions.
#[derive(Debug)]
struct ThreadFunction;

impl TableFunctionImpl for ThreadFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let session = match args.exprs() {
            [session] => literal_value(session),
            _ => None,
        };
        let Some(session @ (ScalarValue::Utf8(Some(_)) | ScalarValue::Utf8View(Some(_)))) = session
        else {
            return Err(plan_datafusion_err!(
                "thread takes one argument, the session_id as a text"
            ));
        };
        let plan = lazy_views::plan(args.session(), THREAD)?
            .with_param_values(vec![("session", session)])?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}
