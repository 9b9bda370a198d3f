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
use tokio::sync::Mutex;

/// Time after which a request looks for a newer version again. The look-up reads the logs of the
/// lake's tables.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

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
pub struct NewestLake {
    options: SqlOptions,
    current: Box<dyn CurrentSnapshot>,
    /// Time of the last look-up; locked by the one request that looks for a newer version.
    checked: Mutex<Instant>,
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
        let context = lake_context(&lake, &options).await?;
        let first = LakeSnapshot::of(lake, context, &options);
        Ok(NewestLake {
            options,
            current: Box::new(RwLock::new(Arc::new(first))),
            checked: Mutex::new(Instant::now()),
        })
    }

    /// Returns the newest version. Looks for a newer one at most once a second; requests that
    /// arrive during the look-up get the version before.
    ///
    /// # Errors
    /// [`SnapshotError`] if there is a newer version that can't be read.
    pub async fn snapshot(&self) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let current = self.current.get();
        let Ok(mut checked) = self.checked.try_lock() else {
            return Ok(current);
        };
        if checked.elapsed() < CHECK_INTERVAL {
            return Ok(current);
        }
        let newest = self.reload(current).await?;
        *checked = Instant::now();
        Ok(newest)
    }

    /// Returns the newest version, including commits of the last second.
    ///
    /// # Errors
    /// Like [`NewestLake::snapshot`].
    pub async fn latest_snapshot(&self) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let mut checked = self.checked.lock().await;
        let newest = self.reload(self.current.get()).await?;
        *checked = Instant::now();
        Ok(newest)
    }

    async fn reload(&self, current: Arc<LakeSnapshot>) -> Result<Arc<LakeSnapshot>, SnapshotError> {
        let mut lake = current.lake.clone();
        lake.refresh().await?;
        if versions_of(&lake) == current.versions {
            return Ok(current);
        }
        let context = newer_context(&lake, &self.options, &current.context).await?;
        let newest = Arc::new(LakeSnapshot::of(lake, context, &self.options));
        tracing::debug!(versions = ?newest.versions, "newer version of the lake");
        self.current.set(Arc::clone(&newest));
        Ok(newest)
    }
}
