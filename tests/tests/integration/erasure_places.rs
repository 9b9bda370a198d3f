//! Spellings of people in `tests/erasure/*.jsonl`: each is found by survey, disclosure, erasure and
//! proof, or is documented as not searched.

use std::collections::{BTreeSet, HashMap};

use gristmill_connectors::generate::Corpus;
use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::erase::{
    Disclosed, Hits, IdentifierMatcher, IdentifierSearch, Person, PersonNumber, Recording,
    SelectionOptions, SubjectRequest, Variation, disclose, erase, plan,
};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;
use gristmill_tests::paths::workspace;
use serde::Deserialize;

/// One occurrence of a person: in exactly one of `grain`, `refused`, `actor` and `reason`.
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
    /// The documentation's words for a spelling that isn't searched.
    listed_as: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Expected {
    #[serde(rename = "found")]
    Found,
    #[serde(rename = "not searched")]
    NotSearched,
}

fn places() -> Vec<Place> {
    let folder = workspace().join("tests/erasure");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let lines = [read("places.jsonl"), read("more.jsonl")];
    lines
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn request(places: &[Place]) -> SubjectRequest {
    let person = |place: &Place| Person {
        identifiers: place.identifiers.clone(),
        ..Person::default()
    };
    let extent = SelectionOptions {
        text_mentions: true,
        initials: true,
        ..SelectionOptions::default()
    };
    SubjectRequest {
        people: places.iter().map(person).collect(),
        extent,
        ..SubjectRequest::default()
    }
}

/// A lake with all occurrences, and the number of each by the address of its grain.
async fn lake_of(places: &[Place]) -> (TestLake, HashMap<ContentAddress, usize>) {
    let mut lake = TestLake::new().await;
    let (mut by_address, mut events) = (HashMap::new(), String::new());
    // The first grain makes the file recognisable as frames.
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
    assert_eq!(
        lake.ingest(&[("refused.mgs", &frames(&refused))])
            .await
            .rejected as usize,
        refused.len() - 1
    );
    let report = apply(
        &mut lake.lake,
        &mut events.as_bytes(),
        &ApplyOptions::default(),
        &mut |_| Ok(()),
    )
    .await
    .unwrap();
    assert_eq!(report.failed + report.denied, 0);
    lake.lake.refresh().await.unwrap();
    (lake, by_address)
}

/// Returns the occurrences that a survey and a disclosure find, for the person concerned.
async fn found(
    lake: &mut TestLake,
    request: &SubjectRequest,
    by_address: &HashMap<ContentAddress, usize>,
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (_, survey) = plan(&mut lake.lake, request, 2).await.unwrap();
    let grains = survey
        .grains
        .iter()
        .map(|found| (found.address, found.person));
    let rejects = survey
        .rejects
        .iter()
        .map(|found| (found.address, found.person));
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
        // A survey has no events: their names of people are disclosed, and blanked by an erasure.
        if held.table == "state" {
            surveyed.insert(place);
        }
        Ok(())
    };
    let (lake, recording) = (&mut lake.lake, Recording::AfterItems);
    let count = disclose(lake, request, &survey, None, recording, &mut note).await;
    count.unwrap();
    (surveyed, disclosed)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_spelling_is_found_and_erased_or_documented_as_not_searched() {
    let places = places();
    assert_eq!(places.len(), 137);
    let is_found = |place: &&Place| place.expect == Expected::Found;
    let (mut lake, by_address) = lake_of(&places).await;
    let request = request(&places);
    let (surveyed, disclosed) = found(&mut lake, &request, &by_address).await;
    assert_eq!(surveyed, disclosed);
    let name = |found: &BTreeSet<usize>| {
        found
            .iter()
            .map(|number| &*places[*number].id)
            .collect::<BTreeSet<_>>()
    };
    let expected: BTreeSet<&str> = places
        .iter()
        .filter(is_found)
        .map(|place| &*place.id)
        .collect();
    let missed: Vec<_> = expected
        .difference(&name(&surveyed))
        .map(|id| id.to_string())
        .collect();
    let unexpected: Vec<_> = name(&surveyed)
        .difference(&expected)
        .map(|id| id.to_string())
        .collect();
    assert!(
        missed.is_empty() && unexpected.is_empty(),
        "missed: {missed:?}; found, and not expected: {unexpected:?}"
    );
    the_plan_counts_every_class(&mut lake, &request, &places, &by_address).await;
    let order = erasure_options(&lake.folder().join("keyring.json"));
    let erased = erase(&mut lake.lake, &request, &order).await.unwrap();
    assert!(erased.proven, "{:?}", erased.proofs);
    lake.lake.refresh().await.unwrap();
    let (surveyed, disclosed) = found(&mut lake, &request, &by_address).await;
    assert_eq!(
        (name(&surveyed), name(&disclosed)),
        (BTreeSet::new(), BTreeSet::new())
    );
}

/// Checks that each finding has the expected class, and is counted for it.
async fn the_plan_counts_every_class(
    lake: &mut TestLake,
    request: &SubjectRequest,
    places: &[Place],
    by_address: &HashMap<ContentAddress, usize>,
) {
    let (plan, survey) = plan(&mut lake.lake, request, 2).await.unwrap();
    let grains = survey
        .grains
        .iter()
        .map(|found| (found.address, found.variations));
    for (address, variations) in grains.chain(
        survey
            .rejects
            .iter()
            .map(|found| (found.address, found.variations)),
    ) {
        let place = &places[by_address[&address]];
        let names: Vec<_> = variations.iter().map(Variation::name).collect();
        let meant: Vec<_> = place
            .class
            .split('+')
            .filter(|class| *class != "spelling")
            .collect();
        assert!(
            meant.iter().all(|class| names.contains(class)),
            "{}: {names:?}",
            place.id
        );
        assert!(
            names.is_empty() == meant.is_empty(),
            "{}: {names:?}",
            place.id
        );
    }
    let counted: Vec<_> = plan
        .variations
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, _)| *name)
        .collect();
    let all: BTreeSet<_> = Variation::ALL.iter().map(|class| class.name()).collect();
    assert_eq!(counted.into_iter().collect::<BTreeSet<_>>(), all);
    assert!(plan.variations_off.is_empty());
}

/// Returns the bytes of an occurrence in a lake.
fn bytes_of(place: &Place) -> Vec<u8> {
    let texts = [&place.refused, &place.actor, &place.reason];
    match &place.grain {
        Some(json) => grain(&json.to_string()).blob,
        None => texts
            .into_iter()
            .flatten()
            .next()
            .unwrap()
            .clone()
            .into_bytes(),
    }
}

#[test]
fn the_proof_finds_every_spelling_independently() {
    let places = places();
    let mut wrong = Vec::new();
    for place in &places {
        let request = request(std::slice::from_ref(place));
        let search = IdentifierSearch::new(&request, |_| false, []).unwrap();
        // A number stored as an integer is not text.
        let is_found = place.expect == Expected::Found && place.id != "phone-as-number";
        if (search.count(&bytes_of(place)) > 0) != is_found {
            wrong.push(&*place.id);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// People who don't occur in a generated corpus, but with similar words, ids and numbers.
fn others() -> SubjectRequest {
    let near = [
        "Ada Okafor",
        "Wei Adeyemi",
        "Zoe Muellers",
        "Vera Nowak",
        "Yuki Tanakas",
        "Camille Laurents",
        "Priya Ramans",
        "alice-10000001",
        "jonas-20000002",
        "did:web:people.example:123456789",
        "alice.kershaw100@example.org",
        "+49 160 5551001",
        "0160 5551002",
        "415-555-0110",
        "alder-leeds-support-99",
        "Alice Bob",
        "Mateo Costas",
        "workshops courier",
        "Ana Silva",
        "José Vogels",
    ];
    let mut request = request(&places());
    let person = |name: &str| Person {
        identifiers: [name.to_owned()].into(),
        ..Person::default()
    };
    request.people.extend(near.into_iter().map(person));
    request
}

/// Searches `blocks` blocks of generated grains for absent people, by selection and by proof.
fn look_for_others(blocks: u64) {
    let request = others();
    let matcher = IdentifierMatcher::new(&request);
    let search = IdentifierSearch::new(&request, |_| false, []).unwrap();
    let corpus = Corpus::new(27, 10_000);
    let (mut hits, mut looked) = (Hits::default(), 0);
    for number in 0..blocks {
        for grain in corpus.block(number).unwrap().grains {
            let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            let decoded = Grain::decode(&payload, DecodeMode::Lenient).unwrap();
            hits.clear();
            matcher.match_grain(&decoded, &mut hits);
            let people: Vec<_> = hits
                .people
                .iter()
                .map(|(person, _)| &request.people[*person as usize])
                .collect();
            assert!(people.is_empty(), "{people:?} in {}", decoded.to_json());
            assert_eq!(search.count(&grain.blob), 0, "{}", decoded.to_json());
            looked += 1;
        }
    }
    assert!(looked >= blocks * 2_000);
}

#[test]
fn a_hundred_thousand_grains_of_other_people_match_nobody() {
    look_for_others(50);
}

#[test]
fn spellings_that_are_not_searched_are_documented() {
    let manual = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let manual = manual.split_whitespace().collect::<Vec<_>>().join(" ");
    for place in places() {
        match (place.expect, &place.listed_as) {
            (Expected::Found, None) => assert_ne!(place.class, "none", "{}", place.id),
            (Expected::NotSearched, Some(words)) => {
                assert!(
                    manual.contains(words.as_str()),
                    "{}: the manual doesn't list `{words}`",
                    place.id
                );
            }
            _ => panic!(
                "{}: what isn't searched, and nothing else, says how the manual lists it",
                place.id
            ),
        }
    }
}
