//! Embedders, which compute the vectors of texts.
//!
//! | written | module | embeds by |
//! |---|---|---|
//! | `static` | `bundled` | the mean of the vectors of a text's tokens, from the table that is part of the program |
//! | `static:FOLDER` | `static_table` | the same from `tokenizer.json` and `model.safetensors` in the folder |
//! | `bert:FOLDER` | `bert` | a sentence transformer of BERT's kind: `config.json`, `tokenizer.json` and `model.safetensors` in the folder |
//! | `command:PROGRAM ARGUMENTS` | `command` | a program that reads a JSON text per line and writes a JSON array of numbers for each |
//!
//! Models and programs are only ever those that the user specifies: nothing in a lake determines
//! what is read or run.

#[cfg(feature = "embed-bert")]
mod bert;
#[cfg(feature = "embed-static")]
mod bundled;
mod command;
#[cfg(feature = "embed-static")]
mod static_table;

use std::fmt;
#[cfg(any(feature = "embed-bert", feature = "embed-static"))]
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "embed-bert")]
pub use bert::BertEmbedder;
#[cfg(feature = "embed-static")]
pub use bundled::BundledEmbedder;
pub use command::CommandEmbedder;
#[cfg(feature = "embed-static")]
pub use static_table::StaticEmbedder;

use super::Metric;
#[cfg(any(feature = "embed-bert", feature = "embed-static"))]
use crate::error::BoxError;

/// Why texts can't be embedded.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// There is no such embedder.
    #[error(
        "`{0}` is no embedder; `static`, `static:FOLDER`, `bert:FOLDER` and `command:PROGRAM \
         ARGUMENTS` are"
    )]
    Unknown(String),
    /// This build has no such embedder.
    #[error("`{embedder}` needs a build with the cargo feature `{feature}`")]
    NotBuilt {
        /// The requested embedder.
        embedder: String,
        /// The cargo feature that includes it.
        feature: &'static str,
    },
    /// The model can't be loaded.
    #[error("can't read the model in `{folder}`: {reason}")]
    Model {
        /// The folder of the model.
        folder: String,
        /// The defect.
        reason: String,
    },
    /// The model can't be applied to a text.
    #[error("the model `{model}` failed: {reason}")]
    Run {
        /// Its name.
        model: String,
        /// The cause.
        reason: String,
    },
    /// The program failed, or its output isn't vectors.
    #[error("the embedder `{program}` failed: {reason}")]
    Command {
        /// The command.
        program: String,
        /// The cause.
        reason: String,
    },
}

/// Computes vectors of texts.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// Returns the name of the model, under which its vectors are stored.
    fn model(&self) -> &str;

    /// Returns the number of dimensions of its vectors.
    fn dimensions(&self) -> usize;

    /// Returns the metric of its vectors.
    fn metric(&self) -> Metric {
        Metric::Cosine
    }

    /// Returns the similarity below which a text counts as unrelated to a query: most pairs of
    /// unrelated texts stay below it. 0 if the model hasn't been measured.
    fn least_similarity(&self) -> f64 {
        0.0
    }

    /// Computes a vector for each text, in order. A text without any known token has a zero vector.
    ///
    /// # Errors
    /// [`EmbedError::Command`] and [`EmbedError::Run`].
    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Creates the embedder that `text` specifies.
///
/// # Errors
/// [`EmbedError`].
pub fn embedder(text: &str) -> Result<Arc<dyn Embedder>, EmbedError> {
    match text.split_once(':') {
        #[cfg(feature = "embed-static")]
        None if text == "static" => Ok(Arc::new(BundledEmbedder)),
        #[cfg(feature = "embed-static")]
        Some(("static", folder)) => Ok(Arc::new(StaticEmbedder::open(Path::new(folder))?)),
        #[cfg(feature = "embed-bert")]
        Some(("bert", folder)) => Ok(Arc::new(BertEmbedder::open(Path::new(folder))?)),
        Some(("command", words)) => Ok(Arc::new(CommandEmbedder::start(words)?)),
        #[cfg(not(feature = "embed-static"))]
        None if text == "static" => Err(not_built(text, "embed-static")),
        #[cfg(not(feature = "embed-static"))]
        Some(("static", _)) => Err(not_built(text, "embed-static")),
        #[cfg(not(feature = "embed-bert"))]
        Some(("bert", _)) => Err(not_built(text, "embed-bert")),
        _ => Err(EmbedError::Unknown(text.to_owned())),
    }
}

#[cfg(not(all(feature = "embed-bert", feature = "embed-static")))]
fn not_built(embedder: &str, feature: &'static str) -> EmbedError {
    EmbedError::NotBuilt {
        embedder: embedder.to_owned(),
        feature,
    }
}

#[cfg(any(feature = "embed-bert", feature = "embed-static"))]
fn in_folder(folder: &Path, fault: &BoxError) -> EmbedError {
    EmbedError::Model {
        folder: folder.display().to_string(),
        reason: fault.to_string(),
    }
}

/// Returns the name of the model in `folder`, which is the name of the folder.
#[cfg(any(feature = "embed-bert", feature = "embed-static"))]
fn name_of(folder: &Path) -> Option<String> {
    Some(
        std::path::absolute(folder)
            .ok()?
            .file_name()?
            .to_string_lossy()
            .into_owned(),
    )
}
