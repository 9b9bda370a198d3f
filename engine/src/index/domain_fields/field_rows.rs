//! Collects the rows of names.

use std::collections::{BTreeMap, BinaryHeap, HashMap};

use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::{Field, Grain};
use roaring::RoaringBitmap;

use super::{MAX_NAME_BYTES, MAX_NAMES};

/// The names of some rows, collected while they are written.
#[derive(Debug, Default)]
pub struct FieldRows {
    rows: u32,
    names: HashMap<Box<str>, RoaringBitmap>,
    /// The names that are listed, the one that goes first if there are too many on top.
    ranks: BinaryHeap<(NameRank, Box<str>)>,
    others: RoaringBitmap,
}

/// The order in which names are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NameRank {
    /// Names of profiles have a prefix.
    is_without_prefix: bool,
    hash: [u8; 16],
}

impl NameRank {
    fn of(name: &str) -> NameRank {
        let mut hash = [0; 16];
        blake3::Hasher::new()
            .update(name.as_bytes())
            .finalize_xof()
            .fill(&mut hash);
        NameRank {
            is_without_prefix: !name.contains(':'),
            hash,
        }
    }
}

impl FieldRows {
    /// The column of `grains` with the grains.
    pub(crate) const COLUMN: &'static str = SystemColumn::Blob.name();

    /// Adds a row with its grain, or `None` if that can't be decoded.
    pub(crate) fn add(&mut self, grain: Option<&Grain<'_>>) {
        let row = self.rows;
        self.rows += 1;
        let Some(grain) = grain else {
            self.others.insert(row);
            return;
        };
        let context = grain.get(Field::Context);
        let context = context.and_then(|context| context.as_map());
        let own = grain.unknown().iter().map(|(name, _)| *name);
        for name in own.chain(context.into_iter().flatten().map(|(name, _)| name)) {
            self.rows_of(name).insert(row);
        }
    }

    /// Returns the rows of parts that follow one another.
    pub(super) fn concat(parts: Vec<FieldRows>) -> FieldRows {
        let mut all = FieldRows::default();
        for part in parts {
            let first = all.rows;
            let shifted = |rows: RoaringBitmap| rows.into_iter().map(move |row| first + row);
            all.others.extend(shifted(part.others));
            for (name, rows) in part.names {
                all.rows_of(&name).extend(shifted(rows));
            }
            all.rows += part.rows;
        }
        all
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the names that are listed, with their rows.
    pub(super) fn names(&self) -> BTreeMap<&str, &RoaringBitmap> {
        let names = self.names.iter();
        names.map(|(name, rows)| (&**name, rows)).collect()
    }

    /// Returns the rows that may have names that aren't listed.
    pub(super) fn others(&self) -> &RoaringBitmap {
        &self.others
    }

    /// Returns the bitmap to which a row with `name` is added.
    fn rows_of(&mut self, name: &str) -> &mut RoaringBitmap {
        if !self.names.contains_key(name) && !self.list(name) {
            return &mut self.others;
        }
        match self.names.get_mut(name) {
            Some(rows) => rows,
            None => &mut self.others,
        }
    }

    /// Lists a new name, unless those that are listed go before it. If they are too many with it,
    /// the last of them isn't listed any more.
    fn list(&mut self, name: &str) -> bool {
        if name.len() > MAX_NAME_BYTES {
            return false;
        }
        let rank = NameRank::of(name);
        if self.names.len() >= MAX_NAMES {
            if self.ranks.peek().is_some_and(|(last, _)| *last < rank) {
                return false;
            }
            let last = self.ranks.pop();
            let rows = last.and_then(|(_, last)| self.names.remove(&last));
            self.others |= rows.unwrap_or_default();
        }
        self.ranks.push((rank, name.into()));
        self.names.insert(name.into(), RoaringBitmap::new());
        true
    }
}
