//! Kills of an ingest, of a retry of rejected input, and of an ingest of claims.

use std::path::Path;
use std::time::Instant;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{ContainerOptions, IndexState, Manifest, VerificationStatus};
use gristmill_schemas::grain::HEADER_LENGTH;
use gristmill_tests::grains::{belief, container, frames};
use gristmill_tests::kill::{copy_folder, kill_after, kills, share};

use super::{Content, closed_by_absent, command, content, generate, kill_again_and_again, must};

#[test]
fn a_repeatedly_killed_ingest_ends_with_the_rows_of_an_undisturbed_one() {
    let kills = kills();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let corpus = at("corpus").display().to_string();
    generate(&at("corpus"), 12_000, 4_000, 100);
    // A truncated file gives rejects.
    let whole = std::fs::read(at("corpus").join("corpus-00002.mg")).unwrap();
    std::fs::write(at("corpus").join("cut.mg"), &whole[..whole.len() / 2]).unwrap();

    let started = Instant::now();
    must(&at("undisturbed"), &["ingest", &corpus]);
    let mut whole_run = started.elapsed();
    let expected = content(&at("undisturbed"));
    assert_eq!(expected.grains.len(), 12_000);
    assert!(!expected.states.is_empty() && !expected.rejects.is_empty());

    let mut killed = 0;
    let (mut round, mut runs) = (0, 0);
    while killed < kills {
        let lake = at(&format!("killed-{round}"));
        round += 1;
        // Runs over one lake are killed until one completes; then the next lake begins.
        loop {
            runs += 1;
            assert!(runs < 20 * kills + 100, "{killed} kills in {runs} runs");
            let (is_new, started) = (!lake.exists(), Instant::now());
            let ingest = command(&lake, &["ingest", &corpus]).spawn().unwrap();
            let was_running = kill_after(ingest, whole_run.mul_f64(share(runs))).unwrap();
            killed += usize::from(was_running);
            if is_new && !was_running {
                // The first run was slower, for example because the machine was busy.
                whole_run = whole_run.min(started.elapsed());
            }
            if lake
                .join("grains/_delta_log/00000000000000000000.json")
                .exists()
            {
                check_committed(&lake, &expected);
            }
            if !was_running || killed >= kills {
                break;
            }
        }
        must(&lake, &["ingest", &corpus]);
        assert_eq!(content(&lake), expected, "{lake:?} after {killed} kills");
        must(&lake, &["gc", "--older-than", "0s"]);
        let left = std::fs::read_dir(lake.join("_scratch")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "gc leaves nothing of the killed runs");
        assert_eq!(content(&lake), expected, "{lake:?} after gc");
        std::fs::remove_dir_all(&lake).unwrap();
    }
}

/// Checks that the lake opens, has every file of its log, and has nothing unexpected.
fn check_committed(lake: &Path, expected: &Content) {
    let found = content(lake);
    assert!(
        found
            .grains
            .iter()
            .all(|(address, blob)| expected.grains.get(address) == Some(blob))
    );
    let is_part = |part: &[(String, String, String)], whole: &[(String, String, String)]| {
        part.len() <= whole.len() && part.iter().all(|row| whole.binary_search(row).is_ok())
    };
    assert!(
        is_part(&found.states, &expected.states),
        "states come in once"
    );
    assert!(
        is_part(&found.rejects, &expected.rejects),
        "rejects come in once"
    );
}

/// Maximal number of kills per lake.
const RETRY_KILLS: usize = 3;

#[test]
fn a_killed_retry_of_rejects_loses_and_duplicates_nothing() {
    let kills = kills();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // A third of the grains have an entry that canonical form omits, and some are invalid.
    let grain = |number: usize| match number {
        number if number % 4_000 == 1 => vec![1, 0],
        number if number.is_multiple_of(3) => with_a_null(belief(number)),
        number => belief(number),
    };
    let file = at("mixed.frames").display().to_string();
    std::fs::write(&file, frames(&(0..16_000).map(grain).collect::<Vec<_>>())).unwrap();
    let (pristine, undisturbed) = (at("pristine"), at("undisturbed"));
    must(&pristine, &["ingest", &file]);
    copy_folder(&pristine, &undisturbed).unwrap();
    let retry = ["ingest", "--lenient", "--retry-refused", &file];
    let started = Instant::now();
    must(&undisturbed, &retry);
    let mut whole_run = started.elapsed();
    let (refused, expected) = (content(&pristine), content(&undisturbed));
    assert_eq!((expected.grains.len(), expected.rejects.len()), (15_996, 4));
    assert!(
        refused.rejects.len() > 5_000 && refused.grains.len() + refused.rejects.len() == 16_000
    );
    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        let lake = at(&format!("killed-{runs}"));
        copy_folder(&pristine, &lake).unwrap();
        // A killed retry starts at the first grain again, so the number of kills per lake is
        // limited.
        for attempt in 0..RETRY_KILLS {
            runs += 1;
            let started = Instant::now();
            let was_running = kill_after(
                command(&lake, &retry).spawn().unwrap(),
                whole_run.mul_f64(share(runs)),
            )
            .unwrap();
            let ended = started.elapsed();
            killed += usize::from(was_running);
            let left = content(&lake);
            assert!(
                left.grains.len() >= refused.grains.len()
                    && left.rejects.len() >= expected.rejects.len()
            );
            if !was_running {
                // What a killed run has done isn't done again.
                if attempt == 0 {
                    whole_run = whole_run.min(ended);
                }
                break;
            }
        }
        must(&lake, &retry);
        assert!(content(&lake) == expected, "after {runs} runs");
    }
}

/// Returns `blob` with an additional null entry.
fn with_a_null(mut blob: Vec<u8>) -> Vec<u8> {
    let entries = &mut blob[HEADER_LENGTH];
    assert!((0x80..0x8f).contains(entries), "a short map");
    *entries += 1;
    blob.extend(b"\xa2zz\xc0");
    blob
}

#[test]
fn a_killed_ingest_of_claims_closes_no_grain_by_an_absent_one_and_loses_no_claim() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let old: Vec<Vec<u8>> = (0..400).map(belief).collect();
    let file = at("old.frames").display().to_string();
    std::fs::write(&file, frames(&old)).unwrap();
    let pristine = at("pristine");
    must(&pristine, &["ingest", &file]);
    // Each new grain supersedes an old one and is verified by the manifest.
    let new: Vec<Vec<u8>> = (400..800).map(belief).collect();
    let address = |blob: &Vec<u8>| ContentAddress::of(blob);
    let superseded = old.iter().zip(&new).map(|(old, new)| {
        (
            address(old),
            IndexState {
                superseded_by: Some(address(new)),
                ..IndexState::default()
            },
        )
    });
    let verified = Some(VerificationStatus::Verified);
    let states = new.iter().map(|new| {
        (
            address(new),
            IndexState {
                verification_status: verified,
                ..IndexState::default()
            },
        )
    });
    let manifest = Manifest {
        entries: superseded.chain(states).collect(),
    };
    let claims = at("claims.mg").display().to_string();
    std::fs::write(
        &claims,
        container(&new, ContainerOptions::default(), Some(&manifest)),
    )
    .unwrap();
    let left = |lake: &Path| {
        let found = content(lake);
        assert!(matches!(found.grains.len(), 400 | 800));
        assert_eq!(closed_by_absent(lake), 0);
    };
    kill_again_and_again(&pristine, &["ingest", &claims], left, |lake| {
        let found = content(lake);
        assert_eq!(
            (
                found.grains.len(),
                found.states.len(),
                closed_by_absent(lake)
            ),
            (800, 800, 0)
        );
    });
}
