//! The commands that are disturbed.

use std::sync::Arc;

/// User id of the erased person.
pub(super) const PERSON: &str = "person-of-the-faults";

/// A command that writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The prepared folder that it works on.
    pub(super) place: &'static str,
    pub(super) arguments: &'static [&'static str],
    /// Accepted exit codes of a rerun after a fault that came too late to disturb.
    pub(super) already: &'static [i32],
}

/// Every command that writes. `USER` is replaced by a person whose grains may all be erased.
pub(super) const CASES: [Case; 14] = [
    Case {
        name: "ingest",
        place: "empty",
        arguments: &["ingest", "../corpus"],
        already: &[],
    },
    Case {
        name: "ingest --encrypt",
        place: "empty",
        arguments: &["ingest", "../corpus", "--encrypt"],
        already: &[],
    },
    Case {
        name: "apply",
        place: "plain",
        arguments: &["apply", "../operations.jsonl"],
        already: &[],
    },
    Case {
        name: "compact",
        place: "plain",
        arguments: &["compact"],
        already: &[],
    },
    Case {
        name: "gc",
        place: "plain",
        arguments: &["gc", "--older-than", "0s", "--retention", "0s"],
        already: &[],
    },
    Case {
        name: "reindex",
        place: "plain",
        arguments: &["reindex", "--all"],
        already: &[],
    },
    Case {
        name: "repair",
        place: "plain",
        arguments: &["repair"],
        already: &[],
    },
    Case {
        name: "erase",
        place: "plain",
        arguments: &["erase", "--user", "USER", "--execute", "--exclusive"],
        already: &[3],
    },
    Case {
        name: "erase --destroy-keys",
        place: "sealed",
        arguments: &[
            "erase",
            "--user",
            "USER",
            "--execute",
            "--exclusive",
            "--destroy-keys",
        ],
        already: &[3],
    },
    Case {
        name: "keys generate",
        place: "plain",
        arguments: &["keys", "generate", "another"],
        already: &[1],
    },
    Case {
        name: "keys encrypt",
        place: "plain",
        arguments: &["keys", "encrypt", "--exclusive"],
        already: &[],
    },
    Case {
        name: "keys rotate",
        place: "sealed",
        arguments: &["keys", "rotate", "--exclusive"],
        already: &[],
    },
    Case {
        name: "keys passphrase",
        place: "sealed",
        arguments: &["keys", "passphrase", "--new-passphrase-file", "../new"],
        already: &[1],
    },
    Case {
        name: "export",
        place: "plain",
        arguments: &["export", "out.mg", "--force"],
        already: &[],
    },
];

/// Returns the names of the commands that [`super::Faults`] disturbs.
pub fn commands() -> Arc<[&'static str]> {
    CASES.iter().map(|case| case.name).collect()
}
