//! Arguments of `migrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gristmill_engine::migrate::TypeNames;
use gristmill_schemas::grain::Encoding;

use super::ResultArgs;

#[derive(Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The new lake: a folder that doesn't exist, or the lake of a migration that was interrupted;
    /// none with --dry-run
    #[arg(value_name = "LAKE", conflicts_with = "dry_run")]
    pub target: Option<String>,
    /// File of old and new addresses to write, as JSON Lines; the work file is next to it
    #[arg(long, value_name = "FILE", required = true)]
    pub map: PathBuf,
    /// Encoding of payloads [default: as it is]
    #[arg(long, value_enum)]
    pub encoding: Option<EncodingArg>,
    /// Version of the specification whose names types have [default: as they are]
    #[arg(long, value_enum, value_name = "VERSION")]
    pub names: Option<NamesArg>,
    /// Compress payloads, or don't [default: as they are]
    #[arg(long, value_name = "BOOL")]
    pub compressed: Option<bool>,
    /// Undo the migration that wrote this map: grains get the forms that they had before it
    #[arg(
        long,
        value_name = "MAP",
        conflicts_with_all = ["encoding", "names", "compressed"],
    )]
    pub undo: Option<PathBuf>,
    /// Sign grains again with this key of the keyring whose signatures become invalid [default:
    /// drop these signatures, and record that in the map]
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// DID that the signatures name, whose document has the key [default: the key's did:key]
    #[arg(long, value_name = "DID", requires = "key")]
    pub signer: Option<String>,
    /// Convert all grains and write the map, but no lake
    #[arg(long)]
    pub dry_run: bool,
    /// Overwrite an existing map
    #[arg(long)]
    pub force: bool,
}

/// Encoding of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EncodingArg {
    /// MessagePack
    Msgpack,
    /// CBOR
    Cbor,
}

/// Version of the specification, for the names of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamesArg {
    /// belief, event, state, action
    #[value(name = "1.3")]
    Current,
    /// fact, episode, checkpoint, tool
    #[value(name = "1.2")]
    Earlier,
}

impl From<EncodingArg> for Encoding {
    fn from(encoding: EncodingArg) -> Encoding {
        match encoding {
            EncodingArg::Msgpack => Encoding::MessagePack,
            EncodingArg::Cbor => Encoding::Cbor,
        }
    }
}

impl From<NamesArg> for TypeNames {
    fn from(names: NamesArg) -> TypeNames {
        match names {
            NamesArg::Current => TypeNames::Current,
            NamesArg::Earlier => TypeNames::Earlier,
        }
    }
}
