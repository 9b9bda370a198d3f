//! Queries over the lake: CAL and the rendering of its answers.
//!
//! | module | what it answers |
//! |---|---|
//! | [`cal`] | what does a CAL query say, and is it allowed to? |
//! | [`render`] | how do grains look to a language model or a person? |

pub mod cal;
pub mod render;
