//! Properties of generated corpora.

use std::collections::{BTreeSet, HashMap, HashSet};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::IndexState;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, GrainType, Payload,
};

use super::*;

#[test]
fn the_seed_and_the_number_determine_a_block() {
    let block = |seed, number| Corpus::new(seed, 100).block(number).unwrap().grains;
    assert_eq!(block(1, 3), block(1, 3));
    assert_ne!(block(1, 3), block(2, 3));
    assert_ne!(block(1, 3), block(1, 4));
}

#[test]
fn a_corpus_begins_when_it_is_told_to() {
    let first = |corpus: Corpus| corpus.block(0).unwrap().grains.swap_remove(0).blob;
    let seconds = |blob: &[u8]| u32::from_be_bytes(blob[5..9].try_into().unwrap());
    let (usual, later) = (Corpus::new(1, 100), 1_780_272_000_000);
    assert_eq!(seconds(&first(usual)) / 86_400, 20_089);
    let begin = Corpus {
        begin_ms: later,
        ..usual
    };
    let pause = i64::from(seconds(&first(begin))) - later / 1_000;
    assert!((0..60).contains(&pause), "{pause}");
}

#[test]
fn a_block_has_all_types_and_every_grain_is_canonical() {
    let block = Corpus::new(7, 1_000).block(0).unwrap();
    let mut types: HashMap<GrainType, usize> = HashMap::new();
    for grain in &block.grains {
        let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let decoded = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        assert!(
            decoded.marks().is_empty(),
            "{:?} {}",
            decoded.marks(),
            decoded.to_json()
        );
        *types.entry(decoded.grain_type().unwrap()).or_default() += 1;
    }
    assert_eq!(types.len(), GrainType::ALL.len(), "{types:?}");
    assert!(!block.states.is_empty());
    let bytes: usize = block.grains.iter().map(|grain| grain.blob.len()).sum();
    let average = bytes / block.grains.len();
    assert!((400..600).contains(&average), "{average} bytes per grain");
}

#[test]
fn a_split_block_has_no_states_of_later_grains() {
    let mut block = Corpus::new(7, 1_000).block(0).unwrap();
    let states = block.states.len();
    let rest = block.split_off(700);
    let first: HashSet<_> = block.grains.iter().map(|grain| grain.address).collect();
    let is_of_first_part = |(address, state): &(ContentAddress, IndexState)| {
        first.contains(address)
            && state
                .superseded_by
                .is_none_or(|successor| first.contains(&successor))
    };
    assert!(!block.states.is_empty() && block.states.iter().all(is_of_first_part));
    assert_eq!(block.states.len() + rest.states.len(), states);
    assert!(!rest.states.iter().any(is_of_first_part));
}

#[test]
fn a_withdrawal_names_its_consent() {
    let block = Corpus::new(7, 1_000).block(1).unwrap();
    let mut withdrawals = 0;
    for grain in &block.grains {
        let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let decoded = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        if let Some(prior) = decoded.text(Field::PriorConsent) {
            withdrawals += 1;
            assert!(
                block
                    .grains
                    .iter()
                    .any(|grain| grain.address.to_string() == prior)
            );
        }
    }
    assert!(withdrawals > 0);
}

/// Decodes the grains of a block in order.
fn for_each(block: &Block, mut with: impl FnMut(ContentAddress, &Grain<'_>)) {
    for grain in &block.grains {
        let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        with(
            grain.address,
            &Grain::decode(&payload, DecodeMode::Strict).unwrap(),
        );
    }
}

fn block(seed: u64, number: u64) -> Block {
    Corpus::new(seed, 1_000).block(number).unwrap()
}

#[test]
fn messages_are_in_four_languages() {
    let words = [" the ", " und ", " est ", " el "];
    let mut found = [0; 4];
    for_each(&block(7, 0), |_, grain| {
        let content = grain.text(Field::Content).unwrap_or_default();
        for (count, word) in found.iter_mut().zip(words) {
            *count += usize::from(content.contains(word));
        }
    });
    assert!(found.iter().all(|count| *count > 20), "{found:?}");
}

#[test]
fn few_texts_are_repeated() {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for number in 0..3 {
        for_each(&block(7, number), |_, grain| {
            if let Some(content) = grain.text(Field::Content) {
                *counts.entry(content.to_owned()).or_default() += 1;
            }
        });
    }
    let all: usize = counts.values().sum();
    assert!(counts.len() * 100 > all * 90, "{} of {all}", counts.len());
}

#[test]
fn the_vocabulary_has_a_long_tail() {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for number in 0..3 {
        for_each(&block(7, number), |_, grain| {
            let content = grain.text(Field::Content).unwrap_or_default();
            for word in content.split(|letter: char| !letter.is_alphanumeric()) {
                *counts.entry(word.to_lowercase()).or_default() += 1;
            }
        });
    }
    let once = counts.values().filter(|count| **count == 1).count();
    assert!(counts.len() > 6_000, "{} words", counts.len());
    assert!(once * 3 > counts.len(), "{once} of {}", counts.len());
}

#[test]
fn all_slots_have_values() {
    let block = block(7, 0);
    for_each(&block, |_, grain| {
        for field in [Field::Content, Field::Object, Field::ThinkingContent] {
            let text = grain.text(field).unwrap_or_default();
            assert!(!text.contains(['{', '}']), "{text}");
            let mut lines = text.lines().map(str::trim);
            let is_whole = lines.all(|line| !line.contains("  ") && !line.contains(" ,"));
            assert!(is_whole, "{text}");
        }
    });
}

#[test]
fn a_label_is_in_a_text_of_its_grain() {
    let block = block(7, 0);
    let mut texts = HashMap::new();
    for_each(&block, |address, grain| {
        texts.insert(address, grain.to_json().to_string());
    });
    assert!(block.labels.len() > 100);
    for label in &block.labels {
        assert!(texts[&label.address].contains(&label.value), "{label:?}");
    }
}

#[test]
fn every_kind_of_personal_data_is_planted() {
    let kinds: BTreeSet<_> = (0..10)
        .flat_map(|number| block(7, number).labels)
        .map(|label| label.kind)
        .collect();
    assert_eq!(kinds.len(), 20, "{kinds:?}");
}

#[test]
fn a_changed_fact_supersedes_the_old_one_and_derives_from_a_message() {
    let block = block(7, 0);
    let (mut messages, mut sources) = (HashMap::new(), HashMap::new());
    for_each(&block, |address, grain| {
        if let Some(content) = grain.text(Field::Content) {
            messages.insert(address.to_string(), content.to_owned());
        }
        if grain.grain_type() == Some(GrainType::Belief) {
            let json = grain.to_json().to_string();
            sources.insert(
                address,
                (grain.text(Field::Object).unwrap().to_owned(), json),
            );
        }
    });
    let (mut changed, mut quoted) = (0, 0);
    for (old, state) in &block.states {
        let successor = state.superseded_by.and_then(|new| sources.get(&new));
        let Some(((before, _), (after, json))) = sources.get(old).zip(successor) else {
            continue;
        };
        changed += 1;
        assert!(before != after && json.contains(&old.to_string()), "{json}");
        let message = messages.iter().find(|(address, _)| json.contains(*address));
        let content = message.expect("a message that says so").1;
        quoted += usize::from(content.contains(before) && content.contains(after));
    }
    assert!(changed > 60 && quoted > 3, "{quoted} of {changed}");
}

#[test]
fn a_corpus_has_holds_consents_withdrawals_and_failed_tools() {
    let (mut holds, mut consents, mut withdrawals, mut failures) = (0, 0, 0, BTreeSet::new());
    for number in 0..20 {
        for_each(&block(7, number), |_, grain| {
            let json = grain.to_json().to_string();
            holds += usize::from(json.contains(r#""mode":"hold""#));
            consents += usize::from(grain.grain_type() == Some(GrainType::Consent));
            withdrawals += usize::from(grain.text(Field::PriorConsent).is_some());
            failures.extend(grain.text(Field::ErrorType).map(str::to_owned));
        });
    }
    assert!(holds > 0 && withdrawals > 0 && consents > 2 * withdrawals);
    assert!(failures.len() > 4, "{failures:?}");
}
