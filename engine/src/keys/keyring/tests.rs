//! Tests of keyrings: concurrent changes, loss, damage.

use super::*;

#[test]
fn a_keyring_opens_with_its_passphrase_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/keyring.json");
    let mut made = Keyring::open_or_create(&path, "correct horse").unwrap();
    let did = made.generate("erasure").unwrap();
    let derived = made.derive("pseudonyms").unwrap();
    assert!(made.generate("erasure").is_err());
    let again = Keyring::open(&path, "correct horse").unwrap();
    assert_eq!(
        did_from_key(&again.signing_key("erasure").unwrap().verifying_key()),
        did
    );
    assert_eq!(again.derive("pseudonyms").unwrap(), derived);
    assert_ne!(again.derive("other").unwrap(), derived);
    assert!(again.signing_key("nobody").is_err() && again.signing_key("master").is_err());
    let error = Keyring::open(&path, "wrong").unwrap_err().to_string();
    assert!(error.contains("passphrase"), "{error}");
    assert_eq!(Keyring::public(&path).unwrap().len(), 2);
}

#[test]
fn changes_of_two_handles_of_a_keyring_are_both_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.json");
    let mut one = Keyring::open_or_create(&path, "p").unwrap();
    let mut two = Keyring::open_or_create(&path, "p").unwrap();
    one.generate("a").unwrap();
    two.generate("b").unwrap();
    assert!(one.generate("b").is_err(), "the other handle made it");
    two.change_passphrase("new").unwrap();
    let error = one.generate("c").unwrap_err().to_string();
    assert!(error.contains("another passphrase"), "{error}");
    let names: Vec<_> = Keyring::public(&path)
        .unwrap()
        .into_iter()
        .map(|key| key.name)
        .collect();
    assert_eq!(names, ["master", "a", "b"]);
    Keyring::open(&path, "new")
        .unwrap()
        .signing_key("b")
        .unwrap();
}

#[test]
fn threads_that_create_a_keyring_concurrently_share_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/keyring.json");
    let masters: Vec<_> = std::thread::scope(|scope| {
        let open = || {
            Keyring::open_or_create(&path, "p")
                .unwrap()
                .derive("purpose")
                .unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(masters.iter().all(|master| *master == masters[0]));
}

#[test]
fn a_keyring_that_was_lost_is_not_replaced_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.json");
    std::fs::write(people_file_of(&path), b"gristmill-people").unwrap();
    let error = Keyring::open_or_create(&path, "p").unwrap_err().to_string();
    assert!(
        error.contains("restore the keyring from a backup"),
        "{error}"
    );
    assert!(!path.exists());
}

#[test]
fn another_passphrase_changes_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.json");
    let mut keyring = Keyring::open_or_create(&path, "old").unwrap();
    let did = keyring.generate("a").unwrap();
    let derived = keyring.derive("purpose").unwrap();
    assert!(keyring.change_passphrase("").is_err());
    keyring.change_passphrase("new").unwrap();
    assert!(Keyring::open(&path, "old").is_err());
    let again = Keyring::open(&path, "new").unwrap();
    assert_eq!(again.derive("purpose").unwrap(), derived);
    assert_eq!(
        did_from_key(&again.signing_key("a").unwrap().verifying_key()),
        did
    );
}

#[test]
fn an_empty_passphrase_is_reported_as_such_and_not_as_a_damaged_keyring() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.json");
    let missing = Keyring::open(&path, "").unwrap_err();
    assert!(matches!(missing, EngineError::NoKeyring(_)), "{missing}");
    let refused = Keyring::open_or_create(&path, "").unwrap_err().to_string();
    assert!(refused.contains("passphrase is empty"), "{refused}");
    assert!(!path.exists());
    Keyring::open_or_create(&path, "p").unwrap();
    let refused = Keyring::open(&path, "").unwrap_err().to_string();
    assert!(refused.contains("passphrase is empty"), "{refused}");
}

#[test]
fn an_entry_that_was_renamed_or_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keyring.json");
    Keyring::open_or_create(&path, "p")
        .unwrap()
        .generate("a")
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"name\": \"a\"", "\"name\": \"b\"")).unwrap();
    assert!(Keyring::open(&path, "p").unwrap().signing_key("b").is_err());
    std::fs::write(&path, text.replace("argon2id", "md5")).unwrap();
    assert!(Keyring::open(&path, "p").is_err());
}
