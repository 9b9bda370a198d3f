//! Options of erasures that tests run by the library.

use std::path::Path;

use gristmill_engine::erase::{ErasureOptions, RequestOrigin};
use gristmill_engine::keys::Keyring;

use crate::sandbox::PASSPHRASE;

/// Returns options for an erasure on two threads that no other process disturbs, whose certificate
/// is signed with a key of the keyring `keyring`. Both are made if they don't exist.
///
/// # Panics
/// If the keyring can't be written.
pub fn erasure_options(keyring: &Path) -> ErasureOptions {
    let mut keyring = Keyring::open_or_create(keyring, PASSPHRASE).expect("a keyring");
    // A second call finds an existing key.
    let _ = keyring.generate("erasure");
    let origin = RequestOrigin {
        reference: Some("R-1".to_owned()),
        ..RequestOrigin::default()
    };
    ErasureOptions {
        origin,
        keyring,
        signing_key: "erasure".to_owned(),
        exclusive: true,
        destroy_keys: false,
        purge_versions: false,
        threads: 2,
    }
}
