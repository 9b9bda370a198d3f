//! The extension module `gristmill._native`: the engine for the Python package `gristmill`, which
//! wraps it in documented and typed classes.
//!
//! | module | question |
//! |---|---|
//! | `failure` | Which exception does Python raise? |
//! | `runtime` | How does Python wait for the engine, with Ctrl-C and progress? |
//! | `lake` | What can be done with a lake? |
//! | `erasure` | How is a person's data erased? |
//! | `parameters`, `findings` | How do parameters reach a query, and findings a table? |
//! | `query_result` | How do rows reach Arrow without a copy? |
//! | `codec` | How are single grains encoded and decoded? |
//!
//! Reports and options cross the boundary as JSON, rows as Arrow.

// Input must never panic: fallible operations return errors.
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

mod codec;
mod erasure;
mod failure;
mod findings;
mod lake;
mod parameters;
mod query_result;
mod runtime;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line, whose first word is the name of the program; returns its exit code.
#[pyfunction]
fn run_command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| gristmill::run(words))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<lake::NativeLake>()?;
    module.add_class::<query_result::NativeResult>()?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(codec::encode, module)?)?;
    module.add_function(wrap_pyfunction!(codec::decode, module)?)?;
    module.add_function(wrap_pyfunction!(codec::content_address, module)?)?;
    module.add_function(wrap_pyfunction!(erasure::plan_erasure, module)?)?;
    module.add_function(wrap_pyfunction!(erasure::erase_person, module)?)?;
    module.add_function(wrap_pyfunction!(erasure::verify_certificate, module)?)?;
    module.add_function(wrap_pyfunction!(query_result::query_files, module)?)?;
    Ok(())
}
