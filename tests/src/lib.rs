//! Helpers of the integration tests.
//!
//! | module | what it provides |
//! |---|---|
//! | [`binary`], [`sandbox`] | the `gristmill` binary, and a temporary folder in which it runs |
//! | [`grains`], [`fixture`], [`lake`] | small grains and containers, lakes from JSON files and from bytes |
//! | [`test_server`], [`certificate`] | a server over a lake, and a certificate of this machine |
//! | [`datasets`] | the recipe of the folder `datasets/` |
//! | [`exchanges`] | invented exchanges with providers |
//! | [`conformance`] | the runner of conformance files |
//! | [`sqllogic`] | SQL files with expected answers |
//! | [`damage`], [`bitflips`], [`answers`] | damaged lakes, and whether `verify` or an answer shows it |
//! | [`faults`], [`kill`] | commands that are killed, or run out of disk or memory |
//! | [`erasures`] | options of an erasure by the library |
//! | [`hooked_store`] | a bucket in memory whose requests are counted, or fail |
//! | [`exact`] | counts and pages compared with a pass over every grain |
//! | [`isolation`] | random statements of a token compared over two lakes |
//! | [`doc_pages`] | blocks and commands of the documentation |
//! | [`generated_page`] | parts of `docs/` that tests generate |
//! | [`paths`] | where case files are |

pub mod answers;
pub mod binary;
pub mod bitflips;
pub mod certificate;
pub mod conformance;
pub mod damage;
pub mod datasets;
pub mod doc_pages;
pub mod erasures;
pub mod exact;
pub mod exchanges;
pub mod faults;
pub mod fixture;
pub mod generated_page;
pub mod grains;
pub mod hooked_store;
pub mod isolation;
pub mod kill;
pub mod lake;
pub mod paths;
pub mod sandbox;
pub mod sqllogic;
pub mod test_server;
