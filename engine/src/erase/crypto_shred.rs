//! Erasing by destroying keys: what is sealed with a person's key is gone with it, whatever the
//! amount.
//!
//! A key may only be destroyed if everything that is sealed with it is to be erased. One grain
//! under hold or retention keeps the key, and then the request is refused: without keys to destroy,
//! erasure by rewriting takes what may go.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::AsArray;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::IdentityColumn;

use super::certificate::Remaining;
use super::reason::{Exemption, Reason};
use super::survey::{FoundGrain, Survey};
use crate::error::{Context, EngineError, Result};
use crate::keys::{KeyDisposition, KeyId, LakeKeys, Unsealed, key_of};
use crate::lake::{Lake, LakeFile, Segment, address_at, texts};

/// The keys that are to be destroyed, and the rows that go with them.
#[derive(Debug, Default)]
pub(super) struct ShredPlan {
    pub(super) keys: BTreeSet<(KeyId, u32)>,
    pub(super) rows: HashSet<(u32, u32)>,
}

/// The keys of the people whose grains `survey` found by their user id, with all rows that are
/// sealed with them.
///
/// # Errors
/// [`EngineError::Policy`] if something that is sealed with one of them has to stay.
pub(super) async fn plan(lake: &Lake, survey: &Survey) -> Result<ShredPlan> {
    let mut shred_plan = ShredPlan::default();
    let found: HashMap<(u32, u32), &FoundGrain> = survey
        .grains
        .iter()
        .map(|found| ((found.segment, found.row), found))
        .collect();
    let is_own = |place: &(u32, u32)| {
        found
            .get(place)
            .is_some_and(|found| found.reasons.contains(Reason::UserId))
    };
    let sealed = || {
        (0..)
            .zip(&survey.segments)
            .filter(|(_, segment)| segment.id.is_sealed())
    };
    let mut keys: HashMap<(u32, u32), (KeyId, u32)> = HashMap::new();
    for (number, segment) in sealed() {
        if found.keys().any(|place| place.0 == number && is_own(place)) {
            let of_row = |(row, _, key)| ((number, row), key);
            keys.extend(
                envelopes(lake, segment)
                    .await?
                    .into_iter()
                    .map(of_row)
                    .filter(|(place, _)| is_own(place)),
            );
        }
    }
    shred_plan.keys = keys.into_values().collect();
    let mut kept: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (number, segment) in sealed().filter(|_| !shred_plan.keys.is_empty()) {
        for (row, _, key) in envelopes(lake, segment).await? {
            if !shred_plan.keys.contains(&key) {
                continue;
            }
            match found.get(&(number, row)).map(|found| &found.exemption) {
                Some(None) => {
                    shred_plan.rows.insert((number, row));
                }
                Some(Some(exemption)) => *kept.entry(exemption.name()).or_default() += 1,
                // Something that came in since the survey.
                None => *kept.entry(Exemption::NotSelected.name()).or_default() += 1,
            }
        }
    }
    if kept.is_empty() {
        return Ok(shred_plan);
    }
    let told: Vec<String> = kept
        .iter()
        .map(|(why, count)| format!("{why}: {count}"))
        .collect();
    Err(EngineError::Policy(format!(
        "a key can't be destroyed while grains that are sealed with it must stay ({}); without \
         --destroy-keys the others are erased by rewriting",
        told.join(", ")
    )))
}

/// Row, address and key of every envelope in `segment`.
async fn envelopes(
    lake: &Lake,
    segment: &Segment,
) -> Result<Vec<(u32, ContentAddress, (KeyId, u32))>> {
    let path = lake.grains.path_of(&segment.file.name);
    let file = LakeFile::open(lake, &path).await?;
    let look = move || -> Result<Vec<_>> {
        let columns = [
            IdentityColumn::ContentAddress.name(),
            IdentityColumn::Blob.name(),
        ];
        let mut out = Vec::new();
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
                if let Some((address, key)) = address.zip(blob.and_then(key_of)) {
                    out.push((first + at as u32, address, key));
                }
            }
            first += batch.num_rows() as u32;
        }
        Ok(out)
    };
    tokio::task::spawn_blocking(look)
        .await
        .file("can't read", &path)?
}

/// Destroys `keys`; one that is gone already is no error.
pub(super) fn destroy(lake: &Lake, keys: &[(String, u32)]) -> Result<()> {
    match (lake.keys(), named(keys)) {
        (_, keys) if keys.is_empty() => Ok(()),
        (Some(lake_keys), keys) => lake_keys.end(
            &keys.into_iter().collect::<Vec<_>>(),
            KeyDisposition::Destroyed,
        ),
        (None, _) => Err(EngineError::Key(
            "an erasure that destroys keys needs the keyring to go on".to_owned(),
        )),
    }
}

fn named(keys: &[(String, u32)]) -> HashSet<(KeyId, u32)> {
    let id = |text: &String| {
        let mut id = [0; 16];
        hex::decode_to_slice(text, &mut id).ok().map(|()| KeyId(id))
    };
    keys.iter()
        .filter_map(|(text, generation)| Some((id(text)?, *generation)))
        .collect()
}

/// Tries every envelope in the lake that is sealed with one of `keys`.
pub(super) async fn prove(lake: &Lake, keys: &[(String, u32)]) -> Result<Remaining> {
    let destroyed = named(keys);
    let mut tried = Remaining::default();
    for segment in lake
        .segments()?
        .into_iter()
        .filter(|segment| segment.id.is_sealed())
    {
        let path = lake.grains.path_of(&segment.file.name);
        let file = LakeFile::open(lake, &path).await?;
        let Some(lake_keys) = file.keys().map(Arc::clone) else {
            continue;
        };
        let destroyed = destroyed.clone();
        let part = tokio::task::spawn_blocking(move || try_all(&file, &lake_keys, &destroyed));
        let part = part.await.file("can't read", &path)??;
        tried.checked += part.checked;
        tried.left += part.left;
    }
    Ok(tried)
}

fn try_all(
    file: &LakeFile,
    keys: &LakeKeys,
    destroyed: &HashSet<(KeyId, u32)>,
) -> Result<Remaining> {
    let columns = [
        IdentityColumn::ContentAddress.name(),
        IdentityColumn::Blob.name(),
    ];
    let mut tried = Remaining::default();
    for batch in file.stored_rows(Some(&columns))? {
        let batch = batch.file("can't read", "a segment")?;
        let blobs = batch
            .column(1)
            .as_binary_opt::<i32>()
            .ok_or("no blobs")
            .file("can't read", "a segment")?;
        for (at, blob) in blobs.iter().enumerate() {
            let Some(blob) =
                blob.filter(|blob| key_of(blob).is_some_and(|key| destroyed.contains(&key)))
            else {
                continue;
            };
            let address = address_at(texts(&batch, columns[0]), at);
            tried.checked += 1;
            let opened = address.map(|address| keys.unseal(&address, blob));
            tried.left += u64::from(matches!(opened, Some(Ok(Unsealed::Clear(_)))));
        }
    }
    Ok(tried)
}
