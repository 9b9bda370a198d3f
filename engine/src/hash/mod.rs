//! SHA-256 of many independent messages at once, near the limit of the machine.
//!
//! Every grain is addressed by the SHA-256 of its blob, so ingest, verification, import and erasure
//! hash millions of small blobs. For a running hash of one long stream use the `sha2` crate.
//!
//! # The idea
//!
//! SHA-256 cuts a message into blocks of 64 bytes and folds them one by one into a state of eight
//! words. The 64 rounds of a block form one chain of dependencies, and so do the blocks of a
//! message: a CPU with SHA instructions spends half of its time waiting for the last round. Other
//! *messages* don't depend on that chain. So several are hashed in parallel in one thread, and
//! while one waits for its round, the others have theirs:
//!
//! ```text
//! lanes = the first 3 messages
//! while a lane has a message:
//!     steps = the smallest number of blocks that any lane has left
//!     repeat steps times:
//!         block[l] = the next block of each lane l        // of its body, then of its padded tail
//!         prefetch a line of a message that comes later
//!         state[0..3] = compress(state[0..3], block[0..3])
//!     digests[number of the message that ended] = its state
//!     its lane = the next message, or nothing when none is left
//! ```
//!
//! What makes it fast:
//!
//! 1. **Three lanes.** `sha256rnds2` takes four cycles and can start every two, so two perfectly
//!    timed lanes would do. Three leave the CPU enough slack to reach 64 cycles a block without any
//!    timing of ours. A fourth adds nothing but registers: a lane keeps six vectors alive, and
//!    there are sixteen.
//! 2. **Coarse interleaving.** Each lane does 16 rounds before the next lane does. That is the
//!    reach of out-of-order execution, and within it a lane keeps its message words in
//!    registers. Switching every four rounds costs a tenth of the speed.
//! 3. **Refilling.** A lane whose message ends takes the next message at once, so a long message
//!    among short ones never leaves lanes idle. How long all lanes run is known beforehand: one
//!    branch per message is hard to predict, none per block.
//! 4. **Nothing is copied but tails.** Body blocks are hashed in place. The last bytes and
//!    the padding make one or two tail blocks, built when a message *starts* by copies of fixed
//!    size, hence without branches, and long before they are read back. A conditional move selects
//!    body or tail.
//! 5. **Prefetching, one line a block.** The CPU's prefetcher can't predict the address of the
//!    next message, and one miss stalls all lanes. So while block *i* of a message is hashed, block
//!    *i* of the message eight places further on is prefetched. Prefetching a whole message at once
//!    is up to a tenth slower: it fills the miss buffers.
//! 6. **AVX encodings.** Three operands instead of two save the copies between registers that would
//!    otherwise fill the decoder, which counts when another hardware thread shares the core.
//!
//! # Files
//!
//! `lanes` decides which block is next. It is safe, portable code over the trait `Compressor`,
//! tested with `sha2`'s compression function as well. `sha_ni` is the one `Compressor` that ships:
//! SHA extensions on x86-64, found at run time. On any other CPU messages go to `sha2` one by one.

#[cfg(any(target_arch = "x86_64", test))]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
#[cfg(test)]
mod tests;

use sha2::{Digest as _, Sha256};

/// A SHA-256 hash.
pub type Digest = [u8; 32];

/// Hashes every message: `digests[i]` becomes the SHA-256 of `messages[i]`.
///
/// Runs in the calling thread and allocates nothing; to use more cores, cut the list. Messages may
/// have any lengths in any order, and may overlap. Lists of thirty and more reach full speed; a
/// message alone is hashed a little slower than by `sha2`.
///
/// # Panics
///
/// If the two slices differ in length.
pub fn sha256_many(messages: &[&[u8]], digests: &mut [Digest]) {
    assert_eq!(messages.len(), digests.len(), "one digest per message");
    sha256_each(digests, |i| messages[i]);
}

/// Hashes messages that aren't in a slice: `digests[i]` becomes the SHA-256 of `message(i)`.
///
/// For blobs that are ranges of a buffer or values of an Arrow array: `sha256_each(&mut digests,
/// |i| array.value(i))`. `message` should be cheap and must return the same bytes each time: it is
/// called twice for most numbers, the first time for prefetching. Otherwise as [`sha256_many`].
pub fn sha256_each<'m>(digests: &mut [Digest], message: impl Fn(usize) -> &'m [u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(compressor) = sha_ni::ShaNi::detect() {
        return compressor.hash_each(digests, message);
    }
    one_by_one(digests, message);
}

/// Implements [`sha256_each`] on CPUs without a kernel.
fn one_by_one<'m>(digests: &mut [Digest], message: impl Fn(usize) -> &'m [u8]) {
    for (i, digest) in digests.iter_mut().enumerate() {
        *digest = Sha256::digest(message(i)).into();
    }
}
