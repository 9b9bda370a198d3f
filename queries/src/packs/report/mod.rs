//! How findings are told.
//!
//! | form | for | holds |
//! |---|---|---|
//! | [`Form::Jsonl`] | pipes | every finding, a line each, as it is made |
//! | [`Form::Json`] | programs | every finding, then what the scan did |
//! | [`Form::Sarif`] | code-scanning tools | every finding, in SARIF 2.1.0 |
//! | [`Form::Html`] | people | counts with charts, and the first findings of each rule |
//!
//! All but HTML are written while the scan runs. HTML keeps a [`Digest`], whose size doesn't depend
//! on the number of findings.

mod digest;
mod html;
mod sarif;

use std::io::Write;

pub use digest::{Digest, OTHERS, SAMPLES};

use super::error::{PackError, Result};
use super::finding::Finding;
use super::pack::Rule;
use super::scan::{Scan, Summary};

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One JSON object for each finding, one a line.
    Jsonl,
    /// One JSON document: `{"findings": […], "summary": {…}}`.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// A page that needs nothing beside itself.
    Html,
}

/// A report that is being written.
pub struct Reporter<W> {
    out: W,
    form: Form,
    written: u64,
    digest: Digest,
}

impl<W: Write> Reporter<W> {
    /// Begins a report on `scan` in `out`.
    ///
    /// # Errors
    /// [`PackError::Write`].
    pub fn begin(mut out: W, form: Form, scan: &Scan) -> Result<Self> {
        match form {
            Form::Json => out.write_all(b"{\"findings\":[")?,
            Form::Sarif => sarif::begin(&mut out)?,
            Form::Jsonl | Form::Html => {}
        }
        Ok(Reporter {
            out,
            form,
            written: 0,
            digest: Digest::new(scan.rules().len()),
        })
    }

    /// Tells of a finding.
    ///
    /// # Errors
    /// [`PackError::Write`].
    pub fn finding(&mut self, rule: &Rule, finding: &Finding) -> Result<()> {
        let separator = if self.written > 0 { ",\n" } else { "\n" };
        self.written += 1;
        match self.form {
            Form::Jsonl => {
                write_json(&mut self.out, &finding.told(rule))?;
                self.out.write_all(b"\n")?;
            }
            Form::Json => {
                self.out.write_all(separator.as_bytes())?;
                write_json(&mut self.out, &finding.told(rule))?;
            }
            Form::Sarif => {
                self.out.write_all(separator.as_bytes())?;
                write_json(&mut self.out, &sarif::result(rule, finding))?;
            }
            Form::Html => self.digest.add(rule, finding),
        }
        Ok(())
    }

    /// Ends the report with what the scan did.
    ///
    /// # Errors
    /// [`PackError::Write`], [`PackError::Template`].
    pub fn finish(mut self, scan: &Scan, summary: &Summary) -> Result<()> {
        match self.form {
            Form::Jsonl => {}
            Form::Json => {
                self.out.write_all(b"\n],\"summary\":")?;
                write_json(&mut self.out, summary)?;
                self.out.write_all(b"}\n")?;
            }
            Form::Sarif => sarif::end(&mut self.out, scan, summary)?,
            Form::Html => self
                .out
                .write_all(html::page(scan, summary, &self.digest)?.as_bytes())?,
        }
        Ok(self.out.flush()?)
    }
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(out, value).map_err(|error| PackError::Write(error.into()))
}
