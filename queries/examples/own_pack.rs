//! Tests a compliance pack on its own examples, then scans a lake with it.
//!
//! ```sh
//! cargo run --example own_pack -- PACK.toml [LAKE]
//! ```

use std::path::Path;

use gristmill_engine::lake::Lake;
use gristmill_queries::packs::{Finding, Pack, Rule, Scan, ScanOptions, run_examples};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: PACK.toml [LAKE]")?;
    let pack = Pack::read(Path::new(&path))?;

    for result in run_examples(&pack).await? {
        if !result.is_right() {
            println!("{} [[test]] {}: wrong", result.rule, result.example);
        }
    }

    let Some(uri) = arguments.next() else {
        return Ok(());
    };
    let lake = Lake::open(&uri).await?;
    let scan = Scan::prepare(&lake, vec![pack], &ScanOptions::default()).await?;
    let print = |rule: &Rule, finding: &Finding| {
        println!("{}: {}", rule.id, rule.message.render(&finding.evidence));
        Ok(())
    };
    let summary = scan.run(print).await?;
    println!("{} findings", summary.findings);
    Ok(())
}
