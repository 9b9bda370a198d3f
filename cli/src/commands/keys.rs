//! `keys`: the keyring, and the encryption of a lake with it.

use std::path::{Path, PathBuf};

use gristmill_engine::encrypt::{encrypt, rotate};
use gristmill_engine::error::EngineError;
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::Lake;

use super::CommandContext;
use super::govern::named;
use crate::args::governance::{KeyCommand, KeyringArgs};
use crate::exit::{CommandOutcome, Failure};

/// Environment variable of the passphrase.
const PASSPHRASE: &str = "GRISTMILL_PASSPHRASE";

/// Makes or lists keys, encrypts a lake, gives people new keys.
pub async fn run(context: &CommandContext, command: KeyCommand) -> Result<CommandOutcome, Failure> {
    let keys = &context.common.keys;
    match command {
        KeyCommand::Generate { name, results } => {
            let path = path_of(keys)?;
            let did = made_keyring(keys)?.generate(&name)?;
            let made =
                serde_json::json!({ "name": name, "kind": "ed25519", "did": did, "keyring": path });
            context.printer(results).record(&made)?;
        }
        KeyCommand::List { results } => {
            context
                .printer(results)
                .records(&Keyring::public(&path_of(keys)?)?)?;
        }
        KeyCommand::Encrypt { exclusive, results } => {
            let lake = context.operated(Lake::open(context.lake()).await?);
            let mut lake = context.sealed_from_now_on(lake).await?;
            context
                .printer(results)
                .record(&encrypt(&mut lake, exclusive).await?)?;
        }
        KeyCommand::Rotate {
            user,
            exclusive,
            results,
        } => {
            named("--user", &user)?;
            let mut lake = context.open_lake().await?;
            context
                .printer(results)
                .record(&rotate(&mut lake, &user, exclusive).await?)?;
        }
        KeyCommand::Passphrase {
            new_passphrase_file,
            results,
        } => {
            let mut keyring = keyring(keys)?;
            keyring.change_passphrase(&first_line(&new_passphrase_file)?)?;
            context
                .printer(results)
                .record(&serde_json::json!({ "keyring": keyring.path(), "changed": true }))?;
        }
    }
    Ok(CommandOutcome::Done)
}

/// The environment variables that may say who works; the first that is set does.
const OPERATOR: [&str; 4] = ["GRISTMILL_OPERATOR", "USER", "LOGNAME", "USERNAME"];

impl CommandContext {
    /// The lake, with its keys if it is encrypted and they can be had.
    pub async fn open_lake(&self) -> Result<Lake, Failure> {
        self.unlocked(Lake::open(self.lake()).await?)
    }

    /// The lake, also if it is damaged: for commands that say what is.
    pub async fn open_damaged_lake(&self) -> Result<Result<Lake, EngineError>, Failure> {
        match Lake::open_unchecked(self.lake()).await {
            Ok(lake) => Ok(Ok(self.unlocked(lake)?)),
            Err(
                error @ (EngineError::Delta { .. }
                | EngineError::TableLost { .. }
                | EngineError::Damaged { .. }),
            ) if !error.is_environment() => Ok(Err(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// The lake, whose audit log tells this operator's commands from those of others.
    fn operated(&self, lake: Lake) -> Lake {
        let name = OPERATOR
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
        match name {
            Some(name) => lake.operated_by(&name),
            None => lake,
        }
    }

    /// The lake, made if there is none.
    pub async fn open_or_create_lake(&self) -> Result<Lake, Failure> {
        self.unlocked(Lake::open_or_create(self.lake()).await?)
    }

    /// The lake made one that is encrypted from now on.
    pub async fn encrypted_lake(&self) -> Result<Lake, Failure> {
        let lake = self.operated(Lake::open_or_create(self.lake()).await?);
        self.sealed_from_now_on(lake).await
    }

    /// `lake` made one that is encrypted from now on. Only for a lake that isn't yet may the
    /// keyring be a new one.
    async fn sealed_from_now_on(&self, mut lake: Lake) -> Result<Lake, Failure> {
        let keys = &self.common.keys;
        let keyring = match lake.is_encrypted() {
            true => keyring_of(&lake, keys)?,
            false => made_keyring(keys)?,
        };
        lake.seal_from_now_on(Box::new(FileKeys::next_to(keyring)?))
            .await?;
        Ok(lake)
    }

    /// Without a passphrase the lake stays locked: what needs its keys says so, the rest goes on.
    pub fn unlocked(&self, lake: Lake) -> Result<Lake, Failure> {
        let mut lake = self.operated(lake);
        let keys = &self.common.keys;
        if keys.leave_out_sealed {
            lake.leave_out_sealed();
        } else if lake.is_encrypted() && has_passphrase(keys) {
            lake.unlock(Box::new(FileKeys::next_to(keyring_of(&lake, keys)?)?))?;
        }
        Ok(lake)
    }
}

/// The keyring, which must be there.
pub fn keyring(keys: &KeyringArgs) -> Result<Keyring, Failure> {
    Ok(Keyring::open(&path_of(keys)?, &passphrase(keys)?)?)
}

/// The keyring of an encrypted lake, which must be there.
fn keyring_of(lake: &Lake, keys: &KeyringArgs) -> Result<Keyring, Failure> {
    match Keyring::open(&path_of(keys)?, &passphrase(keys)?) {
        Err(EngineError::NoKeyring(path)) => Err(lake
            .foreign_keyring(&path.display().to_string(), "isn't there")
            .into()),
        opened => Ok(opened?),
    }
}

fn made_keyring(keys: &KeyringArgs) -> Result<Keyring, Failure> {
    Ok(Keyring::open_or_create(
        &path_of(keys)?,
        &passphrase(keys)?,
    )?)
}

fn path_of(keys: &KeyringArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = &keys.keyring {
        return Ok(path.clone());
    }
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let configuration = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    let configuration = configuration.ok_or_else(|| {
        Failure::usage("there is no configuration folder: say where the keyring is with --keyring")
    })?;
    Ok(configuration.join("gristmill/keyring.json"))
}

fn has_passphrase(keys: &KeyringArgs) -> bool {
    keys.passphrase_file.is_some() || std::env::var_os(PASSPHRASE).is_some()
}

fn passphrase(keys: &KeyringArgs) -> Result<String, Failure> {
    match &keys.passphrase_file {
        Some(path) => first_line(path),
        None => std::env::var(PASSPHRASE).map_err(|_| {
            Failure::usage(format!(
                "the keyring needs its passphrase: set {PASSPHRASE} or give --passphrase-file"
            ))
        }),
    }
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::reading(path, &error))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
