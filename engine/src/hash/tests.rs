//! Digests must equal those of the standard and of `sha2`, whatever the lengths, their order and
//! their place in memory.

use proptest::{collection::vec, prelude::*};
use sha2::block_api::compress256;

use super::lanes::{Block, Compressor, State};
use super::*;

/// `sha2`'s compression function behind the lanes: distinguishes a mistake of the lanes from one of
/// the kernel, on any CPU.
#[derive(Clone, Copy)]
struct Portable;

impl Compressor for Portable {
    const INITIAL: State = State([
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
        0x5be0cd19,
    ]);

    fn compress<const N: usize>(self, states: &mut [State; N], blocks: &[&Block; N]) {
        for (state, block) in states.iter_mut().zip(blocks) {
            compress256(&mut state.0, std::slice::from_ref(*block));
        }
    }

    fn digest(self, state: &State) -> Digest {
        state
            .0
            .map(u32::to_be_bytes)
            .as_flattened()
            .try_into()
            .unwrap()
    }

    fn prefetch(self, _: *const u8) {}
}

/// Hashes in every way that there is, and asserts that all agree with `sha2`.
fn digests(messages: &[&[u8]]) -> Vec<Digest> {
    let expected: Vec<Digest> = messages
        .iter()
        .map(|message| Sha256::digest(message).into())
        .collect();
    let [mut many, mut each, mut portable, mut single] =
        [0xff, 0xfe, 0xfd, 0xfc].map(|b| vec![[b; 32]; messages.len()]);
    sha256_many(messages, &mut many);
    sha256_each(&mut each, |i| messages[i]);
    lanes::hash_each(Portable, &mut portable, |i| messages[i]);
    one_by_one(&mut single, |i| messages[i]);
    assert!(many == expected, "sha256_many");
    assert!(each == expected, "sha256_each");
    assert!(portable == expected, "lanes over sha2");
    assert!(single == expected, "one by one");
    expected
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e3779b97f4a7c15u64;
    let next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn the_published_vectors_give_their_published_digests() {
    let million = vec![b'a'; 1_000_000];
    let messages: [&[u8]; 5] = [
        b"",
        b"abc",
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
        &million,
    ];
    let published = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
    ];
    let hex = |digest: &Digest| {
        digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        digests(&messages).iter().map(hex).collect::<Vec<_>>(),
        published
    );
}

#[test]
fn every_length_of_up_to_four_blocks_at_every_alignment() {
    let bytes = noise(300);
    let messages: Vec<&[u8]> = (0..16)
        .flat_map(|start| (0..=257).map(move |length| (start, length)))
        .map(|(s, l)| &bytes[s..][..l])
        .collect();
    digests(&messages);
}

#[test]
fn a_long_message_may_stand_anywhere_in_a_list_of_any_length() {
    let (long, short) = (noise(5_000), noise(70));
    for count in 0..12 {
        for place in 0..count {
            let mut messages = vec![&short[..]; count];
            messages[place] = &long;
            digests(&messages);
        }
    }
}

#[test]
fn a_list_of_nothing_is_hashed_to_nothing() {
    assert!(digests(&[]).is_empty());
}

#[test]
#[should_panic(expected = "one digest per message")]
fn a_digest_too_few_is_refused() {
    sha256_many(&[b"a", b"b"], &mut [[0; 32]]);
}

/// Lengths where padding changes its shape, small ones, and now and then a long one.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => (0..5usize, prop::sample::select(&[0, 1, 54, 55, 56, 57, 62, 63][..])).prop_map(|(blocks, rest)| 64 * blocks + rest),
        4 => 0..600usize,
        1 => 600..20_000usize,
    ]
}

proptest! {
    /// Messages lie anywhere in one buffer, so they overlap and come twice.
    #[test]
    fn digests_equal_those_of_sha2(places in vec((0..1_000usize, length()), 0..60), twice in any::<bool>()) {
        let bytes = noise(21_000);
        let mut messages: Vec<&[u8]> = places.iter().map(|&(start, length)| &bytes[start..][..length]).collect();
        if twice {
            messages.extend(messages.clone());
        }
        digests(&messages);
    }
}
