//! A lake with every kind of file, and ways to damage them.

mod cell;
mod sample_input;
mod sample_lake;

use std::fs;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use cell::with_another_cell;

pub use sample_lake::SampleLake;

/// Returns all files below `folder`, sorted by path.
///
/// # Panics
/// If it can't be listed.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in
            fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()))
        {
            let path = entry.expect("an entry of a folder").path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// Damage to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// One bit is flipped.
    Flip {
        /// Position of the byte.
        byte: u64,
        /// Number of the bit.
        bit: u8,
    },
    /// The file is truncated.
    Truncate {
        /// Remaining bytes.
        length: u64,
    },
    /// The file is deleted.
    Delete,
    /// The file is swapped with another of its kind.
    Swap(PathBuf),
    /// The Parquet file is rewritten by Arrow's writer with another value in one cell of a column.
    Cell {
        /// The column's name.
        column: String,
    },
}

/// Reverts a damage.
#[must_use]
pub struct Undo(Vec<(PathBuf, Vec<u8>)>);

impl Undo {
    /// Restores the files.
    ///
    /// # Panics
    /// If they can't be written.
    pub fn undo(self) {
        self.0.into_iter().for_each(|(path, bytes)| {
            fs::write(path, bytes).expect("the file can be written back")
        });
    }
}

impl Damage {
    /// Applies the damage to `file`.
    ///
    /// # Panics
    /// If the file can't be changed.
    pub fn inflict(&self, file: &Path) -> Undo {
        let sound = fs::read(file).expect("the file can be read");
        let mut undo = Undo(vec![(file.to_owned(), sound.clone())]);
        match self {
            Damage::Flip { byte, bit } => {
                let mut bytes = sound;
                bytes[*byte as usize] ^= 1 << bit;
                fs::write(file, bytes)
            }
            Damage::Truncate { length } => fs::write(file, &sound[..*length as usize]),
            Damage::Delete => fs::remove_file(file),
            Damage::Cell { column } => fs::write(file, with_another_cell(&sound, column)),
            Damage::Swap(other) => {
                let others = fs::read(other).expect("the other file can be read");
                fs::write(file, &others).expect("the file can be written");
                undo.0.push((other.clone(), others));
                fs::write(other, sound)
            }
        }
        .expect("the file can be changed");
        undo
    }
}

/// Returns the names of the columns of the Parquet file at `path`.
///
/// # Panics
/// If it isn't one.
pub fn columns_of(path: &Path) -> Vec<String> {
    let bytes = bytes::Bytes::from(fs::read(path).expect("the file can be read"));
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("a Parquet file");
    reader
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect()
}
