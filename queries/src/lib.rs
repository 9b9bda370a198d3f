//! Queries over the lake: CAL and the rendering of its answers.
//!
//! | module | what it answers |
//! |---|---|
//! | [`cal`] | what does a CAL query say, and is it allowed to? |
//! | [`exec`] | what does a CAL query yield? |
//! | [`render`] | how do grains look to a language model or a person? |
//! | [`sql`] | what are the lake's tables, views and functions in SQL? |

pub mod cal;
pub mod exec;
pub mod render;
pub mod sql;
