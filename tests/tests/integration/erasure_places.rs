//! The places of `tests/erasure/*.jsonl` in which a person may hide: each is found by survey, disclosure, erasure and proof, or is
//! listed in the documentation as not searched.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::erase::{Disclosed, Extent, Ground, Order, Person, PersonNumber, Request, disclose, erase, plan};
use gristmill_engine::keys::Keyring;
use gristmill_schemas::address::ContentAddress;
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;
use gristmill_tests::paths::workspace;
use serde::Deserialize;

/// One hiding place: exactly one of `grain`, `refused`, `actor` and `reason` says where the person is.
#[derive(Debug, Deserialize)]
struct Place {
    id: String,
    class: String,
    identifiers: BTreeSet<String>,
    grain: Option<serde_json::Value>,
    refused: Option<String>,
    actor: Option<String>,
    reason: Option<String>,
    expect: Expected,
    /// The words by which the documentation lists what isn't searched.
    listed_as: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Expected {
    #[serde(rename = "found")]
    Found,
    #[serde(rename = "not searched")]
    NotSearched,
}

/// Places that are to be found and aren't yet.
const OPEN: &str = include_str!("../../erasure/open.txt");

fn places() -> Vec<Place> {
    let folder = workspace().join("tests/erasure");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let lines = [read("places.jsonl"), read("more.jsonl")];
    lines.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn request(places: &[Place]) -> Request {
    let person = |place: &Place| Person { identifiers: place.identifiers.clone(), ..Person::default() };
    let extent = Extent { text_mentions: true, ..Extent::default() };
    Request { people: places.iter().map(person).collect(), extent, ..Request::default() }
}

fn order(folder: &Path) -> Order {
    let mut keyring = Keyring::open_or_create(&folder.join("keyring.json"), "a passphrase for tests").unwrap();
    keyring.generate("erasure").unwrap();
    Order {
        ground: Ground::default(),
        keyring,
        signing_key: "erasure".to_owned(),
        exclusive: true,
        destroy_keys: false,
        threads: 2,
    }
}

/// A lake in which everybody hides, and the place of each by the address of what holds it.
async fn lake_of(places: &[Place]) -> (TestLake, HashMap<ContentAddress, usize>) {
    let mut lake = TestLake::new().await;
    let (mut by_address, mut events) = (HashMap::new(), String::new());
    // The first grain shows that the file is one of frames.
    let (mut grains, mut refused) = (Vec::new(), vec![gristmill_tests::grains::belief(0)]);
    for (number, place) in places.iter().enumerate() {
        if let Some(json) = &place.grain {
            let encoded = grain(&json.to_string());
            by_address.insert(encoded.address, number);
            grains.push(encoded.blob);
        } else if let Some(bytes) = &place.refused {
            by_address.insert(ContentAddress::of(bytes.as_bytes()), number);
            refused.push(bytes.clone().into_bytes());
        } else {
            let about = format!(
                r#"{{"type":"belief","subject":"event {number}","relation":"is","object":"seen","confidence":0.5,"created_at":1}}"#
            );
            let encoded = grain(&about);
            by_address.insert(encoded.address, number);
            grains.push(encoded.blob);
            let actor = place.actor.as_deref().unwrap_or("somebody");
            let reason = place.reason.as_deref().unwrap_or("no reason");
            let operation = serde_json::json!({"op": "retract", "address": encoded.address.to_string(), "actor": actor, "reason": reason});
            events.push_str(&format!("{operation}\n"));
        }
    }
    let report = lake.ingest(&[("grains.mgs", &frames(&grains))]).await;
    assert_eq!(report.rejected, 0, "{:?}", report.rejects_by_code);
    assert_eq!(lake.ingest(&[("refused.mgs", &frames(&refused))]).await.rejected as usize, refused.len() - 1);
    let report =
        apply(&mut lake.lake, &mut events.as_bytes(), &ApplyOptions::default(), &mut |_| Ok(())).await.unwrap();
    assert_eq!(report.failed + report.denied, 0);
    lake.lake.refresh().await.unwrap();
    (lake, by_address)
}

/// The places that a survey, and a disclosure after it, find: each by what holds it, and for the person who hides there.
async fn found(
    lake: &mut TestLake,
    request: &Request,
    by_address: &HashMap<ContentAddress, usize>,
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (_, survey) = plan(&mut lake.lake, request, 2).await.unwrap();
    let grains = survey.grains.iter().map(|found| (found.address, found.person));
    let rejects = survey.rejects.iter().map(|found| (found.address, found.person));
    let mut surveyed = BTreeSet::new();
    for (address, person) in grains.chain(rejects) {
        let place = by_address[&address];
        assert_eq!(person, place as PersonNumber, "somebody else was found");
        surveyed.insert(place);
    }
    let mut disclosed = BTreeSet::new();
    let mut note = |held: &Disclosed| {
        let place = by_address[&held.content_address.parse().unwrap()];
        disclosed.insert(place);
        // An event is part of no survey: what names people in it is disclosed, and blanked.
        if held.table == "state" {
            surveyed.insert(place);
        }
        Ok(())
    };
    disclose(&mut lake.lake, request, &survey, None, &mut note).await.unwrap();
    (surveyed, disclosed)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hiding_place_is_found_and_erased_or_listed_as_not_searched() {
    let places = places();
    assert_eq!(places.len(), 123);
    let open: BTreeSet<&str> = OPEN.lines().filter(|line| !line.is_empty()).collect();
    let is_found = |place: &&Place| place.expect == Expected::Found && !open.contains(&*place.id);
    let (mut lake, by_address) = lake_of(&places).await;
    let request = request(&places);
    let (surveyed, disclosed) = found(&mut lake, &request, &by_address).await;
    assert_eq!(surveyed, disclosed);
    let name = |found: &BTreeSet<usize>| found.iter().map(|number| &*places[*number].id).collect::<BTreeSet<_>>();
    let expected: BTreeSet<&str> = places.iter().filter(is_found).map(|place| &*place.id).collect();
    let missed: Vec<_> = expected.difference(&name(&surveyed)).map(|id| id.to_string()).collect();
    let unexpected: Vec<_> = name(&surveyed).difference(&expected).map(|id| id.to_string()).collect();
    assert!(missed.is_empty() && unexpected.is_empty(), "missed: {missed:?}; found, and not expected: {unexpected:?}");
    let order = order(lake.folder());
    let erased = erase(&mut lake.lake, &request, &order).await.unwrap();
    assert!(erased.proven, "{:?}", erased.proofs);
    lake.lake.refresh().await.unwrap();
    let (surveyed, disclosed) = found(&mut lake, &request, &by_address).await;
    assert_eq!((name(&surveyed), name(&disclosed)), (BTreeSet::new(), BTreeSet::new()));
}

#[test]
fn what_is_not_searched_is_listed_in_the_documentation() {
    let manual = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let manual = manual.split_whitespace().collect::<Vec<_>>().join(" ");
    for place in places() {
        match (place.expect, &place.listed_as) {
            (Expected::Found, None) => assert_ne!(place.class, "none", "{}", place.id),
            (Expected::NotSearched, Some(words)) => {
                assert!(manual.contains(words.as_str()), "{}: the manual doesn't list `{words}`", place.id);
            }
            _ => panic!("{}: what isn't searched, and nothing else, says how the manual lists it", place.id),
        }
    }
}
