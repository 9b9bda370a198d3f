//! What of a plan can run in another process: the operators of ours that depend on the session are
//! replaced by equivalent ones, or named as bound to it.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use super::leaf_scan::LeafScanExec;
use super::shared_rows::SharedRowsExec;
use super::spilling_joins::RetriedJoinsExec;
use super::unseal::UnsealExec;

/// An operator, as another process can run it.
#[derive(Debug)]
pub enum PortableNode {
    /// It is none of ours.
    Unchanged,
    /// This plan returns the same rows.
    Replaced(Arc<dyn ExecutionPlan>),
    /// It can't leave this process, for this reason.
    Bound(&'static str),
}

/// Returns the operator at the root of `plan`, as another process can run it.
pub fn portable_node(plan: &Arc<dyn ExecutionPlan>) -> PortableNode {
    if plan.is::<UnsealExec>() {
        return PortableNode::Bound("executors have no keys of an encrypted lake");
    }
    if plan.is::<SharedRowsExec>() {
        return PortableNode::Bound("executors don't have the rows that this process has read");
    }
    if let Some(scan) = plan.downcast_ref::<LeafScanExec>() {
        return match scan.shown_rows() {
            Some(rows) => PortableNode::Replaced(Arc::clone(rows)),
            None => PortableNode::Bound("a confined session shows its plan to nobody"),
        };
    }
    match plan.downcast_ref::<RetriedJoinsExec>() {
        Some(retried) => PortableNode::Replaced(Arc::clone(retried.first())),
        None => PortableNode::Unchanged,
    }
}
