//! Arguments of the commands for single grains.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum GrainCommand {
    /// Encode `{"grain": {…}, "options": {…}}` to `{"content_address": …, "blob_hex": …}`
    Encode(EncodeArgs),
    /// Decode `{"blob_hex": …}` to `{"grain": {…}, "header": {…}, "content_address": …}`
    Decode(DecodeArgs),
    /// Check `{"blob_hex": …}` with an optional `content_address`, and report what is wrong
    Check(DecodeArgs),
    /// Wrap `{"blob_hex": …}`, a blob with the signed flag, in a signature envelope
    Sign(SignArgs),
    /// Sign an operation of `apply` (supersede, contradict, retract, release) for a quorum or as a
    /// delegate: writes the signature, which goes into `supersession_auth` or `authorization_hex`
    Authorize(SignArgs),
    /// Hide fields of `{"blob_hex": …}`: writes the disclosed copy, linked to the original
    Elide(ElideArgs),
    /// Check that the values of `{"blob_hex": …, "revealed": {"FIELD": …}}` are those that the
    /// disclosed copy hides
    VerifyElision(LinesArgs),
}

#[derive(Debug, Args)]
pub struct EncodeArgs {
    #[command(flatten)]
    pub lines: LinesArgs,
    /// Sign each grain with this key of the keyring
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// DID that the signature names, whose document has the key [default: the key's did:key]
    #[arg(long, value_name = "DID", requires = "key")]
    pub signer: Option<String>,
}

#[derive(Debug, Args)]
pub struct SignArgs {
    #[command(flatten)]
    pub lines: LinesArgs,
    /// Name of the key in the keyring
    #[arg(long, value_name = "NAME")]
    pub key: String,
    /// DID that the signature names, whose document has the key [default: the key's did:key]
    #[arg(long, value_name = "DID")]
    pub signer: Option<String>,
}

#[derive(Debug, Args)]
pub struct ElideArgs {
    #[command(flatten)]
    pub lines: LinesArgs,
    /// Fields to hide, by full name
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', required = true)]
    pub fields: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LinesArgs {
    /// JSON Lines file [default: standard input]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// JSON Lines file [default: standard input]
    pub file: Option<PathBuf>,
    /// Accept grains that are readable but not canonical or not complete, and mark them
    #[arg(long)]
    pub lenient: bool,
}
