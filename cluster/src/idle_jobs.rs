//! Ends jobs that no executor works on: there is none, or none takes a task. Ballista fails jobs
//! that ran when the last executor was lost. Those that are submitted later wait forever.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::JobId;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};

use crate::lost_executors::WatchedJobs;

/// Seconds after which a job ends if no executor works on it.
pub(crate) const IDLE_SECONDS: u64 = 30;

/// The error of such a job.
pub(crate) const IDLE: &str = "no executor has worked on the query";

/// Time between two looks at the tasks of all jobs.
const INTERVAL: Duration = Duration::from_secs(2);

/// Since when each job has been idle.
#[derive(Debug, Default)]
struct IdleTimes(HashMap<JobId, Instant>);

impl IdleTimes {
    /// Notes at `now` which jobs have not ended, and whether an executor has a task of any of them:
    /// others may wait for its slots. Returns the jobs that have been idle for too long.
    fn note(&mut self, jobs: &[JobId], is_busy: bool, now: Instant) -> Vec<JobId> {
        self.0.retain(|job_id, _| !is_busy && jobs.contains(job_id));
        let mut ended = Vec::new();
        for job_id in jobs {
            let since = self.0.entry(job_id.clone()).or_insert(now);
            if now.duration_since(*since).as_secs() >= IDLE_SECONDS {
                ended.push(job_id.clone());
            }
        }
        ended
    }
}

/// Ends idle jobs of `scheduler`, which are among `jobs`, until it is dropped.
pub(crate) async fn end_idle_jobs(
    scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
    jobs: Arc<WatchedJobs>,
) {
    let mut times = IdleTimes::default();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let active = scheduler.state.task_manager.get_running_job_cache();
        let mut is_busy = false;
        for job in active.values() {
            let graph = job.execution_graph.read().await;
            is_busy |= !graph.running_tasks().is_empty();
        }
        let job_ids: Vec<JobId> = active.keys().cloned().collect();
        let idle = times.note(&job_ids, is_busy, Instant::now());
        jobs.cancel(idle, IDLE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_idle_while_no_executor_has_a_task() {
        let mut times = IdleTimes::default();
        let start = Instant::now();
        let [early, late] = ["early", "late"].map(JobId::from);
        let both = [early.clone(), late.clone()];
        let mut idle = |second: u64, jobs: &[JobId], is_busy: bool| {
            let now = start + Duration::from_secs(second);
            times.note(jobs, is_busy, now)
        };
        let none: [JobId; 0] = [];
        assert_eq!(idle(0, &both[..1], false), none);
        assert_eq!(idle(20, &both, false), none);
        assert_eq!(idle(30, &both, false), std::slice::from_ref(&early));
        // A task of one job runs: the other may wait for its slot.
        assert_eq!(idle(40, &both, true), none);
        assert_eq!(idle(69, &both, false), none);
        assert_eq!(idle(70, &both[1..], false), [late]);
        // One that was gone meanwhile begins again.
        assert_eq!(idle(80, &both, false).len(), 1);
        assert_eq!(idle(110, &both[..1], false), [early]);
    }
}
