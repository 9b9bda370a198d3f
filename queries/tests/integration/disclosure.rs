//! What errors disclose to a session that sees a part of the lake.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::datasource::MemTable;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{Executor, Session};
use gristmill_schemas::columns::GRAINS;

use crate::memory::Memory;

/// A failed source is a part of a warning or of another error, which say as little as the error of
/// any other statement.
#[tokio::test]
async fn failed_sources_do_not_disclose_their_causes() {
    let context = Memory::default().context();
    let session = Session {
        namespace: Some("demo".to_owned()),
        hides_causes: true,
        ..Session::at(0)
    };
    let executor = Executor::new(context.clone(), session);
    let (none, options) = (Bindings::new(), Options::default());
    let read = executor.run_text(b"RECALL beliefs", &none, options).await;
    assert!(read.is_ok(), "{read:?}");

    // The table loses its columns.
    let broken = MemTable::try_new(Arc::new(Schema::empty()), vec![Vec::new()]).unwrap();
    context.deregister_table(GRAINS).unwrap();
    context.register_table(GRAINS, Arc::new(broken)).unwrap();
    for text in ["RECALL beliefs", "ASSEMBLE x FROM (RECALL beliefs)"] {
        let read = executor.run_text(text.as_bytes(), &none, options).await;
        let message = read.unwrap_err().to_string();
        let is_hidden = message.contains("the log has the cause") && !message.contains("type_byte");
        assert!(is_hidden, "{text}: {message}");
    }
}
