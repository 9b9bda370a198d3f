//! Limits of what the server holds for its clients: prepared statements and portals.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pgwire::error::PgWireResult;

use super::failure::error;

/// Number of prepared statements and portals of a session.
const MAX_OBJECTS: usize = 1_000;

/// Bytes of their names, texts, parameters and columns. Syntax trees aren't held.
const MAX_BYTES: usize = 32 << 20;

/// The same for all sessions together.
const MAX_BYTES_OF_ALL: usize = 256 << 20;

/// The bytes that all sessions hold.
#[derive(Default)]
pub(super) struct HeldByAll(AtomicUsize);

/// The prepared statements and portals of a session, with their sizes.
#[derive(Default)]
pub(super) struct HeldObjects {
    objects: Mutex<Vec<(Weak<dyn Any + Send + Sync>, usize)>>,
    /// The bytes of this session that are counted in those of all.
    counted: AtomicUsize,
    by_all: Arc<HeldByAll>,
}

impl HeldObjects {
    /// Returns those of a new session.
    pub(super) fn new(by_all: Arc<HeldByAll>) -> HeldObjects {
        HeldObjects {
            objects: Mutex::default(),
            counted: AtomicUsize::new(0),
            by_all,
        }
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
        let mut held = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(object, _)| object.strong_count() > 0);
        let sum: usize = held.iter().map(|(_, bytes)| bytes).sum();
        if held.len() >= MAX_OBJECTS || sum + bytes > MAX_BYTES {
            let text = format!(
                "the session holds {MAX_OBJECTS} prepared statements and portals, or {} MiB of \
                 them: close some",
                MAX_BYTES >> 20
            );
            return Err(error("53400", text));
        }
        if !self.count(sum + bytes) {
            let text = "the sessions of the server hold too many prepared statements and portals: \
                        close some, or try again later";
            return Err(error("53400", text));
        }
        let object: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(object);
        held.push((Arc::downgrade(&object), bytes));
        Ok(())
    }

    /// Counts `bytes` for this session instead of those before, if all sessions may hold them.
    fn count(&self, bytes: usize) -> bool {
        let before = self.counted.load(Ordering::Relaxed);
        let with_these = |all: usize| {
            let all = all.saturating_sub(before).saturating_add(bytes);
            (all <= MAX_BYTES_OF_ALL || bytes <= before).then_some(all)
        };
        let all = &self.by_all.0;
        let counted = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_these);
        if counted.is_ok() {
            self.counted.store(bytes, Ordering::Relaxed);
        }
        counted.is_ok()
    }

    /// Returns the objects of a type that aren't dropped.
    pub(super) fn all<T: Any + Send + Sync>(&self) -> Vec<Arc<T>> {
        let held = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter()
            .filter_map(|(object, _)| object.upgrade()?.downcast::<T>().ok())
            .collect()
    }
}

impl Drop for HeldObjects {
    fn drop(&mut self) {
        self.count(0);
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
        drop((sessions, late));
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn objects_count_until_they_are_dropped() {
        let held = HeldObjects::default();
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
