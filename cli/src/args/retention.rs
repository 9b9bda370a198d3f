//! Arguments of `retention`: what has expired by the rules, and erasing it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ResultArgs;

#[derive(Debug, Subcommand)]
pub enum RetentionCommand {
    /// Show what has expired and what is kept by a floor, a hold or its own terms; changes nothing
    Plan(RetentionPlanArgs),
    /// Erase what has expired, with certificates
    Run(RetentionRunArgs),
}

/// The rules, and how they are applied.
#[derive(Debug, Args)]
pub struct RetentionRuleArgs {
    /// File of the rules
    #[arg(long, value_name = "FILE", default_value = "retention.toml")]
    pub rules: PathBuf,
    /// Approval that was given, for grains whose retention policy requires it before deletion
    #[arg(long, value_name = "WHAT")]
    pub approve: Vec<String>,
    /// Grains of one round, roughly, which are in memory at a time [default: 1000000]
    #[arg(long, value_name = "N")]
    pub round_rows: Option<u64>,
}

#[derive(Debug, Args)]
pub struct RetentionPlanArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub rules: RetentionRuleArgs,
}

#[derive(Debug, Args)]
pub struct RetentionRunArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub rules: RetentionRuleArgs,
    /// Assert that no other process writes to the lake, so that unreferenced files are removed at
    /// once, whatever their age
    #[arg(long)]
    pub exclusive: bool,
    /// Reference of the run, for the certificates
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// Legal ground, for the certificates [default: the names of the policies]
    #[arg(long, value_name = "TEXT")]
    pub legal_ground: Option<String>,
    /// Operator of the lake, for the certificates
    #[arg(long, value_name = "TEXT")]
    pub operator: Option<String>,
    /// Name of the key that signs the certificates
    #[arg(long, default_value = "erasure", value_name = "NAME")]
    pub signing_key: String,
}
