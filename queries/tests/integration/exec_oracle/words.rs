//! Words, people and things that grains and statements share.

use proptest::prelude::*;
use proptest::sample::select;

pub(super) fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(words).prop_map(str::to_owned)
}

pub(super) fn person() -> impl Strategy<Value = String> {
    word(&["alice", "bob", "carol", "team:a"])
}

pub(super) fn thing() -> impl Strategy<Value = String> {
    word(&["tea", "dark mode", "green tea", "the dark side", "10", "9"])
}
