//! Properties of CAL, its plans, its renderers and the packs over this crate's public surface.
//!
//! One binary for all of them: each would link DataFusion again.

// What the tests compare with, and what they make up.
mod memory;
mod naive;
mod trees;

mod cal_exec;
mod cal_hostile;
mod cal_language;
mod cal_round_trip;
mod cal_safety;
mod exec_oracle;
mod packs;
mod render_formats;
