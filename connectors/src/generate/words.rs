//! Words with the frequencies of a language: a common few, a long tail.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};

/// Common words, the commonest first.
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

/// Syllables of the words in the tail.
const SYLLABLES: &[&str] = &[
    "an", "bo", "cor", "del", "en", "fi", "gra", "hu", "in", "ju", "ka", "lo", "mi", "nor", "os",
    "pra", "qui", "ro", "sta", "tre", "ul", "ver", "wi", "xen", "yo", "zem", "al", "bri", "che",
    "dor", "em", "flu",
];

/// Different words in all.
const VOCABULARY: f64 = 40_000.0;

/// How steeply the frequency of words falls with their rank.
const STEEPNESS: f64 = 1.05;

/// Writes sentences.
#[derive(Debug, Clone)]
pub(super) struct Words {
    ranks: Zipf<f64>,
}

impl Words {
    #[expect(
        clippy::expect_used,
        reason = "the parameters are constants within the law's range"
    )]
    pub(super) fn new() -> Self {
        Words {
            ranks: Zipf::new(VOCABULARY, STEEPNESS).expect("a law of words"),
        }
    }

    /// One word.
    pub(super) fn word(&self, random: &mut impl Rng) -> String {
        let rank = self.ranks.sample(random) as usize - 1;
        match COMMON.get(rank) {
            Some(word) => (*word).to_owned(),
            None => rare_word(rank),
        }
    }

    /// A sentence of about `length` words.
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

    /// A few sentences, about `length` words in all.
    pub(super) fn text(&self, random: &mut impl Rng, length: usize) -> String {
        let sentences = (length / 12).max(1);
        let texts: Vec<_> = (0..sentences)
            .map(|_| self.sentence(random, length / sentences))
            .collect();
        texts.join(" ")
    }
}

/// The word of a rank beyond the common ones: always the same for the same rank.
fn rare_word(rank: usize) -> String {
    let mut rest = rank;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(SYLLABLES[rest % SYLLABLES.len()]);
        rest /= SYLLABLES.len();
    }
    word
}
