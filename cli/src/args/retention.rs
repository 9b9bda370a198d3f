//! Arguments of `retention`: what has expired by the rules, and erasing it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ResultArgs;
use super::governance::ErasureRunArgs;

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
    #[command(flatten)]
    pub run: ErasureRunArgs,
}
