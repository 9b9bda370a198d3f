//! Which texts go through a model together.

/// Numbers that the tokens of one batch have in the widest layer at most, if it isn't one text
/// alone. A batch has a few such things in memory at a time, of four bytes a number; larger batches
/// fall out of a core's cache and are slower.
const NUMBERS: usize = 1 << 19;

/// Returns `texts` in batches, in their order, for a model whose widest layer has `width` numbers
/// for each token.
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
