//! The newest version of a lake as a query context, which requests share and which follows the
//! commits of other processes.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use gristmill_engine::error::EngineError;
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{
    Confinement, DataFusionError, SessionContext, SqlOptions, confined_context, lake_context,
    newer_context,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Age of a version after which a request looks for a newer one, while others still get it. The
/// look-up reads the logs of the lake's tables.
const REFRESH_AGE: Duration = Duration::from_millis(500);

/// How long a look-up may take, because all requests wait for it.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(60);

/// Age of a version after which requests wait for the look-up.
const MAX_AGE: Duration = Duration::from_secs(1);

/// One version of a lake, with its query context. Requests that hold it keep reading this version
/// while newer ones are committed.
#[derive(Clone)]
pub struct LakeSnapshot {
    /// The lake at this version.
    pub lake: Lake,
    /// The context with the tables, views and functions of this version.
    pub context: SessionContext,
    versions: Vec<u64>,
    options: SqlOptions,
    /// Contexts of confined sessions, made on first use.
    confined: Arc<Mutex<HashMap<Confinement, SessionContext>>>,
}

/// The newest version of a lake.
pub struct NewestLake(Arc<LakeVersions>);

/// What requests and the tasks of their look-ups share.
struct LakeVersions {
    options: SqlOptions,
    current: Box<dyn CurrentSnapshot>,
    checked: RwLock<LastLookUp>,
    /// Locked while somebody looks for a newer version.
    look_up: Arc<Mutex<()>>,
}

/// The result of the last look-up.
#[derive(Debug, Clone)]
struct LastLookUp {
    /// When the version was the newest.
    at: Instant,
    /// When a later look-up began that failed, and why.
    failed: Option<(Instant, String)>,
}

/// The snapshot that requests read now.
///
/// A trait, so that its object is `Send` and `Sync` whatever it holds: the compiler proves both for
/// what holds a [`NewestLake`] anew in each method of an async trait, which takes seconds for the
/// plans and syntax trees in a context.
trait CurrentSnapshot: Send + Sync {
    /// Returns the snapshot.
    fn get(&self) -> Arc<LakeSnapshot>;

    /// Replaces the snapshot.
    fn set(&self, newest: Arc<LakeSnapshot>);
}

impl CurrentSnapshot for RwLock<Arc<LakeSnapshot>> {
    fn get(&self) -> Arc<LakeSnapshot> {
        Arc::clone(&self.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, newest: Arc<LakeSnapshot>) {
        *self.write().unwrap_or_else(PoisonError::into_inner) = newest;
    }
}

/// Reason why a version of the lake can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The lake's tables can't be read.
    #[error(transparent)]
    Lake(#[from] EngineError),
    /// The query context can't be created.
    #[error("the lake can't be queried: {0}")]
    Context(#[from] DataFusionError),
    /// Another look-up met this, or that of this request panicked or took too long.
    #[error("{0}")]
    OfOther(String),
}

impl LakeSnapshot {
    /// Returns the versions of the lake's tables.
    #[cfg(feature = "http")]
    pub(crate) fn versions(&self) -> &[u64] {
        &self.versions
    }

    fn of(lake: Lake, context: SessionContext, options: &SqlOptions) -> LakeSnapshot {
        let versions = versions_of(&lake);
        LakeSnapshot {
            lake,
            context,
            versions,
            options: options.clone(),
            confined: Arc::default(),
        }
    }

    /// Returns the query context of a session that is confined to `confinement`.
    ///
    /// # Errors
    /// [`DataFusionError`] if the context can't be created.
    pub async fn confined(
        &self,
        confinement: &Confinement,
    ) -> Result<SessionContext, DataFusionError> {
        if confinement.is_whole_lake() {
            return Ok(self.context.clone());
        }
        let mut contexts = self.confined.lock().await;
        if let Some(context) = contexts.get(confinement) {
            return Ok(context.clone());
        }
        let context = confined_context(&self.context, &self.options, confinement).await?;
        contexts.insert(confinement.clone(), context.clone());
        Ok(context)
    }
}

fn versions_of(lake: &Lake) -> Vec<u64> {
    lake.tables().iter().map(|table| table.version()).collect()
}

impl NewestLake {
    /// Returns the versions of `lake` from the one that the handle has loaded.
    ///
    /// # Errors
    /// [`SnapshotError::Context`] if a table can't be read.
    pub async fn new(lake: Lake, options: SqlOptions) -> Result<NewestLake, SnapshotError> {
        let begun = Instant::now();
        let context = lake_context(&lake, &options).await?;
        let first = LakeSnapshot::of(lake, context, &options);
        Ok(NewestLake(Arc::new(LakeVersions {
            options,
            current: Box::new(RwLock::new(Arc::new(first))),
            checked: RwLock::new(LastLookUp {
                at: begun,
                failed: None,
            }),
            look_up: Arc::default(),
        })))
    }

    /// Returns a version that was the newest at most a second before this was called. Looks for a
    /// newer one at most twice a second; one look-up serves all who wait for it.
    ///
    /// # Errors
    /// [`SnapshotError`] if there is a newer version that can't be read.
    pub async fn snapshot(&self) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let (called, versions) = (Instant::now(), &self.0);
        let age = |checked: Instant| called.saturating_duration_since(checked);
        let look_up = Arc::clone(&versions.look_up);
        let (alone, most) = match age(versions.checked().at) {
            young if young < REFRESH_AGE => return Ok(versions.current.get()),
            young if young < MAX_AGE => match look_up.try_lock_owned() {
                Ok(alone) => (alone, REFRESH_AGE),
                Err(_) => return Ok(versions.current.get()),
            },
            _ => (look_up.lock_owned().await, MAX_AGE),
        };
        // Another request may have looked meanwhile.
        match versions.checked() {
            checked if age(checked.at) < most => Ok(versions.current.get()),
            LastLookUp {
                failed: Some((begun, cause)),
                ..
            } if age(begun) < most => Err(SnapshotError::OfOther(cause)),
            _ => self.reload(alone).await,
        }
    }

    /// Returns the newest version, including commits of the last second.
    ///
    /// # Errors
    /// Like [`NewestLake::snapshot`].
    pub async fn latest_snapshot(&self) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let alone = Arc::clone(&self.0.look_up).lock_owned().await;
        self.reload(alone).await
    }

    /// Looks for a newer version, and returns the newest. Requests do this one after another, but
    /// in a task of its own: others need the result of a request that ends before its look-up, such
    /// as a check of the server's health.
    async fn reload(&self, alone: OwnedMutexGuard<()>) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let versions = Arc::clone(&self.0);
        let look_up = tokio::spawn(async move {
            let newest = versions.reload().await;
            drop(alone);
            newest
        });
        look_up
            .await
            .unwrap_or_else(|error| Err(SnapshotError::OfOther(error.to_string())))
    }
}

impl LakeVersions {
    fn checked(&self) -> LastLookUp {
        let checked = self.checked.read().unwrap_or_else(PoisonError::into_inner);
        checked.clone()
    }

    /// Looks for a newer version, notes when and whether it succeeded, and returns the newest.
    async fn reload(&self) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let begun = Instant::now();
        let looked = tokio::time::timeout(LOOK_UP_LIMIT, self.look()).await;
        let newest = looked.unwrap_or_else(|_| {
            let seconds = LOOK_UP_LIMIT.as_secs();
            let cause = format!("the lake's logs couldn't be read within {seconds} s");
            Err(SnapshotError::OfOther(cause))
        });
        let mut checked = self.checked.write().unwrap_or_else(PoisonError::into_inner);
        match &newest {
            Ok(_) => {
                *checked = LastLookUp {
                    at: begun,
                    failed: None,
                }
            }
            Err(error) => checked.failed = Some((begun, error.to_string())),
        }
        newest
    }

    async fn look(&self) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let current = self.current.get();
        let mut lake = current.lake.clone();
        lake.refresh().await?;
        match versions_of(&lake) == current.versions {
            true => Ok(current),
            false => self.load(lake, &current).await,
        }
    }

    /// Makes a newer version the current one.
    async fn load(
        &self,
        lake: Lake,
        current: &LakeSnapshot,
    ) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let context = newer_context(&lake, &self.options, &current.context).await?;
        let newest = Arc::new(LakeSnapshot::of(lake, context, &self.options));
        tracing::debug!(versions = ?newest.versions, "newer version of the lake");
        self.current.set(Arc::clone(&newest));
        Ok(newest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn requests_after_a_pause_all_get_the_newest_version() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let newest = NewestLake::new(lake.clone(), SqlOptions::default());
        let newest = newest.await.unwrap();
        lake.record("scan", json!({ "findings": 1 })).await.unwrap();
        let written = versions_of(&lake);
        let before = newest.snapshot().await.unwrap();
        assert_ne!(before.versions, written);
        let pause = Duration::from_secs(10);
        newest.0.checked.write().unwrap().at = Instant::now().checked_sub(pause).unwrap();
        let (one, two) = tokio::join!(newest.snapshot(), newest.snapshot());
        for snapshot in [one.unwrap(), two.unwrap()] {
            assert_eq!(snapshot.versions, written);
        }
    }

    #[tokio::test]
    async fn a_look_up_ends_although_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let lake = Lake::open_or_create(&place).await.unwrap();
        let newest = NewestLake::new(lake, SqlOptions::default());
        let newest = newest.await.unwrap();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        newest.0.checked.write().unwrap().at = long_ago;
        // A request that has begun and is given up.
        tokio::select! {
            biased;
            _ = newest.snapshot() => panic!("the look-up was over at once"),
            () = std::future::ready(()) => {}
        }
        let looked = async {
            while newest.0.checked().at == long_ago {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let end = Duration::from_secs(20);
        tokio::time::timeout(end, looked).await.unwrap();
    }

    #[tokio::test]
    async fn one_look_up_serves_all_who_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let lake = Lake::open_or_create(&place).await.unwrap();
        let newest = NewestLake::new(lake, SqlOptions::default());
        let newest = Arc::new(newest.await.unwrap());
        let long_ago = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        newest.0.checked.write().unwrap().at = long_ago;
        // A look-up takes longer than versions are young.
        let alone = newest.0.look_up.lock().await;
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let newest = Arc::clone(&newest);
                tokio::spawn(async move { newest.snapshot().await.map(drop) })
            })
            .collect();
        tokio::time::sleep(REFRESH_AGE + Duration::from_millis(100)).await;
        let checked = LastLookUp {
            at: Instant::now().checked_sub(REFRESH_AGE).unwrap(),
            failed: None,
        };
        *newest.0.checked.write().unwrap() = checked.clone();
        drop(alone);
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        assert_eq!(newest.0.checked().at, checked.at);
        // They also share its failure.
        let failed = (Instant::now(), "no lake".to_owned());
        *newest.0.checked.write().unwrap() = LastLookUp {
            at: long_ago,
            failed: Some(failed),
        };
        let error = newest.snapshot().await.map(drop).unwrap_err();
        assert_eq!(error.to_string(), "no lake");
    }
}
