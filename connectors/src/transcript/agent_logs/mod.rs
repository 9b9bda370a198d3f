//! Logs of agents: which messages they contain.
//!
//! | module | question |
//! |---|---|
//! | [`claude_code`] | which messages are in a session of Claude Code? |
//! | [`codex`] | which messages are in a session of Codex? |
//! | [`mcp`] | which messages and tool definitions are in a capture of the Model Context Protocol? |
//! | `usage` | how are token counts of several answers added and subtracted? |

pub mod claude_code;
pub mod codex;
pub mod mcp;
mod usage;
