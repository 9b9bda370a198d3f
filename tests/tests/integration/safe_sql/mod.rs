//! Which SQL statements run, where files may be accessed, and the messages of failing statements.

mod answers;
mod gate;
mod messages;

use std::fs;
use std::path::PathBuf;

use gristmill_tests::binary::{Ended, ended, gristmill, patient};
use gristmill_tests::grains::{frames, grain};

/// A folder with a lake of a few events.
struct SqlFolder {
    folder: tempfile::TempDir,
}

impl SqlFolder {
    fn empty() -> SqlFolder {
        SqlFolder {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn with_lake() -> SqlFolder {
        let folder = SqlFolder::empty();
        let event = |at: usize| {
            grain(&format!(
                r#"{{"type":"event","content":"word {at}","user_id":"u-{at}","created_at":{at}}}"#
            ))
            .blob
        };
        fs::write(
            folder.at("in.frames"),
            frames(&(1..=5).map(event).collect::<Vec<_>>()),
        )
        .unwrap();
        assert_eq!(folder.run(&["ingest", "in.frames"]).0, 0);
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = gristmill();
        ended(command.current_dir(self.folder.path()).args(patient(words)))
    }

    fn sql(&self, query: &str) -> Ended {
        self.run(&["sql", "--format", "csv", query])
    }
}
