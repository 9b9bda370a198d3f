//! Limits of what the server holds for its clients: prepared statements and portals.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pgwire::error::PgWireResult;

use super::failure::error;

/// Number of prepared statements and portals of a session.
const MAX_OBJECTS: usize = 1_000;

/// Bytes of their names, texts, parameters and columns. Syntax trees aren't held.
const MAX_BYTES: usize = 32 << 20;

/// The same for all sessions together.
const MAX_BYTES_OF_ALL: usize = 256 << 20;

/// What all sessions hold.
#[derive(Default)]
pub(super) struct HeldByAll(Mutex<ObjectsOfAll>);

/// The sessions by their numbers.
#[derive(Default)]
struct ObjectsOfAll {
    next: u64,
    by_number: HashMap<u64, CountedObjects>,
    /// Sum of their bytes.
    bytes: usize,
}

/// The objects of a session, with their sizes.
#[derive(Default)]
struct CountedObjects {
    objects: Vec<(Weak<dyn Any + Send + Sync>, usize)>,
    /// Sum of the sizes, also of those that were dropped since they were counted.
    bytes: usize,
}

impl CountedObjects {
    /// Counts the objects that aren't dropped.
    fn recount(&mut self) {
        self.objects.retain(|(object, _)| object.strong_count() > 0);
        self.bytes = self.objects.iter().map(|(_, bytes)| bytes).sum();
    }
}

impl ObjectsOfAll {
    /// Counts all objects that aren't dropped.
    fn recount(&mut self) {
        self.by_number
            .values_mut()
            .for_each(CountedObjects::recount);
        self.bytes = self.by_number.values().map(|session| session.bytes).sum();
    }
}

/// The prepared statements and portals of a session.
pub(super) struct HeldObjects {
    number: u64,
    by_all: Arc<HeldByAll>,
}

impl HeldByAll {
    fn lock(&self) -> MutexGuard<'_, ObjectsOfAll> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldObjects {
    /// Returns those of a new session.
    pub(super) fn new(by_all: Arc<HeldByAll>) -> HeldObjects {
        let number = {
            let mut all = by_all.lock();
            all.next += 1;
            let number = all.next;
            all.by_number.insert(number, CountedObjects::default());
            number
        };
        HeldObjects { number, by_all }
    }

    /// Counts `object`, of `bytes`, until it is dropped.
    ///
    /// # Errors
    /// SQLSTATE 53400 if the session holds too many or too large objects, or all together do.
    pub(super) fn add<T: Any + Send + Sync>(
        &self,
        object: &Arc<T>,
        bytes: usize,
    ) -> PgWireResult<()> {
        let mut all = self.by_all.lock();
        let own = all.by_number.entry(self.number).or_default();
        let before = own.bytes;
        own.recount();
        let (count, own) = (own.objects.len(), own.bytes);
        all.bytes = all.bytes - before + own;
        if count >= MAX_OBJECTS || own + bytes > MAX_BYTES {
            let text = format!(
                "the session holds {MAX_OBJECTS} prepared statements and portals, or {} MiB of \
                 them: close some",
                MAX_BYTES >> 20
            );
            return Err(error("53400", text));
        }
        if all.bytes + bytes > MAX_BYTES_OF_ALL {
            // Other sessions may have dropped some since they were counted.
            all.recount();
        }
        if all.bytes + bytes > MAX_BYTES_OF_ALL {
            let text = "the sessions of the server hold too many prepared statements and portals: \
                        close some, or try again later";
            return Err(error("53400", text));
        }
        let object: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(object);
        let own = all.by_number.entry(self.number).or_default();
        own.objects.push((Arc::downgrade(&object), bytes));
        own.bytes += bytes;
        all.bytes += bytes;
        Ok(())
    }

    /// Returns the objects of a type that aren't dropped.
    pub(super) fn all<T: Any + Send + Sync>(&self) -> Vec<Arc<T>> {
        let all = self.by_all.lock();
        let own = all.by_number.get(&self.number);
        let objects = own.into_iter().flat_map(|own| &own.objects);
        objects
            .filter_map(|(object, _)| object.upgrade()?.downcast::<T>().ok())
            .collect()
    }
}

impl Drop for HeldObjects {
    fn drop(&mut self) {
        let mut all = self.by_all.lock();
        if let Some(own) = all.by_number.remove(&self.number) {
            all.bytes -= own.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_what_all_may_hold() {
        let all = Arc::new(HeldByAll::default());
        let session = || HeldObjects::new(Arc::clone(&all));
        let object = Arc::new(0);
        let mut sessions: Vec<HeldObjects> = (0..MAX_BYTES_OF_ALL / MAX_BYTES)
            .map(|_| session())
            .collect();
        for session in &sessions {
            session.add(&object, MAX_BYTES).unwrap();
        }
        let late = session();
        assert!(late.add(&object, 1).is_err());
        sessions.pop();
        late.add(&object, 1).unwrap();
        // An idle session has dropped what it held.
        let last = sessions.pop().unwrap();
        let closed = Arc::new(1);
        last.add(&closed, 0).unwrap();
        let large = Arc::new(2);
        assert!(last.add(&large, 1).is_err());
        drop(object);
        late.add(&large, MAX_BYTES - 1).unwrap();
        last.add(&large, MAX_BYTES).unwrap();
        drop((sessions, late, last));
        assert_eq!(all.lock().bytes, 0);
    }

    #[test]
    fn objects_count_until_they_are_dropped() {
        let held = HeldObjects::new(Arc::default());
        let many: Vec<_> = (0..MAX_OBJECTS).map(Arc::new).collect();
        for object in &many {
            held.add(object, 1).unwrap();
        }
        assert!(held.add(&Arc::new(0), 1).is_err());
        drop(many);
        let large = Arc::new(0);
        held.add(&large, MAX_BYTES).unwrap();
        assert!(held.add(&Arc::new(1), 1).is_err());
        drop(large);
        held.add(&Arc::new(1), 1).unwrap();
    }
}
