//! Divides texts into batches.

/// Maximal number of activations of a batch in the widest layer, unless it is a single text.
/// Several such arrays of four bytes per number are in memory at a time; larger batches exceed a
/// core's cache and are slower.
const NUMBERS: usize = 1 << 19;

/// Divides `texts` into batches, in their order, for a model whose widest layer has `width` numbers
/// per token.
pub(super) fn batches<'a>(texts: &'a [&'a [u32]], width: usize) -> Vec<&'a [&'a [u32]]> {
    let limit = NUMBERS / width.max(1);
    let mut batches = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        if at > start && tokens + text.len() > limit {
            batches.push(&texts[start..at]);
            (start, tokens) = (at, 0);
        }
        tokens += text.len();
    }
    batches.extend((start < texts.len()).then(|| &texts[start..]));
    batches
}
