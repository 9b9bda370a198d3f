//! Sentence transformers of the BERT architecture. The vector of every token depends on all tokens
//! of the text, and the text's vector is pooled from them. This takes a thousand times the work of
//! static token vectors.
//!
//! | module | contents |
//! |---|---|
//! | `settings` | the configuration files of the model |
//! | `batches` | dividing texts into batches |

mod batches;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::BertModel;
use gristmill_connectors::source::SourceBytes;
use rayon::prelude::*;
use tokenizers::{PostProcessor, Tokenizer, TruncationParams};

use self::batches::batches;
use self::settings::{Pooling, Settings};
use super::{EmbedError, Embedder, in_folder, name_of};
use crate::error::BoxError;

/// A sentence transformer of the BERT architecture.
pub struct BertEmbedder {
    name: String,
    settings: Settings,
    tokenizer: Tokenizer,
    model: BertModel,
}

/// Maximal number of texts whose tokens are in memory.
const TEXTS: usize = 4_096;

const WEIGHTS: &str = "model.safetensors";

impl BertEmbedder {
    /// Loads the model in `folder`: `config.json`, `tokenizer.json` and `model.safetensors`, and,
    /// if they exist, `modules.json`, `1_Pooling/config.json`, `sentence_bert_config.json` and
    /// `tokenizer_config.json`. The model is named after the folder. Weights take four bytes each
    /// in memory, whatever their precision in the file.
    ///
    /// # Errors
    /// [`EmbedError::Model`].
    pub fn open(folder: &Path) -> Result<BertEmbedder, EmbedError> {
        BertEmbedder::read(folder).map_err(|fault| in_folder(folder, &fault))
    }

    fn read(folder: &Path) -> Result<BertEmbedder, BoxError> {
        let settings = Settings::read(folder)?;
        let tokenizer = tokenizer(&settings)?;
        let bytes = weights(&settings.folder)?;
        let weights = VarBuilder::from_slice_safetensors(&bytes, DType::F32, &Device::Cpu)
            .map_err(|error| format!("`{WEIGHTS}`: {error}"))?;
        // In models with a head, the names of the weights begin with the model's type.
        let weights = match weights.contains_tensor("bert.embeddings.word_embeddings.weight") {
            true => weights.pp("bert"),
            false => weights,
        };
        let model = BertModel::load(weights, &settings.config)
            .map_err(|error| format!("`{WEIGHTS}`: {error}"))?;
        let name = name_of(folder).unwrap_or_else(|| "bert".to_owned());
        Ok(BertEmbedder {
            name,
            settings,
            tokenizer,
            model,
        })
    }

    fn tokens(&self, text: &str) -> Result<Vec<u32>, BoxError> {
        let encoding = match self.settings.lower_case {
            true => self.tokenizer.encode_fast(text.to_lowercase(), true)?,
            false => self.tokenizer.encode_fast(text, true)?,
        };
        Ok(encoding.get_ids().to_vec())
    }

    /// Embeds `texts`, whose tokens are all in memory.
    fn embed_some(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError> {
        let tokens: Vec<Vec<u32>> = texts
            .par_iter()
            .map(|text| self.tokens(text))
            .collect::<Result<_, _>>()?;
        // Texts are sorted by length, so that little padding is needed.
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(tokens[*at].len()));
        let sorted: Vec<&[u32]> = order.iter().map(|at| &*tokens[*at]).collect();
        let config = &self.settings.config;
        let width = config.intermediate_size.max(3 * config.hidden_size);
        let mut vectors = vec![Vec::new(); texts.len()];
        let mut places = order.iter();
        for batch in batches(&sorted, width) {
            for (vector, at) in self.apply(batch)?.into_iter().zip(places.by_ref()) {
                vectors[*at] = vector;
            }
        }
        Ok(vectors)
    }

    /// Embeds one batch, on all cores.
    fn apply(&self, texts: &[&[u32]]) -> candle_core::Result<Vec<Vec<f32>>> {
        let longest = texts
            .iter()
            .map(|tokens| tokens.len())
            .max()
            .unwrap_or_default();
        if longest == 0 {
            return Ok(texts.iter().map(|_| self.pooled(&[])).collect());
        }
        let padded = |number: fn(u32) -> u32| {
            let row = |tokens: &&[u32]| {
                let padding = std::iter::repeat_n(0, longest - tokens.len());
                tokens
                    .iter()
                    .copied()
                    .map(number)
                    .chain(padding)
                    .collect::<Vec<u32>>()
            };
            Tensor::from_vec(
                texts.iter().flat_map(row).collect(),
                (texts.len(), longest),
                &Device::Cpu,
            )
        };
        let (tokens, mask) = (padded(|token| token)?, padded(|_| 1)?);
        let hidden = self
            .model
            .forward(&tokens, &tokens.zeros_like()?, Some(&mask))?;
        let vectors = texts.iter().enumerate().map(|(at, tokens)| {
            let own = hidden.get(at)?.narrow(0, 0, tokens.len())?.flatten_all()?;
            Ok(self.pooled(&own.to_vec1::<f32>()?))
        });
        vectors.collect()
    }

    /// Pools the vectors of a text's tokens, which are concatenated.
    fn pooled(&self, tokens: &[f32]) -> Vec<f32> {
        let width = self.settings.config.hidden_size;
        let mut rows = tokens.chunks_exact(width);
        let count = rows.len().max(1) as f32;
        let mut vector = rows
            .next()
            .map_or_else(|| vec![0.0; width], <[f32]>::to_vec);
        let join: fn(f32, f32) -> f32 = match self.settings.pooling {
            Pooling::First => |first, _| first,
            Pooling::Mean => |sum, number| sum + number,
            Pooling::Greatest => f32::max,
        };
        for row in rows {
            vector
                .iter_mut()
                .zip(row)
                .for_each(|(number, other)| *number = join(*number, *other));
        }
        if self.settings.pooling == Pooling::Mean {
            vector.iter_mut().for_each(|sum| *sum /= count);
        }
        if self.settings.normalised {
            let length = vector
                .iter()
                .map(|number| number * number)
                .sum::<f32>()
                .sqrt()
                .max(SHORTEST);
            vector.iter_mut().for_each(|number| *number /= length);
        }
        vector
    }
}

/// Minimal length of a vector for normalisation.
const SHORTEST: f32 = 1e-12;

impl Embedder for BertEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.settings.config.hidden_size
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let fault = |fault: BoxError| EmbedError::Run {
            model: self.name.clone(),
            reason: fault.to_string(),
        };
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(TEXTS) {
            vectors.extend(self.embed_some(texts).map_err(fault)?);
        }
        Ok(vectors)
    }
}

impl fmt::Debug for BertEmbedder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BertEmbedder")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Checks that the model has the tokens of `tokenizer`, and can read those that it adds to a text.
fn check_tokens(tokenizer: &Tokenizer, settings: &Settings) -> Result<(), BoxError> {
    let greatest = tokenizer.get_vocab(true).into_values().max();
    if greatest.is_none_or(|token| token as usize >= settings.config.vocab_size) {
        return Err(format!(
            "its tokenizer has other tokens than the {} of the model",
            settings.config.vocab_size
        )
        .into());
    }
    if tokenizer
        .get_post_processor()
        .is_some_and(|added| added.added_tokens(false) >= settings.tokens)
    {
        return Err("its tokenizer adds more tokens to a text than the model reads".into());
    }
    Ok(())
}

/// Loads the tokenizer of the model, which truncates texts at the model's limit.
fn tokenizer(settings: &Settings) -> Result<Tokenizer, BoxError> {
    let path = settings.folder.join("tokenizer.json");
    if !path.exists() {
        return Err("it has no `tokenizer.json`".into());
    }
    let fault = |error: BoxError| format!("`tokenizer.json`: {error}");
    let mut tokenizer = Tokenizer::from_file(path).map_err(fault)?;
    check_tokens(&tokenizer, settings)?;
    let truncation = TruncationParams {
        max_length: settings.tokens,
        ..TruncationParams::default()
    };
    tokenizer.with_padding(None);
    tokenizer.with_truncation(Some(truncation)).map_err(fault)?;
    Ok(tokenizer)
}

/// Maps the weights in `folder`.
fn weights(folder: &Path) -> Result<SourceBytes, BoxError> {
    let path = folder.join(WEIGHTS);
    let has = |name: &str| folder.join(name).exists();
    match () {
        () if path.exists() => Ok(SourceBytes::map(&path)?),
        () if has("model.safetensors.index.json") => {
            Err("its weights are in several files; one is \
                                                          read"
                .into())
        }
        () if has("pytorch_model.bin") => Err(format!(
            "its weights are in `pytorch_model.bin` only, which can hold code; save \
                         them as `{WEIGHTS}`"
        )
        .into()),
        () => Err(format!("it has no `{WEIGHTS}`").into()),
    }
}
