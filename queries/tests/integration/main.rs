//! Tests of CAL, its plans, its renderers and the packs through the public API of the crate.
//!
//! They are one binary, because each binary links DataFusion.

// Reference implementations and generators.
mod memory;
mod naive;
mod trees;

mod cal_exec;
mod cal_hostile;
mod cal_language;
mod cal_round_trip;
mod cal_safety;
mod disclosure;
mod exec_oracle;
mod packs;
mod render_formats;
