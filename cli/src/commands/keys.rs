//! `keys`: manages the keyring and encrypts lakes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_connectors::did_web::{DidWebResolver, WebAccess};
use gristmill_engine::encrypt::{encrypt, rotate};
use gristmill_engine::error::EngineError;
use gristmill_engine::keys::{FileKeys, Keyring, TrustStore, TrustedFirst, read_key_file};
use gristmill_engine::lake::{DEFAULT_CACHE_BYTES, Lake, LocalCache};
use gristmill_schemas::sign::KeyResolver;
use tempfile::TempDir;

use super::CommandContext;
use super::subject_selector::refuse_blank;
use crate::args::governance::{KeyCommand, KeyringArgs};
use crate::args::size::Size;
use crate::configuration::settings::configuration_folder;
use crate::exit::{CommandOutcome, Failure};

/// Environment variable with the passphrase.
const PASSPHRASE: &str = "GRISTMILL_PASSPHRASE";

/// Generates, lists or rotates keys, encrypts a lake, or changes the passphrase.
pub async fn run(context: &CommandContext, command: KeyCommand) -> Result<CommandOutcome, Failure> {
    let keys = &context.common.keys;
    match command {
        KeyCommand::Generate { name, results } => {
            let made = generate(keys, &name)?;
            context.printer(results).record(&made)?;
        }
        KeyCommand::List { results } => {
            context
                .printer(results)
                .records(&Keyring::public(&keyring_path(keys)?)?)?;
        }
        KeyCommand::Encrypt { exclusive, results } => {
            let lake = context.with_operator(Lake::open(context.lake()).await?);
            context.use_cache(&lake)?;
            let mut lake = context.enable_encryption(lake).await?;
            context
                .printer(results)
                .record(&encrypt(&mut lake, exclusive).await?)?;
        }
        KeyCommand::Rotate {
            user,
            exclusive,
            results,
        } => {
            refuse_blank("--user", &user)?;
            let mut lake = context.open_lake().await?;
            let report = rotate(&mut lake, &user, exclusive).await?;
            context.printer(results).record(&report)?;
            if !exclusive && report.keys_renewed > 0 {
                context.hint(OLD_KEYS);
            }
        }
        KeyCommand::Passphrase {
            new_passphrase_file,
            results,
        } => {
            let changed = change_passphrase(keys, &new_passphrase_file)?;
            context.printer(results).record(&changed)?;
        }
        KeyCommand::Trust { did, file, results } => {
            let content = read_key_file(&file)?;
            let trusted = TrustStore::trust(&keyring_path(keys)?, &did, &content)?;
            context.printer(results).records(&trusted)?;
        }
        KeyCommand::Trusted { results } => {
            let store = TrustStore::next_to(&keyring_path(keys)?)?;
            context.printer(results).records(store.keys())?;
        }
        KeyCommand::Untrust { did, results } => {
            let removed = TrustStore::untrust(&keyring_path(keys)?, &did)?;
            context.printer(results).records(&removed)?;
        }
    }
    Ok(CommandOutcome::Done)
}

/// What a rotation without `--exclusive` leaves to do.
const OLD_KEYS: &str = "the old keys stay usable, because a running command may seal with them: \
                        when nothing else writes, the same command with --exclusive destroys them";

fn generate(keys: &KeyringArgs, name: &str) -> Result<serde_json::Value, Failure> {
    let path = keyring_path(keys)?;
    let did = open_or_create_keyring(keys)?.generate(name)?;
    Ok(serde_json::json!({ "name": name, "kind": "ed25519", "did": did, "keyring": path }))
}

fn change_passphrase(keys: &KeyringArgs, file: &Path) -> Result<serde_json::Value, Failure> {
    let mut keyring = keyring(keys)?;
    keyring.change_passphrase(&first_line(file)?)?;
    Ok(serde_json::json!({ "keyring": keyring.path(), "changed": true }))
}

/// Environment variables with the operator's name; the first that is set is used, otherwise the
/// name of the process's user. A container often has none of them.
const OPERATOR: [&str; 4] = ["GRISTMILL_OPERATOR", "USER", "LOGNAME", "USERNAME"];

impl CommandContext {
    /// Opens the lake, and unlocks it if it is encrypted and a passphrase is given.
    pub async fn open_lake(&self) -> Result<Lake, Failure> {
        self.unlock(Lake::open(self.lake()).await?)
    }

    /// Opens the lake as [`Self::open_lake`] does, for a command that only queries it.
    pub async fn open_lake_for_queries(&self) -> Result<Lake, Failure> {
        let lake = self.unlock(Lake::open_for_queries(self.lake()).await?)?;
        self.note_unfinished_erasure(&lake).await?;
        Ok(lake)
    }

    /// Opens the lake even if it is damaged, for commands that report damage.
    pub async fn open_damaged_lake(&self) -> Result<Result<Lake, EngineError>, Failure> {
        match Lake::open_unchecked(self.lake()).await {
            Ok(lake) => Ok(Ok(self.unlock(lake)?)),
            Err(
                error @ (EngineError::Delta { .. }
                | EngineError::TableLost { .. }
                | EngineError::Damaged { .. }),
            ) if !error.is_environment() => Ok(Err(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the operator that the audit log records.
    fn with_operator(&self, lake: Lake) -> Lake {
        let name = OPERATOR
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()))
            .or_else(|| whoami::username().ok());
        match name {
            Some(name) => lake.with_operator(&name),
            None => lake,
        }
    }

    /// Lets a lake in an object store use the cache of `--cache`.
    fn use_cache(&self, lake: &Lake) -> Result<(), Failure> {
        let folder = self.common.cache.as_ref();
        if let Some(folder) = folder.filter(|_| lake.location().is_remote()) {
            let size = self.common.cache_size;
            let limit = size.map_or(DEFAULT_CACHE_BYTES, |Size(bytes)| bytes);
            let cache = LocalCache::open(folder, limit)?;
            lake.location().use_cache(Arc::new(cache));
        }
        Ok(())
    }

    /// Opens the lake, or creates it.
    pub async fn open_or_create_lake(&self) -> Result<Lake, Failure> {
        self.unlock(Lake::open_or_create(self.lake()).await?)
    }

    /// Opens the lake for a dry run, which creates none: without a lake, the dry run is that of an
    /// empty one in a temporary folder, which is removed when the folder is dropped.
    pub async fn lake_for_dry_run(&self) -> Result<(Lake, Option<TempDir>), Failure> {
        if let Some(lake) = Lake::open_if_exists(self.lake()).await? {
            return Ok((self.unlock(lake)?, None));
        }
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::environment("can't make a temporary folder", &error))?;
        let lake = folder.path().join("lake");
        let lake = Lake::open_or_create(&lake.display().to_string()).await?;
        Ok((self.unlock(lake)?, Some(folder)))
    }

    /// Opens or creates the lake and enables encryption.
    pub async fn encrypted_lake(&self) -> Result<Lake, Failure> {
        let lake = self.with_operator(Lake::open_or_create(self.lake()).await?);
        self.use_cache(&lake)?;
        self.enable_encryption(lake).await
    }

    /// Enables encryption of `lake`. A new keyring may be created only for a lake that isn't
    /// encrypted yet.
    async fn enable_encryption(&self, mut lake: Lake) -> Result<Lake, Failure> {
        let keys = &self.common.keys;
        let keyring = match lake.is_encrypted() {
            true => keyring_of(&lake, keys)?,
            false => open_or_create_keyring(keys)?,
        };
        lake.enable_encryption(Box::new(FileKeys::next_to(keyring)?))
            .await?;
        Ok(lake)
    }

    /// Returns the resolver of signers' DIDs: those that contain their key, the trusted ones, and
    /// with `--resolve-did-web` those on the web.
    pub fn key_resolver(&self) -> Result<Arc<dyn KeyResolver>, Failure> {
        let trusted = self.trusted_keys()?;
        Ok(match self.common.keys.resolve_did_web {
            true => {
                let web = DidWebResolver::new(WebAccess::default());
                Arc::new(TrustedFirst::new(trusted, web))
            }
            false => Arc::new(trusted),
        })
    }

    /// Returns the trusted keys of DIDs; none without a keyring.
    pub fn trusted_keys(&self) -> Result<TrustStore, Failure> {
        Ok(match keyring_path(&self.common.keys) {
            Ok(path) => TrustStore::next_to(&path)?,
            Err(_) => TrustStore::default(),
        })
    }

    /// Unlocks `lake` if a passphrase is given. Otherwise it stays locked: operations that need its
    /// keys fail, others work.
    pub fn unlock(&self, lake: Lake) -> Result<Lake, Failure> {
        let mut lake = self.with_operator(lake);
        self.use_cache(&lake)?;
        let keys = &self.common.keys;
        if keys.leave_out_sealed {
            lake.skip_sealed();
        } else if lake.is_encrypted() && has_passphrase(keys) {
            lake.unlock(Box::new(FileKeys::next_to(keyring_of(&lake, keys)?)?))?;
        }
        Ok(lake)
    }
}

/// Opens the keyring, which must exist.
pub fn keyring(keys: &KeyringArgs) -> Result<Keyring, Failure> {
    let path = keyring_path(keys)?;
    // Before the passphrase: who has no keyring yet can't have its passphrase.
    if matches!(path.try_exists(), Ok(false)) {
        return Err(EngineError::NoKeyring(path).into());
    }
    Ok(Keyring::open(&path, &passphrase(keys)?)?)
}

/// Opens the keyring if the file exists and a passphrase is given; `None` otherwise.
///
/// # Errors
/// As [`keyring`]: a passphrase that doesn't open the keyring is an error, not a missing one.
pub fn keyring_if_given(keys: &KeyringArgs) -> Result<Option<Keyring>, Failure> {
    let exists = keyring_path(keys).is_ok_and(|path| !matches!(path.try_exists(), Ok(false)));
    match exists && has_passphrase(keys) {
        true => keyring(keys).map(Some),
        false => Ok(None),
    }
}

/// Opens the keyring of an encrypted lake, which must exist.
fn keyring_of(lake: &Lake, keys: &KeyringArgs) -> Result<Keyring, Failure> {
    match Keyring::open(&keyring_path(keys)?, &passphrase(keys)?) {
        Err(EngineError::NoKeyring(path)) => Err(lake
            .foreign_keyring(&path.display().to_string(), "doesn't exist")
            .into()),
        opened => Ok(opened?),
    }
}

fn open_or_create_keyring(keys: &KeyringArgs) -> Result<Keyring, Failure> {
    Ok(Keyring::open_or_create(
        &keyring_path(keys)?,
        &passphrase(keys)?,
    )?)
}

fn keyring_path(keys: &KeyringArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = &keys.keyring {
        return Ok(path.clone());
    }
    let folder = configuration_folder().ok_or_else(|| {
        Failure::usage("no configuration folder is set; give the keyring with --keyring")
    })?;
    Ok(folder.join("keyring.json"))
}

fn has_passphrase(keys: &KeyringArgs) -> bool {
    keys.passphrase_file.is_some() || std::env::var_os(PASSPHRASE).is_some()
}

fn passphrase(keys: &KeyringArgs) -> Result<String, Failure> {
    match &keys.passphrase_file {
        Some(path) => first_line(path),
        None => std::env::var(PASSPHRASE).map_err(|_| {
            Failure::usage(format!(
                "the keyring needs its passphrase, a new one a passphrase of your choice: set \
                 {PASSPHRASE}, or --passphrase-file FILE with it in the first line"
            ))
        }),
    }
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::reading(path, &error))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
