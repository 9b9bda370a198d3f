//! An erasure whose reading is done by other processes does what one process does, also if each job
//! is done twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use gristmill_engine::apply::ApplyOptions;
use gristmill_engine::erase::{
    ErasureOptions, ErasurePlan, ErasureReport, ErasureWorkers, RequestOrigin, SearchJob,
    SelectionOptions, SubjectRequest, Survey, SurveyJob, erase, erase_by, plan, plan_by,
    search_files, survey_segments, verify,
};
use gristmill_engine::error::EngineError;
use gristmill_engine::hold::{HoldRequest, HoldSelection, place};
use gristmill_engine::keys::Keyring;
use gristmill_engine::lake::{Outcomes, SegmentWorkers};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, Payload};
use gristmill_schemas::lifecycle::HoldTerms;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::erasures::blob_of;
use crate::lab::Lab;
use crate::workers::{TwiceWorkers, reversed, sent};

/// Workers that do each job twice, and count the jobs.
struct Readers {
    workers: TwiceWorkers,
    /// The identifier of the person, which no printed job may contain.
    user: String,
    surveys: AtomicUsize,
    searches: AtomicUsize,
}

impl Readers {
    fn of(lab: &Lab) -> Readers {
        Readers {
            workers: TwiceWorkers::of(lab),
            user: user_of(lab),
            surveys: AtomicUsize::new(0),
            searches: AtomicUsize::new(0),
        }
    }

    fn as_workers(&self) -> ErasureWorkers<'_> {
        ErasureWorkers {
            survey: self,
            search: self,
        }
    }
}

#[async_trait]
impl SegmentWorkers<SurveyJob> for Readers {
    async fn run(&self, jobs: Vec<SurveyJob>) -> Result<Outcomes<SurveyJob>, EngineError> {
        let mut outcomes = Vec::new();
        for job in &jobs {
            self.surveys.fetch_add(1, Ordering::SeqCst);
            assert!(!format!("{job:?}").contains(&self.user), "{job:?}");
            survey_segments(&self.workers.lake().await, &sent(job)).await?;
            let found = survey_segments(&self.workers.lake().await, &sent(job)).await?;
            outcomes.push(sent(&found));
        }
        Ok(reversed::<SurveyJob>(outcomes))
    }
}

#[async_trait]
impl SegmentWorkers<SearchJob> for Readers {
    async fn run(&self, jobs: Vec<SearchJob>) -> Result<Outcomes<SearchJob>, EngineError> {
        let mut outcomes = Vec::new();
        for job in &jobs {
            self.searches.fetch_add(1, Ordering::SeqCst);
            assert!(!format!("{job:?}").contains(&self.user), "{job:?}");
            search_files(&self.workers.lake().await, &sent(job)).await?;
            let found = search_files(&self.workers.lake().await, &sent(job)).await?;
            outcomes.push(sent(&found));
        }
        Ok(reversed::<SearchJob>(outcomes))
    }
}

/// Readers that return what they found after a hold was placed on all of it.
struct HoldBetween<'r> {
    readers: &'r Readers,
    request: SubjectRequest,
}

#[async_trait]
impl SegmentWorkers<SurveyJob> for HoldBetween<'_> {
    async fn run(&self, jobs: Vec<SurveyJob>) -> Result<Outcomes<SurveyJob>, EngineError> {
        let found = SegmentWorkers::<SurveyJob>::run(self.readers, jobs).await?;
        let hold = HoldRequest {
            terms: HoldTerms {
                name: "case-1".parse().unwrap(),
                until: None,
            },
            authority: "court".to_owned(),
            reason: "order".to_owned(),
            selection: HoldSelection {
                request: self.request.clone(),
                namespaces: Vec::new(),
            },
        };
        let mut lake = self.readers.workers.lake().await;
        // What it awaits isn't `Send`.
        let placing = move || {
            let options = ApplyOptions::default();
            Handle::current().block_on(place(&mut lake, &hold, &options, 1))
        };
        let placed = tokio::task::spawn_blocking(placing).await.unwrap()?;
        assert_eq!(placed.changed, 1, "{placed:?}");
        Ok(found)
    }
}

/// Returns the first user of the lab's first segment.
fn user_of(lab: &Lab) -> String {
    let users = lab.blobs(0, ROWS).into_iter().filter_map(|blob| {
        let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let grain = Grain::decode(&payload, DecodeMode::Lenient).unwrap();
        grain.text(Field::UserId).map(str::to_owned)
    });
    users.min().expect("a grain with a user")
}

/// Number of rows of each segment.
const ROWS: usize = 120;

async fn lab() -> Lab {
    Lab::new(4, ROWS, false).await
}

/// Returns a request of the user of `lab`, also by mentions.
fn request_of(lab: &Lab) -> SubjectRequest {
    SubjectRequest {
        extent: SelectionOptions {
            text_mentions: true,
            derived: true,
            ..SelectionOptions::default()
        },
        ..SubjectRequest::of_person([user_of(lab)])
    }
}

/// Returns the options of an erasure in `lab`.
pub fn options(lab: &Lab) -> ErasureOptions {
    let mut keyring = Keyring::open_or_create(&lab.path("../keyring.json"), "for tests").unwrap();
    // A second call finds an existing key.
    let _ = keyring.generate("erasure");
    ErasureOptions {
        origin: RequestOrigin::default(),
        keyring,
        signing_key: "erasure".to_owned(),
        exclusive: true,
        destroy_keys: false,
        purge_versions: false,
        threads: 2,
    }
}

/// Returns all of a plan, and what was found.
fn shown((plan, survey): &(ErasurePlan, Survey)) -> String {
    let plan = serde_json::to_string(plan).unwrap();
    format!("{plan} {:?} {:?}", survey.grains, survey.rejects)
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_find_what_one_process_finds() {
    let lab = lab().await;
    let request = request_of(&lab);
    let local = plan(&mut lab.lake().await, &request, 2).await.unwrap();
    let readers = Readers::of(&lab);
    let found = plan_by(readers.as_workers(), &mut lab.lake().await, &request, 2).await;
    assert!(local.0.has_work());
    assert_eq!(shown(&found.unwrap()), shown(&local));
    assert_eq!(readers.surveys.into_inner(), 1);
}

/// Returns what a report states, without what depends on names, instants and the bytes of files,
/// such as the places in full-text indexes where words of remaining rows occur.
fn figures(report: &ErasureReport) -> Value {
    let mut proofs = serde_json::to_value(&report.proofs).unwrap();
    let search = proofs["byte_search"].as_object_mut().unwrap();
    assert!(search["files"].as_u64() > Some(20), "{search:?}");
    for of_bytes in ["bytes", "pages", "explained"] {
        search.remove(of_bytes).unwrap();
    }
    json!([
        &report.plan.selected,
        &report.plan.excluded,
        &report.plan.spellings,
        proofs,
        report.proven,
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_prove_what_one_process_proves() {
    let (lab, other) = (lab().await, lab().await);
    let request = request_of(&lab);
    let local = erase(&mut other.lake().await, &request, &options(&other)).await;
    let local = local.unwrap();
    assert!(local.proven && local.plan.has_work());

    let readers = Readers::of(&lab);
    let mut lake = lab.lake().await;
    let erased = erase_by(readers.as_workers(), &mut lake, &request, &options(&lab)).await;
    let erased = erased.unwrap();
    assert_eq!(figures(&erased), figures(&local));
    assert!(readers.surveys.into_inner() >= 1);
    assert!(readers.searches.into_inner() >= 1);
    let signed = std::fs::read(lab.path(&erased.certificate)).unwrap();
    let check = verify(&signed, Some(&erased.signer), None, &[]);
    assert!(check.valid, "{:?}", check.problems);
    assert_eq!(lab.verify_with(true).await.bad, 0);
    let (left, _) = plan(&mut lab.lake().await, &request, 2).await.unwrap();
    assert!(!left.has_work());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_of_another_lake_proves_nothing_and_the_erasure_is_resumed() {
    let (lab, other) = (lab().await, lab().await);
    let request = request_of(&lab);
    let (readers, elsewhere) = (Readers::of(&lab), Readers::of(&other));
    let workers = ErasureWorkers {
        survey: &readers,
        search: &elsewhere,
    };
    let refused = erase_by(workers, &mut lab.lake().await, &request, &options(&lab)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("is it the same lake?"), "{refused}");
    let mut lake = lab.lake().await;
    let resumed = erase_by(readers.as_workers(), &mut lake, &request, &options(&lab)).await;
    let resumed = resumed.unwrap();
    assert!(resumed.resumed && resumed.proven);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_placed_during_the_survey_binds_the_erasure() {
    let (lab, user) = (Lab::new(0, 0, false).await, "ada-4711-k9");
    let grain = format!(
        r#"{{"type":"event","role":"user","content":"hello","user_id":"{user}",
            "created_at":1767225600000}}"#
    );
    lab.ingest("held.frames", &[blob_of(&grain)]).await;
    let readers = Readers {
        workers: TwiceWorkers::of(&lab),
        user: user.to_owned(),
        surveys: AtomicUsize::new(0),
        searches: AtomicUsize::new(0),
    };
    let request = SubjectRequest::of_person([user]);
    let between = HoldBetween {
        readers: &readers,
        request: request.clone(),
    };
    let workers = ErasureWorkers {
        survey: &between,
        search: &readers,
    };
    let refused = erase_by(workers, &mut lab.lake().await, &request, &options(&lab)).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, EngineError::Policy(_)), "{refused}");
    assert_eq!(lab.rows().await.len(), 1);
    let (left, _) = plan(&mut lab.lake().await, &request, 2).await.unwrap();
    assert_eq!(left.excluded.get("hold"), Some(&1));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_do_not_read_an_encrypted_lake() {
    let lab = Lab::new(2, ROWS, true).await;
    let (readers, request) = (Readers::of(&lab), request_of(&lab));
    let refused = plan_by(readers.as_workers(), &mut lab.lake().await, &request, 2).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
    let mut lake = lab.lake().await;
    let refused = erase_by(readers.as_workers(), &mut lake, &request, &options(&lab)).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
    assert_eq!(readers.surveys.into_inner(), 0);
}
