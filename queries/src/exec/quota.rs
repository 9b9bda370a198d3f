//! Write quotas of a session: statements of each kind in a sliding minute (CAL 1.0, section 6.4).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::Result;
use super::evolve::WriteKind;
use crate::cal::{CalError, Code};

const WINDOW: Duration = Duration::from_secs(60);
const ADDS_PER_WINDOW: usize = 20;
const SUPERSEDES_PER_WINDOW: usize = 10;
const REVERTS_PER_WINDOW: usize = 5;

/// The write quotas of a session. Clones share them, for a session of several executors, such as
/// one for each request.
#[derive(Debug, Clone, Default)]
pub struct WriteQuotas(Arc<Mutex<Quotas>>);

impl WriteQuotas {
    /// Counts a write at `now`.
    ///
    /// # Errors
    /// As [`Quotas::take`].
    pub(super) fn take(&self, kind: WriteKind, now: Instant) -> Result<()> {
        let mut quotas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quotas.take(kind, now)
    }
}

/// The times of a session's writes in the last minute.
#[derive(Debug, Default)]
struct Quotas {
    adds: VecDeque<Instant>,
    supersedes: VecDeque<Instant>,
    reverts: VecDeque<Instant>,
}

impl Quotas {
    /// Counts a write at `now`.
    ///
    /// # Errors
    /// E052 for an ADD and E043 for other statements above the quota. These are not counted.
    fn take(&mut self, kind: WriteKind, now: Instant) -> Result<()> {
        let (times, max, code) = match kind {
            WriteKind::Add => (&mut self.adds, ADDS_PER_WINDOW, Code::E052),
            WriteKind::Supersede => (&mut self.supersedes, SUPERSEDES_PER_WINDOW, Code::E043),
            WriteKind::Revert => (&mut self.reverts, REVERTS_PER_WINDOW, Code::E043),
        };
        while times
            .front()
            .is_some_and(|first| now.duration_since(*first) >= WINDOW)
        {
            times.pop_front();
        }
        if times.len() >= max {
            let message = format!("A session may {} {max} times a minute.", kind.name());
            return Err(CalError::new(code, message).into());
        }
        times.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<()>) -> String {
        result.unwrap_err().code().to_owned()
    }

    #[test]
    fn each_kind_of_write_has_its_own_quota_and_code() {
        let mut quotas = Quotas::default();
        let start = Instant::now();
        for _ in 0..REVERTS_PER_WINDOW {
            quotas.take(WriteKind::Revert, start).unwrap();
        }
        assert_eq!(code(quotas.take(WriteKind::Revert, start)), "CAL-E043");
        quotas.take(WriteKind::Supersede, start).unwrap();
        for _ in 0..ADDS_PER_WINDOW {
            quotas.take(WriteKind::Add, start).unwrap();
        }
        assert_eq!(code(quotas.take(WriteKind::Add, start)), "CAL-E052");
    }

    #[test]
    fn the_window_slides() {
        let mut quotas = Quotas::default();
        let start = Instant::now();
        let half = WINDOW / 2;
        quotas.take(WriteKind::Revert, start).unwrap();
        for _ in 1..REVERTS_PER_WINDOW {
            quotas.take(WriteKind::Revert, start + half).unwrap();
        }
        let just_before = start + WINDOW - Duration::from_millis(1);
        assert!(quotas.take(WriteKind::Revert, just_before).is_err());
        // Only the first write has left the window, and the refused one wasn't counted.
        quotas.take(WriteKind::Revert, start + WINDOW).unwrap();
        assert!(quotas.take(WriteKind::Revert, start + WINDOW).is_err());
    }
}
