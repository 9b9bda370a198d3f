//! Proving the grains of a morsel: computing their addresses, and checking that they are valid.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{RejectRow, SignatureColumn, split_sort_key};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{DecodeMode, DeviceProfile, Grain, Mark, Marks, Payload};
use gristmill_schemas::sign::{DeliveredGrain, KeyResolver, SignatureStatus};

use super::device_profile::ProfileCounts;
use super::key_interner::{InternedKeys, KeyInterner};
use super::morsel::Morsel;
use crate::hash::{Digest, sha256_each};
use crate::keys::{LakeKeys, write_sort_key};
use crate::lake::{RejectBytes, RejectReason};

/// By which rules grains are proven.
#[derive(Clone, Copy)]
pub(crate) struct ProofOptions<'a> {
    /// Strict or lenient.
    pub(crate) mode: DecodeMode,
    /// Maximum size of a decompressed payload in bytes.
    pub(crate) payload_limit: usize,
    /// Resolves the keys of signers.
    pub(crate) resolver: &'a dyn KeyResolver,
    /// When the run began, in microseconds since 1970.
    pub(crate) now: i64,
    /// The keys with which the rows will be encrypted.
    pub(crate) keys: Option<&'a LakeKeys>,
    /// The device profile whose limits are checked.
    pub(crate) profile: Option<DeviceProfile>,
}

/// A valid grain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProvenRow {
    pub(crate) address: ContentAddress,
    /// The second part of its sort key.
    pub(super) created: u64,
    /// The creation second in its header.
    pub(super) second: u32,
    /// The number of the first part of its sort key in the morsel.
    pub(super) key_prefix: u32,
    /// Its index in the morsel.
    pub(crate) item: u32,
    pub(crate) signature: SignatureColumn,
    /// The size of its payload after decompression, in bytes.
    pub(crate) opened: u32,
    /// Deviations that a lenient reader accepts.
    pub(crate) marks: Marks,
    /// True if the same grain is earlier in the batch.
    pub(super) is_repeated: bool,
}

/// A morsel whose grains were proven.
#[derive(Debug)]
pub(crate) struct ProvenMorsel {
    pub(crate) morsel: Morsel,
    /// The valid grains, in order.
    pub(crate) rows: Vec<ProvenRow>,
    /// The first parts of their sort keys.
    pub(super) key_prefixes: InternedKeys,
    /// The other grains.
    pub(crate) rejects: Vec<RejectedGrain>,
    /// The number of grains with each mark.
    pub(crate) marks: Vec<(Mark, u64)>,
    /// The valid grains beyond the limits of the device profile.
    pub(crate) beyond_profile: ProfileCounts,
}

/// A grain that was rejected.
#[derive(Debug)]
pub(crate) struct RejectedGrain {
    pub(crate) error: GrainError,
    /// True if a lenient reader accepts it.
    pub(crate) is_readable: bool,
    pub(crate) row: RejectRow,
}

/// Bytes of opened payloads that are held at a time. A morsel of uncompressed grains is smaller;
/// small grains that decompress to large ones are opened a few at a time.
pub(crate) const OPENED_BYTES: usize = 8 << 20;

/// Grains that are open at a time: enough for the hashing kernel, few enough to stay in the cache.
pub(super) const OPENED_GRAINS: usize = 512;

/// Loads the cache lines of `grains`. Opening the grains one after another would wait for the
/// memory each time, while independent loads overlap.
pub(super) fn prefetch<'g>(grains: impl Iterator<Item = &'g [u8]>) {
    let touch = |grain: &[u8]| {
        grain
            .iter()
            .step_by(CACHE_LINE)
            .take(FIRST_LINES)
            .fold(0, |sum, byte| sum ^ byte)
    };
    // Keep the result alive, or the loads are optimised away.
    std::hint::black_box(grains.map(touch).fold(0, |sum, part| sum ^ part));
}

/// The size of a cache line in bytes.
const CACHE_LINE: usize = 64;

/// Cache lines that are loaded of a grain. The lines after them are read in order, which the
/// processor prefetches.
const FIRST_LINES: usize = 16;

/// Opens, hashes, decodes and checks every grain of `morsel`.
pub(crate) fn prove(morsel: Morsel, options: ProofOptions<'_>) -> ProvenMorsel {
    let rows = Vec::with_capacity(morsel.len());
    let mut interner = KeyInterner::with_capacity(morsel.len());
    let mut proven = ProvenMorsel {
        rows,
        key_prefixes: InternedKeys::default(),
        rejects: Vec::new(),
        marks: Vec::new(),
        beyond_profile: ProfileCounts::default(),
        morsel,
    };
    let mut next = 0;
    while next < proven.morsel.len() {
        next = prove_chunk(&mut proven, &mut interner, next, options);
    }
    proven.key_prefixes = interner.finish();
    proven.rejects.sort_by_key(|reject| reject.row.ordinal);
    proven
}

/// Proves grains from `first` on until [`OPENED_GRAINS`] or [`OPENED_BYTES`] are open. Returns the
/// index of the next grain.
fn prove_chunk(
    proven: &mut ProvenMorsel,
    interner: &mut KeyInterner,
    first: usize,
    options: ProofOptions<'_>,
) -> usize {
    let ProvenMorsel {
        morsel,
        rows,
        rejects,
        marks,
        beyond_profile,
        ..
    } = proven;
    let (opened, next) = open_chunk(morsel, first, options, rejects);
    let mut digests: Vec<Digest> = vec![Digest::default(); opened.len()];
    sha256_each(&mut digests, |at| {
        opened
            .get(at)
            .map_or(&[], |(_, found)| found.delivery.blob())
    });
    let mut decoder = GrainDecoder::new(options.mode);
    let mut key = Vec::new();
    for ((item, found), digest) in opened.iter().zip(digests) {
        let grain = match decoder.decode(&found.payload) {
            Ok(grain) => grain,
            Err(error) => {
                rejects.push(undecodable(morsel, *item, found, error, options));
                continue;
            }
        };
        key.clear();
        write_sort_key(options.keys, grain, &mut key);
        let (prefix, created) = split_sort_key(&key);
        rows.push(ProvenRow {
            address: ContentAddress::from_digest(digest),
            created,
            second: found.second,
            key_prefix: interner.intern(prefix),
            item: *item as u32,
            signature: found.signature,
            opened: found.payload_length() as u32,
            marks: grain.marks(),
            is_repeated: false,
        });
        count(marks, grain.marks());
        beyond_profile.add(options.profile, grain, found.delivery.blob().len());
    }
    next
}

/// Returns the reject of the grain `item`, which was opened as `found` but can't be decoded.
fn undecodable(
    morsel: &Morsel,
    item: usize,
    found: &OpenedGrain<'_>,
    error: GrainError,
    options: ProofOptions<'_>,
) -> RejectedGrain {
    let is_readable =
        options.mode.is_strict() && Grain::decode(&found.payload, DecodeMode::Lenient).is_ok();
    let error = error.shifted(found.delivery.blob_start());
    RejectedGrain {
        is_readable,
        ..rejected(morsel, item, error, options.now)
    }
}

/// Opens grains of `morsel` from `first` on until [`OPENED_GRAINS`] or [`OPENED_BYTES`] are open.
/// Returns them with their indexes, and the index of the next grain.
fn open_chunk<'m>(
    morsel: &'m Morsel,
    first: usize,
    options: ProofOptions<'_>,
    rejects: &mut Vec<RejectedGrain>,
) -> (Vec<(usize, OpenedGrain<'m>)>, usize) {
    let end = morsel.len().min(first + OPENED_GRAINS);
    let mut opened = Vec::with_capacity(end - first);
    prefetch((first..end).map(|item| morsel.item(item)));
    let (mut item, mut bytes) = (first, 0);
    while item < end && bytes < OPENED_BYTES {
        match open(morsel.item(item), options) {
            Ok(found) => {
                bytes += found.payload_length();
                opened.push((item, found));
            }
            Err(error) => rejects.push(rejected(morsel, item, error, options.now)),
        }
        item += 1;
    }
    (opened, item)
}

/// A delivered grain whose envelope and payload were opened.
pub(crate) struct OpenedGrain<'a> {
    pub(crate) delivery: DeliveredGrain<'a>,
    pub(crate) payload: Payload<'a>,
    pub(crate) signature: SignatureColumn,
    /// The creation second in the header.
    pub(crate) second: u32,
}

impl OpenedGrain<'_> {
    /// Returns the size of the decompressed payload in bytes; 0 if it is encrypted.
    pub(crate) fn payload_length(&self) -> usize {
        self.payload.plaintext().map_or(0, |(bytes, _)| bytes.len())
    }
}

/// Opens delivered bytes.
///
/// # Errors
/// What is wrong with them; also a wrong signature.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    options: ProofOptions<'_>,
) -> Result<OpenedGrain<'a>, GrainError> {
    let delivery = DeliveredGrain::open(bytes)?;
    let signature = signature_of(&delivery, options.resolver)?;
    let payload = Payload::open(delivery.blob(), options.payload_limit)
        .map_err(|error| error.shifted(delivery.blob_start()))?;
    let second = payload.header().created_at_seconds;
    Ok(OpenedGrain {
        delivery,
        payload,
        signature,
        second,
    })
}

/// Returns the validity of the signature. A wrong signature is an error.
fn signature_of(
    delivery: &DeliveredGrain<'_>,
    resolver: &dyn KeyResolver,
) -> Result<SignatureColumn, GrainError> {
    let DeliveredGrain::Signed(signed) = delivery else {
        return Ok(SignatureColumn::None);
    };
    Ok(match signed.ensure_not_invalid(resolver)? {
        SignatureStatus::Valid => SignatureColumn::Valid,
        SignatureStatus::Invalid => SignatureColumn::Invalid,
        SignatureStatus::Unverifiable(_) => SignatureColumn::Unverifiable,
    })
}

/// Decodes payloads one after another, reusing the memory of the grain.
pub(crate) struct GrainDecoder<'p> {
    grain: Option<Grain<'p>>,
    mode: DecodeMode,
}

impl<'p> GrainDecoder<'p> {
    /// Returns a decoder by the rules of `mode`.
    pub(crate) fn new(mode: DecodeMode) -> GrainDecoder<'p> {
        GrainDecoder { grain: None, mode }
    }

    /// Decodes and checks a payload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(&mut self, payload: &'p Payload<'p>) -> Result<&Grain<'p>, GrainError> {
        self.decode_as(payload, self.mode)
    }

    /// Decodes and checks a payload by the rules of `mode`.
    ///
    /// # Errors
    /// As [`GrainDecoder::decode`].
    pub(crate) fn decode_as(
        &mut self,
        payload: &'p Payload<'p>,
        mode: DecodeMode,
    ) -> Result<&Grain<'p>, GrainError> {
        match &mut self.grain {
            Some(grain) => {
                grain.redecode(payload, mode)?;
                Ok(grain)
            }
            empty => Ok(empty.insert(Grain::decode(payload, mode)?)),
        }
    }

    /// Returns the grain that was decoded last.
    pub(crate) fn grain(&self) -> Option<&Grain<'p>> {
        self.grain.as_ref()
    }
}

fn count(counts: &mut Vec<(Mark, u64)>, marks: Marks) {
    for mark in marks.iter() {
        match counts.iter_mut().find(|(known, _)| *known == mark) {
            Some((_, count)) => *count += 1,
            None => counts.push((mark, 1)),
        }
    }
}

fn rejected(morsel: &Morsel, item: usize, error: GrainError, now: i64) -> RejectedGrain {
    let offset = morsel
        .extent(item)
        .map(|extent| extent.start as u64 + error.offset.unwrap_or(0));
    let source = &morsel.source;
    let row = source.reject_context(now).row(
        source.position(morsel.first + item as u64, offset),
        RejectReason::of(&error),
        RejectBytes::whole(morsel.item(item)),
    );
    RejectedGrain {
        error,
        is_readable: false,
        row,
    }
}
