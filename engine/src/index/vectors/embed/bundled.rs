//! The bundled model: token vectors of four bits, derived from WordLlama by
//! `datasets/embedding/derive.py`.

use std::sync::OnceLock;

use safetensors::SafeTensors;
use tokenizers::models::bpe::{BPE, Merges};
use tokenizers::normalizers::{Prepend, Replace, Sequence};
use tokenizers::{AddedToken, Tokenizer};

use super::{EmbedError, Embedder, StaticEmbedder};
use crate::error::BoxError;

/// The bundled model. It is unpacked on first use.
#[derive(Debug, Clone, Copy, Default)]
pub struct BundledEmbedder;

/// Its name. A model with other vectors needs another name, under which the lake stores them.
const MODEL: &str = "wordllama-224";

const DIMENSIONS: usize = 224;

/// Measured with the questions of `docs/search.md`: 95 of 100 grains that don't answer a question
/// are less similar to it, and one of 52 right answers is.
const MIN_SIMILARITY: f64 = 0.27;

static BYTES: &[u8] = include_bytes!("../../../../../datasets/embedding/wordllama-224.safetensors");

/// Name of the tensor with the tokens in the order of their ids, one per line.
const VOCABULARY: &str = "vocabulary";

/// Stands for a space in tokens.
const SPACE: &str = "\u{2581}";

/// Number of special tokens, which come first.
const SPECIAL_TOKENS: usize = 3;

impl BundledEmbedder {
    fn unpacked() -> Result<&'static StaticEmbedder, EmbedError> {
        static UNPACKED: OnceLock<Result<StaticEmbedder, String>> = OnceLock::new();
        let unpacked = UNPACKED.get_or_init(|| {
            let tokenizer = tokenizer(BYTES).map_err(|fault| fault.to_string())?;
            StaticEmbedder::new(MODEL.to_owned(), tokenizer, BYTES)
                .map_err(|fault| fault.to_string())
        });
        unpacked.as_ref().map_err(|reason| EmbedError::Run {
            model: MODEL.to_owned(),
            reason: reason.clone(),
        })
    }
}

impl Embedder for BundledEmbedder {
    fn model(&self) -> &str {
        MODEL
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn least_similarity(&self) -> f64 {
        MIN_SIMILARITY
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        BundledEmbedder::unpacked()?.embed(texts)
    }
}

/// Creates the tokenizer from the vocabulary in `bytes`.
fn tokenizer(bytes: &[u8]) -> Result<Tokenizer, BoxError> {
    let tensors = SafeTensors::deserialize(bytes)?;
    let vocabulary = tensors.tensor(VOCABULARY)?;
    let tokens: Vec<&str> = std::str::from_utf8(vocabulary.data())?
        .split('\n')
        .collect();
    let numbers = tokens
        .iter()
        .zip(0..)
        .map(|(token, number)| ((*token).to_owned(), number));
    let special = || tokens.iter().take(SPECIAL_TOKENS);
    let model = BPE::builder()
        .vocab_and_merges(
            numbers.collect::<tokenizers::models::bpe::Vocab>(),
            merges(&tokens),
        )
        .unk_token(special().next().copied().unwrap_or_default().to_owned())
        .fuse_unk(true)
        .byte_fallback(true)
        .build()?;
    let spaces = Sequence::new(vec![
        Prepend::new(SPACE.to_owned()).into(),
        Replace::new(" ", SPACE)?.into(),
    ]);
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(Some(spaces))?;
    tokenizer.add_special_tokens(special().map(|token| AddedToken::from(*token, true)))?;
    Ok(tokenizer)
}

/// Returns the merges of the tokenizer in order of priority: the pairs of which a token consists,
/// in the order of the tokens, with tokens of spaces alone last. `derive.py` verifies that these
/// are the merges that the model was trained with.
fn merges(tokens: &[&str]) -> Merges {
    let numbers: rustc_hash::FxHashMap<&str, usize> = tokens.iter().copied().zip(0..).collect();
    let blank = |token: &&&str| token.len() > SPACE.len() && token.split(SPACE).all(str::is_empty);
    let mut merges = Merges::new();
    for token in tokens
        .iter()
        .filter(|token| !blank(token))
        .chain(tokens.iter().filter(blank))
    {
        let pairs = token
            .char_indices()
            .skip(1)
            .map(|(at, _)| token.split_at(at));
        let known = |(left, right)| Some((*numbers.get(left)?, *numbers.get(right)?));
        let mut known: Vec<_> = pairs.filter_map(known).collect();
        known.sort_unstable();
        merges.extend(
            known
                .iter()
                .map(|(left, right)| (tokens[*left].to_owned(), tokens[*right].to_owned())),
        );
    }
    merges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_model_matches_its_constants() {
        let unpacked = BundledEmbedder::unpacked().unwrap();
        assert_eq!(
            (unpacked.model(), unpacked.dimensions()),
            (MODEL, DIMENSIONS)
        );
        assert!(BYTES.len() <= 4_000_000, "{} bytes", BYTES.len());
    }

    #[test]
    fn tokens_are_those_of_the_tokenizer_that_the_model_was_trained_with() {
        let tokenizer = tokenizer(BYTES).unwrap();
        // From the tokenizer in the package that the model is derived from.
        let cases: [(&str, &[u32]); 9] = [
            ("", &[]),
            ("memory", &[3370]),
            (
                "The agent noted  two   spaces.",
                &[450, 10823, 11682, 29871, 1023, 259, 8162, 29889],
            ),
            ("        eight", &[308, 9475]),
            ("\ttab\nline\r", &[29871, 12, 3891, 13, 1220, 30004]),
            ("naïve café", &[1055, 30085, 345, 274, 28059]),
            (
                "東京で会議 🙂",
                &[
                    29871, 30591, 30675, 30499, 30437, 235, 176, 179, 29871, 243, 162, 156, 133,
                ],
            ),
            ("a</s>b <s>", &[263, 2, 289, 29871, 1]),
            ("\0\u{fffd}", &[29871, 3, 30140]),
        ];
        for (text, expected) in cases {
            assert_eq!(
                tokenizer.encode_fast(text, false).unwrap().get_ids(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn texts_of_one_meaning_are_nearer_than_others() {
        let texts = [
            "the kitten fell asleep",
            "a cat was sleeping",
            "revenue of the last quarter",
            "",
        ];
        let vectors = BundledEmbedder.embed(&texts.map(str::to_owned)).unwrap();
        let product = |left: &[f32], right: &[f32]| {
            left.iter()
                .zip(right)
                .map(|(left, right)| left * right)
                .sum::<f32>()
        };
        let cosine = |left: usize, right: usize| {
            let lengths =
                product(&vectors[left], &vectors[left]) * product(&vectors[right], &vectors[right]);
            product(&vectors[left], &vectors[right]) / lengths.sqrt()
        };
        assert!(
            cosine(0, 1) > 0.5 && cosine(0, 1) > cosine(0, 2) + 0.2,
            "{} {}",
            cosine(0, 1),
            cosine(0, 2)
        );
        assert!(vectors[3].iter().all(|number| *number == 0.0));
    }
}
