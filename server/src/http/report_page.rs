//! `GET /`: the report of the lake, for what a token sees.
//!
//! The last page of each confinement is cached: it is sent again while the lake is the same.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gristmill_engine::lake::Lake;
use gristmill_queries::pages::{LakeReport, ReportOptions, lake_report};
use gristmill_queries::sql::Confinement;
use hyper::{Response, StatusCode, header};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::Server;
use super::admission::too_long;
use super::endpoints::GRACE;
use super::refusal::{Body, Refusal, Result, text_response};
use super::tokens::Authority;
use crate::newest_lake::LakeSnapshot;

/// Age at which a page is rendered again although the lake is the same: facts and consents expire
/// without a commit.
const MAX_AGE: Duration = Duration::from_secs(300);

/// The same age of a page on which figures are missing: the server may have less to do by then.
const MAX_LATE_AGE: Duration = Duration::from_secs(10);

/// Largest number of pages in the cache.
const MAX_PAGES: usize = 64;

/// Policy of the page: no scripts, nothing from elsewhere, in no frame.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// What the audit log has in place of a query.
const REQUEST: &str = "GET /";

/// The last page of each confinement.
#[derive(Default)]
pub(super) struct ReportPages(std::sync::Mutex<HashMap<Confinement, Arc<CachedPage>>>);

/// A page, once it is rendered. It is locked meanwhile: other requests wait, and don't render it
/// again.
type CachedPage = Mutex<Option<ServedReport>>;

/// The report of a version of the lake.
#[derive(Clone)]
struct ServedReport {
    versions: Vec<u64>,
    rendered_at: Instant,
    html: Bytes,
    rows: u64,
    /// False if figures are missing that weren't computed in time.
    is_complete: bool,
}

impl ReportPages {
    /// Returns the page of a confinement, rendered or not.
    fn of(&self, confinement: &Confinement) -> Arc<CachedPage> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() >= MAX_PAGES && !pages.contains_key(confinement) {
            // Requests hold the pages that they wait for.
            pages.clear();
        }
        Arc::clone(pages.entry(confinement.clone()).or_default())
    }
}

impl ServedReport {
    fn is_current(&self, snapshot: &LakeSnapshot) -> bool {
        let max_age = match self.is_complete {
            true => MAX_AGE,
            false => MAX_LATE_AGE,
        };
        self.versions == snapshot.versions() && self.rendered_at.elapsed() < max_age
    }
}

/// Answers with the report of what `authority` sees.
///
/// # Errors
/// Those of a query, and `BUSY`. What isn't computed within the time of a query is marked on the
/// page.
pub(super) async fn report_page(
    server: &Arc<Server>,
    authority: &Authority,
) -> Result<Response<Body>> {
    let page = current_page(server, &authority.confinement).await?;
    let audited = server.audited(authority, REQUEST);
    server.record_rows(page.rows, &audited).await;
    let mut response = text_response(StatusCode::OK, "text/html; charset=utf-8", page.html);
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        let value = header::HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// Returns the page in the cache if it is current, otherwise a new one, which replaces it.
async fn current_page(server: &Arc<Server>, confinement: &Confinement) -> Result<ServedReport> {
    let deadline = server.admission.deadline();
    let cached = server.pages.of(confinement);
    let locked = timeout_at(deadline, cached.lock()).await;
    let mut last = locked.map_err(|_| too_long(server.options.limits.time))?;
    let snapshot = server.lake.snapshot().await?;
    if let Some(page) = last.as_ref().filter(|page| page.is_current(&snapshot)) {
        return Ok(page.clone());
    }
    let page = render(server, confinement, snapshot, deadline).await?;
    *last = Some(page.clone());
    Ok(page)
}

/// Renders a page within the limits of one query.
async fn render(
    server: &Arc<Server>,
    confinement: &Confinement,
    snapshot: Arc<LakeSnapshot>,
    deadline: Instant,
) -> Result<ServedReport> {
    let permit = server.admission.admit(deadline).await?;
    let (server_of_work, confinement) = (Arc::clone(server), confinement.clone());
    let work = async move {
        let (server, _permit) = (server_of_work, permit);
        let rendered_at = Instant::now();
        let context = snapshot.confined(&confinement).await?;
        let context = server.session_of(&context)?;
        let options = ReportOptions {
            subject: &subject(&snapshot.lake, &confinement),
            deadline: Some(deadline),
        };
        let LakeReport {
            html,
            rows,
            is_complete,
        } = lake_report(&context, options).await?;
        Ok::<_, Refusal>(ServedReport {
            versions: snapshot.versions().to_vec(),
            // Without all figures it took all of a query's time, which isn't part of its age.
            rendered_at: match is_complete {
                true => rendered_at,
                false => Instant::now(),
            },
            html: html.into(),
            rows,
            is_complete,
        })
    };
    server.run_query(deadline + GRACE, work).await?
}

/// Returns what the page is about. The version of the lake counts the changes of all namespaces, so
/// a confined page doesn't state it.
fn subject(lake: &Lake, confinement: &Confinement) -> String {
    if confinement.is_whole_lake() {
        let version = lake.grains.version();
        return format!("{} at version {version}", lake.location().name());
    }
    let named =
        |kind: &str, value: &Option<String>| value.as_ref().map(|value| format!("{kind} {value}"));
    let parts = [
        named("namespace", &confinement.namespace),
        named("user", &confinement.user),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use gristmill_queries::sql::SqlOptions;
    use serde_json::json;

    use super::*;
    use crate::http::{HttpOptions, QueryLimits};
    use crate::newest_lake::NewestLake;

    fn of_user(number: usize) -> Confinement {
        Confinement {
            namespace: None,
            user: Some(number.to_string()),
        }
    }

    #[test]
    fn a_limited_number_of_pages_is_cached() {
        let pages = ReportPages::default();
        let first = pages.of(&of_user(0));
        assert!(Arc::ptr_eq(&first, &pages.of(&of_user(0))));
        for number in 1..=MAX_PAGES {
            pages.of(&of_user(number));
        }
        assert!(!Arc::ptr_eq(&first, &pages.of(&of_user(0))));
        assert!(pages.0.lock().unwrap().len() <= MAX_PAGES);
    }

    async fn server(lake: &Lake) -> Arc<Server> {
        let options = HttpOptions {
            tokens: None,
            allow_writes: false,
            limits: QueryLimits {
                time: Duration::from_secs(600),
                rows: 1_000,
                bytes: 1 << 30,
                memory: 64 << 20,
                concurrent: 2,
                queued: 8,
            },
            audit_rows: 1_000,
            audit_key: None,
        };
        let newest = NewestLake::new(lake.clone(), SqlOptions::default());
        Server::new(newest.await.unwrap(), options).await.unwrap()
    }

    #[tokio::test]
    async fn a_page_without_all_figures_is_soon_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let lake = Lake::open_or_create(&place).await.unwrap();
        let server = server(&lake).await;
        let snapshot = server.lake.snapshot().await.unwrap();
        let current = |is_complete, age| {
            let page = ServedReport {
                versions: snapshot.versions().to_vec(),
                rendered_at: Instant::now().checked_sub(age).unwrap(),
                html: Bytes::new(),
                rows: 0,
                is_complete,
            };
            page.is_current(&snapshot)
        };
        assert!(current(true, MAX_LATE_AGE) && !current(false, MAX_LATE_AGE));
        assert!(current(false, Duration::ZERO));
    }

    #[tokio::test]
    async fn a_page_is_sent_again_until_the_lake_changes() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let (server, whole) = (server(&lake).await, Confinement::default());
        let first = current_page(&server, &whole).await.unwrap();
        let again = current_page(&server, &whole).await.unwrap();
        assert_eq!(first.html.as_ptr(), again.html.as_ptr());
        let other = current_page(&server, &of_user(1)).await.unwrap();
        assert_ne!(first.html, other.html);
        lake.record("scan", json!({ "findings": 7_777 }))
            .await
            .unwrap();
        server.lake.latest_snapshot().await.unwrap();
        let newer = current_page(&server, &whole).await.unwrap();
        let page = String::from_utf8_lossy(&newer.html);
        assert!(page.contains("7777"), "{page}");
    }
}
