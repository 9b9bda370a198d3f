//! The data contracts of gristmill: pure functions over bytes, no I/O, no threads.
//!
//! | module | what it answers |
//! |---|---|
//! | [`json`] | how is JSON kept as it was written? |

pub mod json;
