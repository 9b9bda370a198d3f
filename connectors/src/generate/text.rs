//! Random text whose words are distributed as in a natural language: few common ones and a long
//! tail.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};

/// Common words, the most frequent first.
const COMMON: &[&str] = &[
    "the",
    "to",
    "and",
    "a",
    "of",
    "in",
    "is",
    "for",
    "that",
    "it",
    "on",
    "with",
    "this",
    "be",
    "are",
    "as",
    "we",
    "you",
    "can",
    "not",
    "have",
    "at",
    "or",
    "from",
    "by",
    "an",
    "will",
    "was",
    "but",
    "they",
    "if",
    "has",
    "our",
    "more",
    "please",
    "when",
    "about",
    "there",
    "which",
    "time",
    "so",
    "up",
    "new",
    "one",
    "what",
    "out",
    "do",
    "your",
    "all",
    "would",
    "should",
    "report",
    "order",
    "meeting",
    "account",
    "update",
    "server",
    "customer",
    "invoice",
    "project",
    "team",
    "send",
    "check",
    "deploy",
    "error",
    "data",
    "schedule",
    "review",
    "budget",
    "ticket",
    "change",
    "plan",
    "issue",
    "version",
    "release",
    "request",
    "token",
    "model",
    "memory",
    "agent",
    "tool",
    "search",
    "document",
    "answer",
    "question",
    "price",
    "delivery",
    "address",
    "payment",
    "refund",
    "contract",
    "deadline",
    "quarter",
    "forecast",
    "metric",
    "latency",
    "cluster",
    "backup",
    "index",
    "query",
    "table",
    "record",
    "sensor",
    "temperature",
    "pressure",
    "battery",
    "camera",
    "route",
    "flight",
    "hotel",
    "booking",
    "train",
    "ticket",
    "doctor",
    "appointment",
    "prescription",
    "allergy",
    "insurance",
    "claim",
    "policy",
    "privacy",
    "consent",
    "language",
    "theme",
    "dark",
    "light",
    "email",
    "phone",
    "message",
    "summary",
    "draft",
    "translation",
    "image",
    "café",
    "naïve",
    "Zürich",
    "São",
    "Übersicht",
    "данные",
    "отчёт",
    "東京",
    "会議",
    "予定",
    "データ",
    "resumé",
    "façade",
];

/// Syllables of rare words.
const SYLLABLES: &[&str] = &[
    "an", "bo", "cor", "del", "en", "fi", "gra", "hu", "in", "ju", "ka", "lo", "mi", "nor", "os",
    "pra", "qui", "ro", "sta", "tre", "ul", "ver", "wi", "xen", "yo", "zem", "al", "bri", "che",
    "dor", "em", "flu",
];

/// Number of different words.
const VOCABULARY_SIZE: f64 = 40_000.0;

/// The exponent of Zipf's law of word frequencies.
const EXPONENT: f64 = 1.05;

/// Generates words and sentences.
#[derive(Debug, Clone)]
pub(super) struct TextGenerator {
    ranks: Zipf<f64>,
}

impl TextGenerator {
    #[expect(clippy::expect_used, reason = "the parameters are valid constants")]
    pub(super) fn new() -> Self {
        TextGenerator {
            ranks: Zipf::new(VOCABULARY_SIZE, EXPONENT).expect("valid parameters"),
        }
    }

    /// Returns one word.
    pub(super) fn word(&self, random: &mut impl Rng) -> String {
        let rank = self.ranks.sample(random) as usize - 1;
        match COMMON.get(rank) {
            Some(word) => (*word).to_owned(),
            None => rare_word(rank),
        }
    }

    /// Returns a sentence of about `length` words.
    pub(super) fn sentence(&self, random: &mut impl Rng, length: usize) -> String {
        let count = random.random_range(length / 2 + 1..=length + length / 2 + 1);
        let words: Vec<_> = (0..count).map(|_| self.word(random)).collect();
        let mut text = words.join(" ");
        if let Some(first) = text.chars().next() {
            let capital: String = first.to_uppercase().collect();
            text.replace_range(..first.len_utf8(), &capital);
        }
        text.push('.');
        text
    }

    /// Returns several sentences of about `length` words in total.
    pub(super) fn sentences(&self, random: &mut impl Rng, length: usize) -> String {
        let count = (length / 12).max(1);
        let sentences: Vec<_> = (0..count)
            .map(|_| self.sentence(random, length / count))
            .collect();
        sentences.join(" ")
    }
}

/// Returns the word of a rank beyond the common ones; the same word for the same rank.
fn rare_word(rank: usize) -> String {
    let mut rest = rank;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(SYLLABLES[rest % SYLLABLES.len()]);
        rest /= SYLLABLES.len();
    }
    word
}
