//! The data contracts of gristmill: pure functions over bytes, no I/O, no threads.
//!
//! | module | what it answers |
//! |---|---|
//! | [`address`] | what is a grain called, and is this blob the one that is called so? |
//! | [`grain`] | what does a blob say, and what is the one blob of a grain? |
//! | [`cmf`] | what is a message of the Common Message Format, and what do policies see of it? |
//! | [`lifecycle`] | what became of a grain, given its lifecycle events? |
//! | [`json`] | how is JSON kept as it was written? |
//! | [`message`] | what is a message between people, models and tools, in no provider's form? |
//! | [`error`] | what is wrong, by which code of the specification, and where? |
//!
//! Section numbers (§) are those of the Open Memory Specification 1.3, in [`cmf`] those of its own
//! specification, in [`message`] those of the canonical message format 1.1.

// Input never ends the program: what can fail answers an error.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod address;
pub mod cmf;
pub mod columns;
mod compression;
pub mod container;
pub mod error;
pub mod grain;
pub mod json;
pub mod lifecycle;
pub mod message;
mod normal_form;
pub mod sign;
