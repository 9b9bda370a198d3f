//! Limits of what the server holds for a client: prepared statements and portals.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pgwire::error::PgWireResult;

use super::failure::error;

/// Number of prepared statements and portals of a session.
const MAX_OBJECTS: usize = 1_000;

/// Bytes of their names, texts, parameters and columns. Syntax trees aren't held.
const MAX_BYTES: usize = 32 << 20;

/// The prepared statements and portals of a session, with their sizes.
#[derive(Default)]
pub(super) struct HeldObjects(Mutex<Vec<(Weak<dyn Any + Send + Sync>, usize)>>);

impl HeldObjects {
    /// Counts `object`, of `bytes`, until it is dropped.
    ///
    /// # Errors
    /// SQLSTATE 53400 if the session holds too many or too large objects.
    pub(super) fn add<T: Any + Send + Sync>(
        &self,
        object: &Arc<T>,
        bytes: usize,
    ) -> PgWireResult<()> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let object: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(object);
        held.push((Arc::downgrade(&object), bytes));
        Ok(())
    }

    /// Returns the objects of a type that aren't dropped.
    pub(super) fn all<T: Any + Send + Sync>(&self) -> Vec<Arc<T>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter()
            .filter_map(|(object, _)| object.upgrade()?.downcast::<T>().ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
