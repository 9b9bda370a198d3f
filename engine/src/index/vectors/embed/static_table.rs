//! Static token vectors: the vector of a text is the mean of the vectors of its tokens. One table
//! look-up per token: a core embeds tens of thousands of texts per second.

use std::path::Path;

use gristmill_connectors::source::SourceBytes;
use half::f16;
use rayon::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tokenizers::Tokenizer;

use super::{EmbedError, Embedder, in_folder, name_of};
use crate::error::BoxError;
use crate::index::vectors::DIMENSION_LIMIT;

/// A table of token vectors and its tokenizer.
#[derive(Debug)]
pub struct StaticEmbedder {
    model: String,
    tokenizer: Tokenizer,
    dimensions: usize,
    /// The vectors of all tokens, concatenated.
    table: Vec<f32>,
}

/// Name of the table in the file.
const TABLE: &str = "embeddings";

/// Name of the scale factors of a quantised table.
const SCALES: &str = "scales";

impl StaticEmbedder {
    /// Loads the model in `folder`: `tokenizer.json`, and `model.safetensors` with a table
    /// `embeddings` (or a single table) of f4 or f2, or quantised with a scale per row in `scales`:
    /// bytes (I8), or two numbers per byte (U8; offset by 8, the first in the lower half). The
    /// model is named after the folder.
    ///
    /// # Errors
    /// [`EmbedError::Model`].
    pub fn open(folder: &Path) -> Result<StaticEmbedder, EmbedError> {
        let open = || {
            let bytes = SourceBytes::map(&folder.join("model.safetensors"))?;
            let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"))?;
            tokenizer.with_padding(None);
            tokenizer.with_truncation(None)?;
            StaticEmbedder::new(
                name_of(folder).unwrap_or_else(|| "static".to_owned()),
                tokenizer,
                &bytes,
            )
        };
        open().map_err(|fault| in_folder(folder, &fault))
    }

    /// Creates the model `model` from the table in `bytes`.
    pub(super) fn new(
        model: String,
        tokenizer: Tokenizer,
        bytes: &[u8],
    ) -> Result<StaticEmbedder, BoxError> {
        let (dimensions, table) = table(bytes)?;
        Ok(StaticEmbedder {
            model,
            tokenizer,
            dimensions,
            table,
        })
    }

    fn mean(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0; self.dimensions];
        // A text that can't be tokenised has a zero vector, like one without known tokens.
        let Ok(tokens) = self.tokenizer.encode_fast(text, false) else {
            return sum;
        };
        for id in tokens.get_ids() {
            let start = *id as usize * self.dimensions;
            let row = self
                .table
                .get(start..start + self.dimensions)
                .unwrap_or_default();
            sum.iter_mut().zip(row).for_each(|(sum, part)| *sum += part);
        }
        let count = tokens.len().max(1) as f32;
        sum.iter_mut().for_each(|part| *part /= count);
        sum
    }
}

impl Embedder for StaticEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.par_iter().map(|text| self.mean(text)).collect())
    }
}

/// Reads the number of dimensions and the numbers of the table.
fn table(bytes: &[u8]) -> Result<(usize, Vec<f32>), BoxError> {
    let tensors = SafeTensors::deserialize(bytes)?;
    let view = tensors.tensor(table_name(&tensors)?)?;
    let [rows, width] = view.shape()[..] else {
        return Err("its table doesn't have two dimensions".into());
    };
    let dimensions = if view.dtype() == Dtype::U8 {
        width.saturating_mul(2)
    } else {
        width
    };
    if !(1..=DIMENSION_LIMIT).contains(&dimensions) {
        return Err("its vectors have impossible dimensions".into());
    }
    let numbers = numbers(&tensors, &view, dimensions)?;
    match numbers.len() == rows.saturating_mul(dimensions) {
        true => Ok((dimensions, numbers)),
        false => Err("its rows and their factors aren't as many".into()),
    }
}

/// Returns the name of the table: [`TABLE`], or the only one.
fn table_name<'t>(tensors: &'t SafeTensors<'_>) -> Result<&'t str, BoxError> {
    let names = tensors.names();
    let named = names.iter().copied().find(|name| *name == TABLE);
    match named.or(names.first().copied()) {
        Some(name) if name == TABLE || names.len() == 1 => Ok(name),
        _ => Err(format!("it has several tables, none called `{TABLE}`").into()),
    }
}

/// Reads the numbers of a table, which may be quantised.
fn numbers(
    tensors: &SafeTensors<'_>,
    view: &TensorView<'_>,
    dimensions: usize,
) -> Result<Vec<f32>, BoxError> {
    let bytes = view.data().iter();
    match view.dtype() {
        Dtype::I8 => scaled(
            tensors,
            dimensions,
            bytes.map(|byte| f32::from(*byte as i8)),
        ),
        Dtype::U8 => {
            let halves = bytes.flat_map(|byte| [byte & 15, byte >> 4]);
            scaled(
                tensors,
                dimensions,
                halves.map(|half| f32::from(half) - 8.0),
            )
        }
        _ => floats(view),
    }
}

/// Multiplies each of `numbers` by the scale of its row.
fn scaled(
    tensors: &SafeTensors<'_>,
    dimensions: usize,
    numbers: impl Iterator<Item = f32>,
) -> Result<Vec<f32>, BoxError> {
    let scales = floats(&tensors.tensor(SCALES)?)?;
    let scales = scales
        .into_iter()
        .flat_map(|scale| std::iter::repeat_n(scale, dimensions));
    Ok(numbers
        .zip(scales)
        .map(|(number, scale)| number * scale)
        .collect())
}

/// Reads a table of floats.
fn floats(view: &TensorView<'_>) -> Result<Vec<f32>, BoxError> {
    let data = view.data();
    match view.dtype() {
        Dtype::F32 => Ok(four_bytes(data).collect()),
        Dtype::F16 => Ok(data
            .chunks_exact(2)
            .map(|two| f16::from_le_bytes([two[0], two[1]]).to_f32())
            .collect()),
        other => Err(format!("its table is of {other:?}; F32, F16, I8 and U8 are read").into()),
    }
}

fn four_bytes(data: &[u8]) -> impl Iterator<Item = f32> {
    data.chunks_exact(4)
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_floats_and_of_scaled_bytes_are_read() {
        let floats: Vec<u8> = [1.0_f32, 2.0, -3.0, 0.5]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let view = TensorView::new(Dtype::F32, vec![2, 2], &floats).unwrap();
        let bytes = safetensors::serialize([("embeddings", &view)], None).unwrap();
        assert_eq!(table(&bytes).unwrap(), (2, vec![1.0, 2.0, -3.0, 0.5]));

        let scales: Vec<u8> = [0.5_f32, 2.0]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let rows = TensorView::new(Dtype::I8, vec![2, 2], &[2, 254, 1, 0]).unwrap();
        let factors = TensorView::new(Dtype::F32, vec![2], &scales).unwrap();
        let bytes =
            safetensors::serialize([("embeddings", &rows), ("scales", &factors)], None).unwrap();
        assert_eq!(table(&bytes).unwrap(), (2, vec![1.0, -1.0, 2.0, 0.0]));
        assert!(table(&bytes[..bytes.len() - 1]).is_err());

        let scales: Vec<u8> = [0.5, 2.0]
            .iter()
            .flat_map(|number| f16::from_f64(*number).to_le_bytes())
            .collect();
        let rows = TensorView::new(Dtype::U8, vec![2, 1], &[0x1f, 0x98]).unwrap();
        let factors = TensorView::new(Dtype::F16, vec![2], &scales).unwrap();
        let bytes =
            safetensors::serialize([("embeddings", &rows), ("scales", &factors)], None).unwrap();
        assert_eq!(table(&bytes).unwrap(), (2, vec![3.5, -3.5, 0.0, 2.0]));
        let alone = safetensors::serialize([("embeddings", &rows)], None).unwrap();
        assert!(table(&alone).unwrap_err().to_string().contains("scales"));
        assert!(table(b"nothing").is_err());
    }
}
