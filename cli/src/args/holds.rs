//! Arguments of `hold`: placing, lifting and listing litigation holds.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ResultArgs;
use super::governance::SubjectSelector;

#[derive(Debug, Subcommand)]
pub enum HoldCommand {
    /// Place a hold on the grains of people, of namespaces, or named by address
    Place(Box<PlaceHoldArgs>),
    /// Lift a hold from all its grains, or from those named by address
    Lift(LiftHoldArgs),
    /// List the holds in force: those that were placed, and those that grains state themselves
    List(ListHoldsArgs),
}

/// Authority and reason of a change of a hold; both are stored with the event.
#[derive(Debug, Args)]
pub struct HoldOrderArgs {
    /// Person or office that orders it, such as a court or a counsel
    #[arg(long, value_name = "WHO")]
    pub authority: String,
    /// The reason
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct PlaceHoldArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Name of the hold: letters, digits, `.`, `_`, `:`, `/`, `-`; no personal data
    pub name: String,
    #[command(flatten)]
    pub order: HoldOrderArgs,
    /// End of the hold: an instant of RFC 3339, or a date in UTC [default: until it is lifted]
    #[arg(long, value_name = "INSTANT")]
    pub until: Option<String>,
    /// Address of a grain
    #[arg(long, value_name = "ADDRESS", help_heading = "Data subjects")]
    pub address: Vec<String>,
    /// Namespace, or the beginning of namespaces followed by `*`
    #[arg(long, value_name = "NAMESPACE", help_heading = "Data subjects")]
    pub namespace: Vec<String>,
    #[command(flatten)]
    pub selector: SubjectSelector,
}

#[derive(Debug, Args)]
pub struct LiftHoldArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Name of the hold; `stated` for holds that grains state themselves
    pub name: String,
    #[command(flatten)]
    pub order: HoldOrderArgs,
    /// Address of a grain [default: all grains of the hold]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Vec<String>,
    /// File of content addresses, one per line
    #[arg(long, value_name = "FILE")]
    pub addresses: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ListHoldsArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Name of the only hold to list [default: all]
    pub name: Option<String>,
    /// List every grain instead of a summary of each hold
    #[arg(long)]
    pub grains: bool,
    /// Also list holds that ended or were lifted
    #[arg(long)]
    pub ended: bool,
}
