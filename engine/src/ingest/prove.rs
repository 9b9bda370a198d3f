//! Proving the grains of a morsel: what their addresses are, and that they are what a grain must
//! be.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{RejectRow, SignatureColumn, split_sort_key};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Grain, Mark, Marks, Mode, Payload};
use gristmill_schemas::sign::{Delivery, KeyResolver, SignatureStatus};

use super::morsel::Morsel;
use super::persons::{Numbering, Persons};
use crate::hash::{Digest, sha256_each};
use crate::keys::{LakeKeys, write_sort_key};

/// How grains are judged.
#[derive(Clone, Copy)]
pub(crate) struct Judgement<'a> {
    /// Strict or lenient.
    pub(crate) mode: Mode,
    /// Bytes of a decompressed payload at most.
    pub(crate) payload_limit: usize,
    /// Who knows the keys of signers.
    pub(crate) resolver: &'a dyn KeyResolver,
    /// When the run began, in microseconds since 1970.
    pub(crate) now: i64,
    /// The keys that the rows will be sealed with.
    pub(crate) keys: Option<&'a LakeKeys>,
}

/// A grain that is what it should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProvenRow {
    pub(crate) address: ContentAddress,
    /// What its sort key ends with.
    pub(super) created: u64,
    /// What its sort key begins with, by its number in the morsel.
    pub(super) person: u32,
    /// Its place in the morsel.
    pub(crate) item: u32,
    pub(crate) signature: SignatureColumn,
    /// Bytes of its payload when it is open.
    pub(crate) opened: u32,
    /// What is odd about it.
    pub(crate) marks: Marks,
    /// True if the batch has the same grain before it.
    pub(super) is_repeated: bool,
}

/// A morsel whose grains were all looked at.
#[derive(Debug)]
pub(crate) struct ProvenMorsel {
    pub(crate) morsel: Morsel,
    /// The good grains, in order.
    pub(crate) rows: Vec<ProvenRow>,
    /// What their sort keys begin with.
    pub(super) persons: Persons,
    /// The others.
    pub(crate) rejects: Vec<Refusal>,
    /// How often each mark was made.
    pub(crate) marks: Vec<(Mark, u64)>,
}

/// A grain that was refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: GrainError,
    /// True if a lenient reader takes it.
    pub(crate) is_readable: bool,
    pub(crate) row: RejectRow,
}

/// Bytes of opened payloads that are held at a time. A morsel of grains that aren't compressed is
/// below it; small grains that decompress to large ones are opened a few at a time.
pub(crate) const OPENED_BYTES: usize = 8 << 20;

/// Grains that are open at a time: enough for the hashing kernel, few enough to stay in the cache.
pub(super) const OPENED_GRAINS: usize = 512;

/// Touches the cache lines of `grains`. Whoever opens one after another waits for the memory each
/// time, while loads on which nothing depends are under way together.
pub(super) fn bring_into_cache<'g>(grains: impl Iterator<Item = &'g [u8]>) {
    let touch = |grain: &[u8]| {
        grain
            .iter()
            .step_by(CACHE_LINE)
            .take(FIRST_LINES)
            .fold(0, |sum, byte| sum ^ byte)
    };
    // Something must be made of what is loaded, or it isn't.
    std::hint::black_box(grains.map(touch).fold(0, |sum, part| sum ^ part));
}

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Lines of a grain that are touched: what stands behind them is read in order, which the processor
/// foresees.
const FIRST_LINES: usize = 16;

/// Opens, hashes, decodes and checks every grain of `morsel`.
pub(crate) fn prove(morsel: Morsel, judgement: Judgement<'_>) -> ProvenMorsel {
    let rows = Vec::with_capacity(morsel.len());
    let mut numbering = Numbering::of_grains(morsel.len());
    let mut proven = ProvenMorsel {
        rows,
        persons: Persons::default(),
        rejects: Vec::new(),
        marks: Vec::new(),
        morsel,
    };
    let mut next = 0;
    while next < proven.morsel.len() {
        next = prove_run(&mut proven, &mut numbering, next, judgement);
    }
    proven.persons = numbering.end();
    proven.rejects.sort_by_key(|refusal| refusal.row.ordinal);
    proven
}

/// Proves grains from `first` on until [`OPENED_GRAINS`] or [`OPENED_BYTES`] are open; answers
/// which grain is next.
fn prove_run(
    proven: &mut ProvenMorsel,
    numbering: &mut Numbering,
    first: usize,
    judgement: Judgement<'_>,
) -> usize {
    let ProvenMorsel {
        morsel,
        rows,
        rejects,
        marks,
        ..
    } = proven;
    let end = morsel.len().min(first + OPENED_GRAINS);
    let mut opened = Vec::with_capacity(end - first);
    bring_into_cache((first..end).map(|item| morsel.item(item)));
    let (mut item, mut bytes) = (first, 0);
    while item < end && bytes < OPENED_BYTES {
        match open(morsel.item(item), judgement) {
            Ok(found) => {
                bytes += found.payload_length();
                opened.push((item, found));
            }
            Err(error) => rejects.push(refusal(morsel, item, error, judgement.now)),
        }
        item += 1;
    }
    let mut digests: Vec<Digest> = vec![Digest::default(); opened.len()];
    sha256_each(&mut digests, |at| {
        opened
            .get(at)
            .map_or(&[], |(_, found)| found.delivery.blob())
    });
    let mut checker = Checker {
        grain: None,
        mode: judgement.mode,
    };
    let mut key = Vec::new();
    for ((item, found), digest) in opened.iter().zip(digests) {
        match checker
            .check(&found.payload)
            .map_err(|error| error.shifted(found.delivery.blob_start()))
        {
            Ok(grain) => {
                key.clear();
                write_sort_key(judgement.keys, grain, &mut key);
                let (person, created) = split_sort_key(&key);
                rows.push(ProvenRow {
                    address: ContentAddress::from_digest(digest),
                    created,
                    person: numbering.number(person),
                    item: *item as u32,
                    signature: found.signature,
                    opened: found.payload_length() as u32,
                    marks: grain.marks(),
                    is_repeated: false,
                });
                count(marks, grain.marks());
            }
            Err(error) => {
                let is_readable = judgement.mode == Mode::Strict
                    && Grain::decode(&found.payload, Mode::Lenient).is_ok();
                rejects.push(Refusal {
                    is_readable,
                    ..refusal(morsel, *item, error, judgement.now)
                });
            }
        }
    }
    item
}

/// A delivered grain whose envelope and payload were opened.
pub(crate) struct Opened<'a> {
    pub(crate) delivery: Delivery<'a>,
    pub(crate) payload: Payload<'a>,
    pub(crate) signature: SignatureColumn,
}

impl Opened<'_> {
    /// Bytes of the payload, decompressed; 0 if it is encrypted.
    pub(crate) fn payload_length(&self) -> usize {
        self.payload.clear().map_or(0, |(bytes, _)| bytes.len())
    }
}

/// Opens delivered bytes; a signature that is wrong is an error.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    judgement: Judgement<'_>,
) -> Result<Opened<'a>, GrainError> {
    let delivery = Delivery::open(bytes)?;
    let signature = signature_of(&delivery, judgement.resolver)?;
    let payload = Payload::open(delivery.blob(), judgement.payload_limit)
        .map_err(|error| error.shifted(delivery.blob_start()))?;
    Ok(Opened {
        delivery,
        payload,
        signature,
    })
}

/// What the signature is worth; one that is wrong is an error.
fn signature_of(
    delivery: &Delivery<'_>,
    resolver: &dyn KeyResolver,
) -> Result<SignatureColumn, GrainError> {
    let Delivery::Signed(signed) = delivery else {
        return Ok(SignatureColumn::None);
    };
    Ok(match signed.prove(resolver)? {
        SignatureStatus::Valid => SignatureColumn::Valid,
        SignatureStatus::Invalid => SignatureColumn::Invalid,
        SignatureStatus::Unverifiable(_) => SignatureColumn::Unverifiable,
    })
}

/// Decodes one payload after another with the same memory.
pub(crate) struct Checker<'p> {
    pub(crate) grain: Option<Grain<'p>>,
    pub(crate) mode: Mode,
}

impl<'p> Checker<'p> {
    /// Checks a payload; answers its grain.
    pub(crate) fn check(&mut self, payload: &'p Payload<'p>) -> Result<&Grain<'p>, GrainError> {
        match &mut self.grain {
            Some(grain) => {
                grain.redecode(payload, self.mode)?;
                Ok(grain)
            }
            empty => Ok(empty.insert(Grain::decode(payload, self.mode)?)),
        }
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

fn refusal(morsel: &Morsel, item: usize, error: GrainError, now: i64) -> Refusal {
    let start = morsel.extent(item).map(|extent| extent.start as i64);
    let row = RejectRow {
        source_id: morsel.source.id.clone(),
        source: morsel.source.uri.clone(),
        ordinal: (morsel.first + item as u64) as i64,
        offset: start.map(|start| start + error.offset.unwrap_or(0) as i64),
        error_code: error.code.name().to_owned(),
        field: error.field.as_deref().map(str::to_owned),
        message: error.to_string(),
        bytes: morsel.item(item).to_vec(),
        truncated: false,
        rejected_at: now,
    };
    Refusal {
        error,
        is_readable: false,
        row,
    }
}
