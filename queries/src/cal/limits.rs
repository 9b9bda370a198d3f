//! The limits of CAL, each with its unit and the code of the error that it raises (CAL 1.0,
//! sections 8.2 and 17.3).
//!
//! The checks are where the counted items are parsed.

/// Bytes of a query in text form, as it was sent; more is E001. The canonical text of such a query
/// may be longer: it has a bar before each stage, spaces around operators, a second backslash for
/// each single one, and strings in NFC. Of a query in JSON form, which has no other text, the
/// canonical text is counted.
pub const MAX_QUERY_BYTES: usize = 8192;
/// Bytes of a query in JSON form; more is E001. The JSON form of a query of [`MAX_QUERY_BYTES`] is
/// far smaller.
pub const MAX_JSON_BYTES: usize = 16 * MAX_QUERY_BYTES;
/// Grains of LIMIT and RECENT; more is E010.
pub const MAX_LIMIT: u32 = 1000;
/// Grains of a result without LIMIT and RECENT.
pub const DEFAULT_LIMIT: u32 = 20;
/// Values in an IN list; more is E011.
pub const MAX_IN_VALUES: usize = 100;
/// Pipeline stages of one RECALL; more is E012.
pub const MAX_STAGES: usize = 5;
/// RECALLs combined by set operations; more is E013.
pub const MAX_SET_OPERANDS: usize = 5;
/// Levels of subqueries below a RECALL; more is E007.
pub const MAX_SUBQUERY_DEPTH: usize = 3;
/// Levels of arrays in a value; more is E007. No field accepts nested arrays, but extension options
/// may.
pub const MAX_ARRAY_DEPTH: usize = 4;
/// Distinct parameters of a query; more is E002.
pub const MAX_PARAMETERS: usize = 20;
/// Characters of a REASON; more is E016.
pub const MAX_REASON_CHARACTERS: usize = 500;
/// LET bindings of a query; more is E036.
pub const MAX_LET_BINDINGS: usize = 5;
/// LET bindings in a chain of references; more is E038.
pub const MAX_LET_CHAIN: usize = 3;
/// Sources of an ASSEMBLE; more is E032.
pub const MAX_SOURCES: usize = 8;
/// Tokens of a BUDGET; more is E033.
pub const MAX_BUDGET_TOKENS: u32 = 16_000;
/// Grains of a BUDGET; more is E033.
pub const MAX_BUDGET_GRAINS: u32 = 200;
/// Tokens of an ASSEMBLE without BUDGET.
pub const DEFAULT_BUDGET_TOKENS: u32 = 4000;
/// Characters of a FOR text; more is E002.
pub const MAX_INTENT_CHARACTERS: usize = 256;
/// Characters of the name of a context or template; more is E002.
pub const MAX_NAME_CHARACTERS: usize = 64;
/// Queries of a BATCH; more is E002.
pub const MAX_BATCH_ENTRIES: usize = 10;
/// Branches of a COALESCE; more is E039.
pub const MAX_COALESCE_BRANCHES: usize = 5;
/// Tokens of a streamed chunk; anything outside the range is E078.
pub const CHUNK_TOKENS: std::ops::RangeInclusive<u32> = 20..=1000;
/// Tokens of a streamed chunk by default.
pub const DEFAULT_CHUNK_TOKENS: u32 = 100;
/// Versions of a grain that HISTORY loads.
pub const MAX_CHAIN: usize = 10_000;
/// Versions that HISTORY returns, the newest ones.
pub const MAX_HISTORY_VERSIONS: usize = 100;
/// Bytes of all sections of a template together; more is E092.
pub const MAX_TEMPLATE_BYTES: usize = 4096;
/// Levels of sections in a template; more is E093.
pub const MAX_TEMPLATE_DEPTH: usize = 5;
/// Grains that one `{{#each}}` visits.
pub const MAX_EACH_ITERATIONS: usize = 200;
/// Template nodes that one rendering visits. This bounds nested `{{#each}}` blocks that print
/// nothing.
pub const MAX_TEMPLATE_STEPS: usize = 200_000;
/// Templates that a namespace may define; more is E089.
pub const MAX_TEMPLATES_PER_NAMESPACE: usize = 50;
/// Milliseconds of a query; more is E031.
pub const QUERY_TIMEOUT_MILLIS: u64 = 5000;
/// Milliseconds of an ASSEMBLE; more is E075.
pub const ASSEMBLE_TIMEOUT_MILLIS: u64 = 10_000;
