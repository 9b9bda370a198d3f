//! The compression function with the SHA extensions of x86-64.
//!
//! The notation is that of FIPS 180-4: a state has the words *a* to *h*, a block becomes the words
//! *W*₀ to *W*₆₃, and round *t* folds in *W*ₜ + *K*ₜ. A vector holds four words, so four rounds
//! take one vector of each.

use std::arch::x86_64::*;

use super::Digest;
use super::lanes::{self, Block, Compressor, State};

/// Proof that the CPU supports the instructions of this file.
#[derive(Clone, Copy)]
pub(super) struct ShaNi(());

impl ShaNi {
    /// Checks the CPU features at run time.
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("avx");
        found.then_some(Self(()))
    }

    /// See [`lanes::hash_each`].
    pub(super) fn hash_each<'m>(self, digests: &mut [Digest], message: impl Fn(usize) -> &'m [u8]) {
        // SAFETY: a `ShaNi` comes from `detect`, which found the features that the function
        // enables.
        unsafe { hash_each(self, digests, message) }
    }
}

#[target_feature(enable = "sha,sse4.1,avx")]
fn hash_each<'m>(compressor: ShaNi, digests: &mut [Digest], message: impl Fn(usize) -> &'m [u8]) {
    lanes::hash_each(compressor, digests, message);
}

impl Compressor for ShaNi {
    /// The words in the order that the instructions require: *abef* in one vector and *cdgh* in
    /// another, the first word highest.
    const INITIAL: State = State([
        0x9b05688c, 0x510e527f, 0xbb67ae85, 0x6a09e667, // f e b a
        0x5be0cd19, 0x1f83d9ab, 0xa54ff53a, 0x3c6ef372, // h g d c
    ]);

    // Each `N` is compiled once, for all callers. (The attribute would be lost on a function with
    // target features.)
    #[inline(never)]
    fn compress<const N: usize>(self, states: &mut [State; N], blocks: &[&Block; N]) {
        // SAFETY: a `ShaNi` comes from `detect`, which found the features that the function
        // enables.
        unsafe { compress(states, blocks) }
    }

    #[inline(always)]
    fn digest(self, &State([f, e, b, a, h, g, d, c]): &State) -> Digest {
        let mut digest = [0; 32];
        let (words, _) = digest.as_chunks_mut();
        words.copy_from_slice(&[a, b, c, d, e, f, g, h].map(u32::to_be_bytes));
        digest
    }

    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        // SAFETY: a prefetch is a hint. It reads nothing that the program can see and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}

/// Folds a block into each of `N` states, 16 rounds of one lane after 16 rounds of the other.
#[target_feature(enable = "sha,sse4.1,avx")]
fn compress<const N: usize>(states: &mut [State; N], blocks: &[&Block; N]) {
    let mut state = [[_mm_setzero_si128(); 2]; N];
    let mut words = [[_mm_setzero_si128(); 4]; N];
    for lane in 0..N {
        state[lane] = load_state(&states[lane]);
        words[lane] = load_block(blocks[lane]);
        state[lane] = sixteen_rounds(state[lane], &mut words[lane], &K[0]);
    }
    for lane in 0..N {
        state[lane] = sixteen_rounds(state[lane], &mut words[lane], &K[1]);
    }
    for lane in 0..N {
        state[lane] = sixteen_rounds(state[lane], &mut words[lane], &K[2]);
    }
    for lane in 0..N {
        state[lane] = last_sixteen_rounds(state[lane], &words[lane], &K[3]);
    }
    for lane in 0..N {
        add_state(&mut states[lane], state[lane]);
    }
}

/// Sixteen rounds. The words that they consume make room for the 16 that come next.
#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn sixteen_rounds(
    mut state: [__m128i; 2],
    words: &mut [__m128i; 4],
    constants: &[[u32; 4]; 4],
) -> [__m128i; 2] {
    for i in 0..4 {
        state = four_rounds(state, words[i], &constants[i]);
        words[i] = next_words(words, i);
    }
    state
}

/// Returns the rounds after which no more words are needed.
#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn last_sixteen_rounds(
    mut state: [__m128i; 2],
    words: &[__m128i; 4],
    constants: &[[u32; 4]; 4],
) -> [__m128i; 2] {
    for i in 0..4 {
        state = four_rounds(state, words[i], &constants[i]);
    }
    state
}

/// Four rounds (6.2.2, step 3) with the message words of those rounds and their constants.
#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn four_rounds([abef, cdgh]: [__m128i; 2], words: __m128i, constants: &[u32; 4]) -> [__m128i; 2] {
    let sums = _mm_add_epi32(words, load(constants));
    // What was *abef* is *cdgh* two rounds later, so after two instructions both vectors are in
    // their places again.
    let cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums);
    let abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sums, 0x0e));
    [abef, cdgh]
}

/// Returns the four message words (6.2.2, step 1) that come 16 after `words[i]`, where `words` is a
/// ring of the last 16.
#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn next_words(words: &[__m128i; 4], i: usize) -> __m128i {
    let [w0, w4, w8, w12] = [
        words[i],
        words[(i + 1) % 4],
        words[(i + 2) % 4],
        words[(i + 3) % 4],
    ];
    let w9 = _mm_alignr_epi8(w12, w8, 4);
    _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w0, w4), w9), w12)
}

/// Returns the 16 words of a block, which are big-endian.
#[inline]
#[target_feature(enable = "sse4.1,avx")]
fn load_block(block: &Block) -> [__m128i; 4] {
    let swap = _mm_set_epi64x(0x0c0d0e0f_08090a0b, 0x04050607_00010203);
    let mut words = [_mm_setzero_si128(); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: sixteen bytes are borrowed, and the load needs no alignment.
        *words = _mm_shuffle_epi8(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }, swap);
    }
    words
}

#[inline]
#[target_feature(enable = "sse4.1,avx")]
fn load_state(state: &State) -> [__m128i; 2] {
    let (halves, _) = state.0.as_chunks();
    [load(&halves[0]), load(&halves[1])]
}

/// Adds the outcome of a block to the state before it (6.2.2, step 4).
#[inline]
#[target_feature(enable = "sse4.1,avx")]
fn add_state(state: &mut State, outcome: [__m128i; 2]) {
    for (half, outcome) in state.0.as_chunks_mut().0.iter_mut().zip(outcome) {
        store(half, _mm_add_epi32(load(half), outcome));
    }
}

#[inline]
#[target_feature(enable = "sse4.1,avx")]
fn load(words: &[u32; 4]) -> __m128i {
    // SAFETY: sixteen bytes are borrowed, and the load needs no alignment.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse4.1,avx")]
fn store(words: &mut [u32; 4], vector: __m128i) {
    // SAFETY: sixteen bytes are borrowed mutably, and the store needs no alignment.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), vector) }
}

/// The constants *K* (4.2.2), four rounds to a row and 16 to a table.
static K: [[[u32; 4]; 4]; 4] = [
    [
        [0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5],
        [0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5],
        [0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3],
        [0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174],
    ],
    [
        [0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc],
        [0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da],
        [0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7],
        [0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967],
    ],
    [
        [0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13],
        [0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85],
        [0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3],
        [0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070],
    ],
    [
        [0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5],
        [0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3],
        [0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208],
        [0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2],
    ],
];
