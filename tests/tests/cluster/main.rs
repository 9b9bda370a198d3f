//! Distributed execution: no plan is silently another one on executors.
//!
//! | file | question |
//! |---|---|
//! | `questions` | Which SQL is asked, of which lake? |
//! | `round_trip` | Does every plan that is sent mean the same after the codec? What is refused? |
//! | `processes` | Are the answers of real processes the local ones, also when one is killed? |
//! | `killed_executors` | Is the result of each command exact if an executor is killed meanwhile? |
//! | `ingest` | Has a lake the rows that one process makes of the same sources? |
//! | `erasure` | Does an erasure remove and prove what one process does, also after a kill? |
//! | `segment_work` | Is the lake after work of executors what one process makes of it? |

mod erasure;
mod ingest;
mod killed_executors;
mod processes;
mod questions;
mod round_trip;
mod segment_work;
