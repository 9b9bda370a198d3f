//! The `gristmill` command.
fn main() {}
