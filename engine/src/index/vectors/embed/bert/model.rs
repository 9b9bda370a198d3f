//! BERT's layers over texts of any lengths side by side: matrices are multiplied for all tokens at once, attention goes text by text,
//! so that nothing is padded and nothing masked. Products are candle's; what is done number by number is done here, because
//! candle hands that to one pool for the whole process, whose callers wait for each other in a busy loop.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use candle_core::op::{Gelu, Relu, UnaryOpT};
use candle_core::{D, DType, Device, Result, Tensor, bail};
use candle_nn::VarBuilder;
use candle_nn::ops::softmax_last_dim;
use candle_transformers::models::bert::{Config, HiddenAct};

/// The weights.
pub(super) struct Model {
    width: usize,
    heads: usize,
    /// The vectors of all tokens, one after another.
    words: Vec<f32>,
    /// What is added to a token's by its place: all texts are of the first type.
    places: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Model {
    /// The model of `config` in `weights`, whose names are BERT's.
    ///
    /// # Errors
    /// A tensor that isn't there or has another shape.
    pub(super) fn load(config: &Config, weights: &VarBuilder<'_>) -> Result<Model> {
        let (width, embeddings) = (config.hidden_size, weights.pp("embeddings"));
        let table =
            |rows: usize, name: &str| numbers(&embeddings.get((rows, width), &format!("{name}_embeddings.weight"))?);
        let types = table(config.type_vocab_size, "token_type")?;
        let mut places = table(config.max_position_embeddings, "position")?;
        for place in places.chunks_exact_mut(width) {
            add(place, &types);
        }
        let layers =
            (0..config.num_hidden_layers).map(|at| Layer::load(config, &weights.pp(format!("encoder.layer.{at}"))));
        Ok(Model {
            width,
            heads: config.num_attention_heads,
            words: table(config.vocab_size, "word")?,
            places,
            norm: Norm::load(config, &embeddings)?,
            layers: layers.collect::<Result<_>>()?,
        })
    }

    /// The vectors of all tokens of `texts`, one after another.
    pub(super) fn apply(&self, texts: &[&[u32]]) -> Result<Vec<f32>> {
        let mut hidden = Vec::with_capacity(texts.iter().map(|tokens| tokens.len()).sum::<usize>() * self.width);
        for (token, place) in texts.iter().flat_map(|tokens| tokens.iter().zip(self.places.chunks_exact(self.width))) {
            let Some(word) = self.words.chunks_exact(self.width).nth(*token as usize) else {
                bail!("the model has no token {token}");
            };
            hidden.extend(word.iter().zip(place).map(|(word, place)| word + place));
        }
        if hidden.is_empty() {
            return Ok(hidden);
        }
        self.norm.apply(&mut hidden);
        self.layers.iter().try_fold(hidden, |hidden, layer| layer.apply(&hidden, texts, self.heads))
    }
}

struct Layer {
    /// To the queries, keys and values of all heads.
    parts: Dense,
    attended: Dense,
    attended_norm: Norm,
    wide: Dense,
    activation: fn(&mut [f32]),
    narrow: Dense,
    norm: Norm,
}

impl Layer {
    fn load(config: &Config, weights: &VarBuilder<'_>) -> Result<Layer> {
        let (width, wide) = (config.hidden_size, config.intermediate_size);
        let part = |name: &str| Dense::tensors(width, width, &weights.pp("attention.self").pp(name));
        let (query, key, value) = (part("query")?, part("key")?, part("value")?);
        // Products of queries and keys are divided by this; so the queries are.
        let scale = ((width / config.num_attention_heads) as f64).sqrt();
        let part_weights = Tensor::cat(&[(query.0 / scale)?, key.0, value.0], 0)?;
        let part_bias = Tensor::cat(&[(query.1 / scale)?, key.1, value.1], 0)?;
        Ok(Layer {
            parts: Dense::new(&part_weights, &part_bias)?,
            attended: Dense::load(width, width, &weights.pp("attention.output.dense"))?,
            attended_norm: Norm::load(config, &weights.pp("attention.output"))?,
            wide: Dense::load(width, wide, &weights.pp("intermediate.dense"))?,
            activation: match config.hidden_act {
                HiddenAct::Gelu => |numbers| each(numbers, gelu),
                HiddenAct::GeluApproximate => |numbers| each(numbers, Gelu::f32),
                HiddenAct::Relu => |numbers| each(numbers, Relu::f32),
            },
            narrow: Dense::load(wide, width, &weights.pp("output.dense"))?,
            norm: Norm::load(config, &weights.pp("output"))?,
        })
    }

    fn apply(&self, hidden: &[f32], texts: &[&[u32]], heads: usize) -> Result<Vec<f32>> {
        let parts = self.parts.apply(hidden)?;
        let parts = Tensor::from_vec(parts, (hidden.len() / self.attended.to, 3 * self.attended.to), &Device::Cpu)?;
        let mut seen = Vec::with_capacity(hidden.len());
        let mut start = 0;
        for tokens in texts.iter().filter(|tokens| !tokens.is_empty()) {
            seen.extend(attention(&parts.narrow(0, start, tokens.len())?, heads)?);
            start += tokens.len();
        }
        let mut attended = self.attended.apply(&seen)?;
        add(&mut attended, hidden);
        self.attended_norm.apply(&mut attended);
        let mut wide = self.wide.apply(&attended)?;
        (self.activation)(&mut wide);
        let mut narrow = self.narrow.apply(&wide)?;
        add(&mut narrow, &attended);
        self.norm.apply(&mut narrow);
        Ok(narrow)
    }
}

/// What each token of a text sees of the others: a row of queries, keys and values for each.
fn attention(parts: &Tensor, heads: usize) -> Result<Vec<f32>> {
    let (tokens, width) = parts.dims2()?;
    let parts = parts.reshape((tokens, 3, heads, width / 3 / heads))?.permute((1, 2, 0, 3))?.contiguous()?;
    let (queries, keys, values) = (parts.get(0)?, parts.get(1)?, parts.get(2)?);
    let shares = softmax_last_dim(&queries.matmul(&keys.transpose(D::Minus1, D::Minus2)?)?)?;
    numbers(&shares.matmul(&values)?.transpose(0, 1)?)
}

/// A matrix and what is added after it.
struct Dense {
    from: usize,
    to: usize,
    weights: Tensor,
    bias: Vec<f32>,
}

impl Dense {
    fn load(from: usize, to: usize, weights: &VarBuilder<'_>) -> Result<Dense> {
        let (weights, bias) = Dense::tensors(from, to, weights)?;
        Dense::new(&weights, &bias)
    }

    fn tensors(from: usize, to: usize, weights: &VarBuilder<'_>) -> Result<(Tensor, Tensor)> {
        Ok((weights.get((to, from), "weight")?, weights.get(to, "bias")?))
    }

    fn new(weights: &Tensor, bias: &Tensor) -> Result<Dense> {
        let (to, from) = weights.dims2()?;
        Ok(Dense { from, to, weights: weights.t()?, bias: numbers(bias)? })
    }

    fn apply(&self, rows: &[f32]) -> Result<Vec<f32>> {
        let rows = Tensor::from_slice(rows, (rows.len() / self.from, self.from), &Device::Cpu)?;
        let mut made = numbers(&rows.matmul(&self.weights)?)?;
        for row in made.chunks_exact_mut(self.to) {
            add(row, &self.bias);
        }
        Ok(made)
    }
}

/// Brings each row to the mean 0 and the variance 1, then to a mean and a spread of its own.
struct Norm {
    weights: Vec<f32>,
    bias: Vec<f32>,
    epsilon: f32,
}

impl Norm {
    fn load(config: &Config, weights: &VarBuilder<'_>) -> Result<Norm> {
        let part = |name: &str| numbers(&weights.get(config.hidden_size, &format!("LayerNorm.{name}"))?);
        Ok(Norm { weights: part("weight")?, bias: part("bias")?, epsilon: config.layer_norm_eps as f32 })
    }

    fn apply(&self, rows: &mut [f32]) {
        let count = self.weights.len();
        for row in rows.chunks_exact_mut(count) {
            let mean = row.iter().sum::<f32>() / count as f32;
            let variance = row.iter().map(|number| (number - mean) * (number - mean)).sum::<f32>() / count as f32;
            let factor = 1.0 / (variance + self.epsilon).sqrt();
            for ((number, weight), bias) in row.iter_mut().zip(&self.weights).zip(&self.bias) {
                *number = (*number - mean) * factor * weight + bias;
            }
        }
    }
}

/// x Φ(x), by a quotient of two polynomials in the square that was fitted to the error function up to 4, from where on that is 1 in
/// single precision: within 10⁻⁶, and of nothing but products and sums, so that the compiler works on several numbers at once.
#[inline(always)]
fn gelu(number: f32) -> f32 {
    const ABOVE: [f32; 6] = [FRAC_2_SQRT_PI, 0.196_247_25, 0.053_467_234, 0.004_003_567, 2.880_389e-4, 1.974_833_5e-6];
    const BELOW: [f32; 6] = [1.0, 0.507_250_8, 0.116_475_7, 0.015_444_265, 0.001_216_339_4, 3.748_076_5e-5];
    let place = (number * FRAC_1_SQRT_2).clamp(-4.0, 4.0);
    let square = place * place;
    let sum = |parts: [f32; 6]| parts.into_iter().rev().fold(0.0, |sum, part| sum * square + part);
    0.5 * number * (1.0 + place * sum(ABOVE) / sum(BELOW))
}

#[inline(always)]
fn each(numbers: &mut [f32], function: impl Fn(f32) -> f32) {
    numbers.iter_mut().for_each(|number| *number = function(*number));
}

fn add(row: &mut [f32], other: &[f32]) {
    row.iter_mut().zip(other).for_each(|(number, other)| *number += other);
}

/// The numbers of a tensor, row by row.
fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

#[cfg(test)]
mod tests {
    use candle_core::op::GeluErf;

    use super::*;

    #[test]
    fn the_fitted_activation_is_the_exact_one() {
        for step in -100_000..=100_000 {
            let number = step as f32 / 8_000.0;
            let (found, exact) = (gelu(number), GeluErf::f32(number));
            assert!((found - exact).abs() < 2e-6, "{number}: {found}, {exact}");
        }
    }
}
