//! Arguments of `search`.

use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use gristmill_queries::sql::SearchMode;
use gristmill_schemas::grain::GrainType;

use super::ResultArgs;

#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Search text: words, "a phrase", begin*, near~, this OR that, -unwanted. Put -- before a text
    /// that starts with a hyphen
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<String>,
    /// Number of grains to show, at most 10000
    #[arg(long, short = 'n', default_value_t = 10, value_name = "N")]
    pub limit: usize,
    /// Search mode [default: hybrid if --embedder is set, otherwise text]
    #[arg(long, value_enum)]
    pub mode: Option<SearchModeArg>,
    #[command(flatten)]
    pub filter: SearchFilterArgs,
}

/// Conditions on the grains of a search.
#[derive(Debug, Args)]
pub struct SearchFilterArgs {
    /// Search grains of this type; several types may be listed
    #[arg(long = "type", value_enum, value_delimiter = ',', value_name = "TYPE")]
    pub types: Vec<GrainTypeArg>,
    /// Search grains of this user (`user_id`)
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// Search grains of this session (`session_id`)
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Search grains created at or after this time: an ISO date and time, `yesterday`, an age such
    /// as 7d, or milliseconds since 1970
    #[arg(long, value_name = "INSTANT")]
    pub since: Option<String>,
}

/// Kind of matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchModeArg {
    /// By words
    Text,
    /// By meaning: similarity of embeddings
    Vector,
    /// By both
    Hybrid,
}

impl From<SearchModeArg> for SearchMode {
    fn from(mode: SearchModeArg) -> SearchMode {
        match mode {
            SearchModeArg::Text => SearchMode::Text,
            SearchModeArg::Vector => SearchMode::Vector,
            SearchModeArg::Hybrid => SearchMode::Hybrid,
        }
    }
}

/// Type of a grain, by its name in any version of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrainTypeArg(pub GrainType);

impl ValueEnum for GrainTypeArg {
    fn value_variants<'a>() -> &'a [GrainTypeArg] {
        static ALL: LazyLock<Vec<GrainTypeArg>> =
            LazyLock::new(|| GrainType::ALL.map(GrainTypeArg).to_vec());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, others) = self.0.names().split_first()?;
        Some(PossibleValue::new(*name).aliases(others.iter().copied()))
    }
}
