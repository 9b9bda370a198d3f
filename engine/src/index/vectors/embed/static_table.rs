//! Static token vectors: a text is the mean of the vectors of its tokens. A table look-up for each token, so a core embeds tens
//! of thousands of texts a second.

use std::path::Path;

use gristmill_connectors::source::SourceBytes;
use half::f16;
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};
use tokenizers::Tokenizer;

use super::{EmbedError, Embedder};
use crate::index::vectors::DIMENSION_LIMIT;

/// A table of token vectors and the tokenizer that it belongs to.
#[derive(Debug)]
pub struct StaticEmbedder {
    model: String,
    tokenizer: Tokenizer,
    dimensions: usize,
    /// The vectors of all tokens, one after another.
    table: Vec<f32>,
}

/// The table in the file.
const TABLE: &str = "embeddings";

/// The factors of the rows of a table of bytes.
const SCALES: &str = "scales";

impl StaticEmbedder {
    /// The model in `folder`: `tokenizer.json`, and `model.safetensors` with a table `embeddings` (or only one table) of f4,
    /// f2, or bytes with a factor for each row in `scales`. It is called as the folder is.
    ///
    /// # Errors
    /// [`EmbedError::Model`].
    pub fn open(folder: &Path) -> Result<StaticEmbedder, EmbedError> {
        let fault = |reason: &dyn std::fmt::Display| EmbedError::Model {
            folder: folder.display().to_string(),
            reason: reason.to_string(),
        };
        let bytes = SourceBytes::map(&folder.join("model.safetensors")).map_err(|error| fault(&error))?;
        let (dimensions, table) = table(&bytes).map_err(|error| fault(&error))?;
        let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|error| fault(&error))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| fault(&error))?;
        let name = std::path::absolute(folder).ok();
        let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        Ok(StaticEmbedder { model: name.unwrap_or_else(|| "static".to_owned()), tokenizer, dimensions, table })
    }

    fn mean(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0; self.dimensions];
        // A text that can't be tokenised has no direction, as one without known tokens.
        let Ok(tokens) = self.tokenizer.encode_fast(text, false) else { return sum };
        for id in tokens.get_ids() {
            let start = *id as usize * self.dimensions;
            let row = self.table.get(start..start + self.dimensions).unwrap_or_default();
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

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The dimensions and the numbers of the table.
fn table(bytes: &[u8]) -> Result<(usize, Vec<f32>), Fault> {
    let tensors = SafeTensors::deserialize(bytes)?;
    let names = tensors.names();
    let name = match names.iter().copied().find(|name| *name == TABLE).or(names.first().copied()) {
        Some(name) if name == TABLE || names.len() == 1 => name,
        _ => return Err(format!("it has several tables, none called `{TABLE}`").into()),
    };
    let view = tensors.tensor(name)?;
    let [_, dimensions] = view.shape()[..] else { return Err("its table doesn't have two dimensions".into()) };
    if !(1..=DIMENSION_LIMIT).contains(&dimensions) {
        return Err("its vectors have impossible dimensions".into());
    }
    let data = view.data();
    let numbers: Vec<f32> = match view.dtype() {
        Dtype::F32 => four_bytes(data).collect(),
        Dtype::F16 => data.chunks_exact(2).map(|two| f16::from_le_bytes([two[0], two[1]]).to_f32()).collect(),
        Dtype::I8 => {
            let scales = tensors.tensor(SCALES)?;
            let rows = data.chunks_exact(dimensions).zip(four_bytes(scales.data()));
            rows.flat_map(|(row, scale)| row.iter().map(move |byte| f32::from(*byte as i8) * scale)).collect()
        }
        other => return Err(format!("its table is of {other:?}; F32, F16 and I8 are read").into()),
    };
    Ok((dimensions, numbers))
}

fn four_bytes(data: &[u8]) -> impl Iterator<Item = f32> {
    data.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    #[test]
    fn tables_of_floats_and_of_scaled_bytes_are_read() {
        let floats: Vec<u8> = [1.0_f32, 2.0, -3.0, 0.5].iter().flat_map(|number| number.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::F32, vec![2, 2], &floats).unwrap();
        let bytes = safetensors::serialize([("embeddings", &view)], None).unwrap();
        assert_eq!(table(&bytes).unwrap(), (2, vec![1.0, 2.0, -3.0, 0.5]));

        let scales: Vec<u8> = [0.5_f32, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        let rows = TensorView::new(Dtype::I8, vec![2, 2], &[2, 254, 1, 0]).unwrap();
        let factors = TensorView::new(Dtype::F32, vec![2], &scales).unwrap();
        let bytes = safetensors::serialize([("embeddings", &rows), ("scales", &factors)], None).unwrap();
        assert_eq!(table(&bytes).unwrap(), (2, vec![1.0, -1.0, 2.0, 0.0]));
        assert!(table(&bytes[..bytes.len() - 1]).is_err());
        assert!(table(b"nothing").is_err());
    }
}
