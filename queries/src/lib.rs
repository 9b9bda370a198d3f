//! Queries over the lake: CAL, SQL, compliance packs, and the rendering of answers.
//!
//! | module | what it answers |
//! |---|---|
//! | [`cal`] | what does a CAL query say, and is it allowed to? |
//! | [`exec`] | what does a CAL query yield? |
//! | [`packs`] | which grains break which rule of which regulation? |
//! | [`render`] | how do grains look to a language model or a person? |
//! | [`sql`] | what are the lake's tables, views and functions in SQL? |

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

pub mod cal;
pub mod exec;
pub mod packs;
pub mod render;
pub mod sql;
