//! Crypto-shredding: erases rows of any number by destroying the key that they are sealed with.
//!
//! A key may be destroyed only if everything that is sealed with it is to be erased. If one grain
//! is under hold or retention, the request is refused; without key destruction, the other grains
//! can be erased by rewriting.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::AsArray;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;

use super::certificate::Remaining;
use super::reason::{NOT_SELECTED, Reason};
use super::survey::{FoundGrain, Survey};
use crate::error::{Context, EngineError, Result};
use crate::keys::{KeyDisposition, KeyId, LakeKeys, Unsealed, key_of};
use crate::lake::{Lake, LakeFile, Segment, address_at, texts};

/// The keys to destroy, and the rows that become unreadable with them.
#[derive(Debug, Default)]
pub(super) struct ShredPlan {
    pub(super) keys: BTreeSet<KeyVersion>,
    /// Index of the segment, and row in the segment.
    pub(super) rows: HashSet<(u32, u32)>,
}

/// A key and its generation.
type KeyVersion = (KeyId, u32);

/// Plans the destruction of the keys of the people whose grains `survey` found by their user id.
///
/// # Errors
/// [`EngineError::Policy`] if a row that is sealed with one of the keys has to stay.
pub(super) async fn plan(lake: &Lake, survey: &Survey) -> Result<ShredPlan> {
    let found: FoundRows<'_> = survey
        .grains
        .iter()
        .map(|found| ((found.segment, found.row), found))
        .collect();
    let mut plan = ShredPlan {
        keys: keys_of_subjects(lake, survey, &found).await?,
        rows: HashSet::new(),
    };
    let kept = kept_keys(lake, &plan.keys);
    plan.keys.extend(kept);
    let mut exempt: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (number, segment) in sealed_segments(survey).filter(|_| !plan.keys.is_empty()) {
        for (row, _, key) in envelopes(lake, segment).await? {
            if !plan.keys.contains(&key) {
                continue;
            }
            let reason = match found.get(&(number, row)).map(|found| &found.exemption) {
                Some(None) => {
                    plan.rows.insert((number, row));
                    continue;
                }
                Some(Some(exemption)) => exemption.name(),
                // The row was added after the survey.
                None => NOT_SELECTED,
            };
            *exempt.entry(reason).or_default() += 1;
        }
    }
    check_none_exempt(&exempt).map(|()| plan)
}

/// The rows that a survey found.
type FoundRows<'s> = HashMap<(u32, u32), &'s FoundGrain>;

/// Iterates over the sealed segments, each with its index.
fn sealed_segments(survey: &Survey) -> impl Iterator<Item = (u32, &Segment)> {
    (0..)
        .zip(&survey.segments)
        .filter(|(_, segment)| segment.id.is_sealed())
}

/// Returns the keys of the rows that were found by their user id.
async fn keys_of_subjects(
    lake: &Lake,
    survey: &Survey,
    found: &FoundRows<'_>,
) -> Result<BTreeSet<KeyVersion>> {
    let is_own = |id: &(u32, u32)| {
        found
            .get(id)
            .is_some_and(|found| found.reasons.contains(Reason::UserId))
    };
    let mut keys = BTreeSet::new();
    for (number, segment) in sealed_segments(survey) {
        if found.keys().any(|id| id.0 == number && is_own(id)) {
            let envelopes = envelopes(lake, segment).await?.into_iter();
            let own = envelopes.filter(|(row, ..)| is_own(&(number, *row)));
            keys.extend(own.map(|(_, _, key)| key));
        }
    }
    Ok(keys)
}

/// Returns all usable keys of the people of `keys`. Older ones, which a rotation has kept, open
/// backups of the lake.
fn kept_keys(lake: &Lake, keys: &BTreeSet<KeyVersion>) -> Vec<KeyVersion> {
    let people: HashSet<KeyId> = keys.iter().map(|(id, _)| *id).collect();
    let usable = lake.keys().map(|own| own.usable()).unwrap_or_default();
    let of_people = usable.into_iter().filter(|(id, _)| people.contains(id));
    of_people.collect()
}

fn check_none_exempt(exempt: &BTreeMap<&'static str, u64>) -> Result<()> {
    if exempt.is_empty() {
        return Ok(());
    }
    let counts: Vec<String> = exempt
        .iter()
        .map(|(reason, count)| format!("{reason}: {count}"))
        .collect();
    Err(EngineError::Policy(format!(
        "a key can't be destroyed while grains that are sealed with it must stay ({}); without \
         --destroy-keys the others are erased by rewriting",
        counts.join(", ")
    )))
}

/// Reads row, address and key of every envelope in `segment`.
async fn envelopes(
    lake: &Lake,
    segment: &Segment,
) -> Result<Vec<(u32, ContentAddress, KeyVersion)>> {
    let path = lake.grains.path_of(&segment.file.name);
    let file = LakeFile::open(lake, &path).await?;
    let read = move || {
        let mut out = Vec::new();
        each_envelope(&file, |row, address, blob| {
            out.extend(
                address
                    .zip(key_of(blob))
                    .map(|(address, key)| (row, address, key)),
            );
        })?;
        Ok(out)
    };
    tokio::task::spawn_blocking(read)
        .await
        .file("can't read", &path)?
}

/// Calls `found` with row, address and blob of every row of `file`, as they are stored.
fn each_envelope(
    file: &LakeFile,
    mut found: impl FnMut(u32, Option<ContentAddress>, &[u8]),
) -> Result<()> {
    let columns = [
        SystemColumn::ContentAddress.name(),
        SystemColumn::Blob.name(),
    ];
    let mut first = 0;
    for batch in file.stored_rows(Some(&columns))? {
        let batch = batch.file("can't read", "a segment")?;
        let blobs = batch
            .column(1)
            .as_binary_opt::<i32>()
            .ok_or("no blobs")
            .file("can't read", "a segment")?;
        for (at, blob) in blobs.iter().enumerate() {
            let address = address_at(texts(&batch, columns[0]), at);
            if let Some(blob) = blob {
                found(first + at as u32, address, blob);
            }
        }
        first += batch.num_rows() as u32;
    }
    Ok(())
}

/// Destroys `keys`. A key that was destroyed before is no error.
pub(super) fn destroy(lake: &Lake, keys: &[(String, u32)]) -> Result<()> {
    match (lake.keys(), parse_keys(keys)) {
        (_, keys) if keys.is_empty() => Ok(()),
        (Some(lake_keys), keys) => {
            let keys: Vec<_> = keys.into_iter().collect();
            lake_keys.end(&keys, KeyDisposition::Destroyed)
        }
        (None, _) => Err(EngineError::Key(
            "an erasure that destroys keys can't be resumed without the keyring".to_owned(),
        )),
    }
}

/// Parses the keys of a journal: ids in hex, and generations.
fn parse_keys(keys: &[(String, u32)]) -> HashSet<KeyVersion> {
    let id = |text: &String| {
        let mut id = [0; 16];
        hex::decode_to_slice(text, &mut id).ok().map(|()| KeyId(id))
    };
    keys.iter()
        .filter_map(|(text, generation)| Some((id(text)?, *generation)))
        .collect()
}

/// Tries to open every envelope of the lake that is sealed with one of `keys`.
pub(super) async fn prove(lake: &Lake, keys: &[(String, u32)]) -> Result<Remaining> {
    let destroyed = parse_keys(keys);
    let mut tried = Remaining::default();
    let segments = lake.segments()?.into_iter();
    for segment in segments.filter(|segment| segment.id.is_sealed()) {
        let path = lake.grains.path_of(&segment.file.name);
        let file = LakeFile::open(lake, &path).await?;
        let Some(lake_keys) = file.keys().map(Arc::clone) else {
            continue;
        };
        let destroyed = destroyed.clone();
        let part = tokio::task::spawn_blocking(move || try_all(&file, &lake_keys, &destroyed));
        let part = part.await.file("can't read", &path)??;
        tried.add(&part);
    }
    Ok(tried)
}

/// Tries to open the envelopes of `file` whose key was destroyed.
fn try_all(file: &LakeFile, keys: &LakeKeys, destroyed: &HashSet<KeyVersion>) -> Result<Remaining> {
    let mut tried = Remaining::default();
    each_envelope(file, |_, address, blob| {
        if key_of(blob).is_some_and(|key| destroyed.contains(&key)) {
            tried.checked += 1;
            let opened = address.map(|address| keys.unseal(&address, blob));
            tried.left += u64::from(matches!(opened, Some(Ok(Unsealed::Clear(_)))));
        }
    })?;
    Ok(tried)
}
