//! The commands that govern a lake: disclosure, erasure, certificates, the audit log, keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ResultArgs;

/// Whom a request is about; disclosure and erasure take the same.
#[derive(Debug, Args)]
pub struct SubjectSelector {
    /// A person's user id; with the other identifiers given, one person
    #[arg(long, value_name = "ID", help_heading = "Whom")]
    pub user: Vec<String>,
    /// A person's name or other identifier, as subjects, objects and texts have it
    #[arg(long, value_name = "NAME", help_heading = "Whom")]
    pub subject: Vec<String>,
    /// A person's DID
    #[arg(long, value_name = "DID", help_heading = "Whom")]
    pub did: Vec<String>,
    /// A session or run of the person
    #[arg(long, value_name = "ID", help_heading = "Whom")]
    pub session: Vec<String>,
    /// A CSV file of people, one a line: columns user, subject, did, name, email, phone, entity_id,
    /// session, run_id; others are passed over
    #[arg(long, value_name = "FILE", help_heading = "Whom")]
    pub subjects: Option<PathBuf>,
    /// A consent; every grain that was made on its basis
    #[arg(long, value_name = "ADDRESS", help_heading = "Whom")]
    pub consent: Vec<String>,
    /// Every grain whose policy is consent_cascade and whose consent was withdrawn
    #[arg(long, help_heading = "Whom")]
    pub withdrawn_consents: bool,
    /// A file of content addresses, one a line
    #[arg(long, value_name = "FILE", help_heading = "Whom")]
    pub addresses: Option<PathBuf>,
    /// Select grains whose text mentions a person, too
    #[arg(long, help_heading = "How far")]
    pub text_mentions: bool,
    /// Select grains that were derived from selected ones, too
    #[arg(long, help_heading = "How far")]
    pub derived: bool,
    /// Select grains that refer to selected ones, or share a session with them, too
    #[arg(long, help_heading = "How far")]
    pub related: bool,
    /// Select grains that name a person by the initial of the first name only, too
    #[arg(long, help_heading = "How far")]
    pub initials: bool,
    /// Take other spellings (case, compatibility forms, blanks) for other people; of the classes of
    /// variation, only encodings are searched for
    #[arg(long, help_heading = "How far")]
    pub exact: bool,
    /// Search for these classes of variation only: names separated by commas, `all` or `none`
    /// [default: all]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "How far"
    )]
    pub variations: Vec<String>,
    /// Don't search for a class of variation
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "How far"
    )]
    pub no_variation: Vec<String>,
    /// An approval that was given, for grains whose retention policy requires it before deletion
    #[arg(long, value_name = "WHAT", help_heading = "How far")]
    pub approve: Vec<String>,
}

/// Where keys are.
#[derive(Debug, Clone, Args)]
pub struct KeyringArgs {
    /// The keyring [default: gristmill/keyring.json in the user's configuration folder]
    #[arg(
        long,
        global = true,
        env = "GRISTMILL_KEYRING",
        value_name = "FILE",
        help_heading = "KeyringArgs"
    )]
    pub keyring: Option<PathBuf>,
    /// A file whose first line is the passphrase [default: the environment variable
    /// GRISTMILL_PASSPHRASE]
    #[arg(long, global = true, value_name = "FILE", help_heading = "KeyringArgs")]
    pub passphrase_file: Option<PathBuf>,
    /// Leave out what is sealed, so that the rest of an encrypted lake can be read without its keys
    #[arg(long, global = true, help_heading = "KeyringArgs")]
    pub leave_out_sealed: bool,
}

#[derive(Debug, Args)]
pub struct EraseArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub selector: SubjectSelector,
    /// Show what would be erased and what would stay, and change nothing; this is also what happens
    /// without --execute
    #[arg(long, conflicts_with = "execute")]
    pub plan: bool,
    /// Erase
    #[arg(long)]
    pub execute: bool,
    /// Nobody else writes to the lake: remove files that no version names at once, whatever their
    /// age
    #[arg(long)]
    pub exclusive: bool,
    /// The reference of the request, for the certificate
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// The legal ground, for the certificate
    #[arg(long, value_name = "TEXT")]
    pub legal_ground: Option<String>,
    /// The operator of the lake, for the certificate
    #[arg(long, value_name = "TEXT")]
    pub operator: Option<String>,
    /// Destroy the keys of the people in an encrypted lake: what is sealed with them is gone at
    /// once, and nothing of it is written again
    #[arg(long)]
    pub destroy_keys: bool,
    /// The key that signs the certificate
    #[arg(long, default_value = "erasure", value_name = "NAME")]
    pub signing_key: String,
    /// Write the signed certificate here, too
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReportSubjectArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub selector: SubjectSelector,
    /// Write the grains here, one JSON object a line [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum CertificateCommand {
    /// Check a signed certificate; needs nothing but the file
    Verify(VerifyCertificateArgs),
    /// Show what a certificate says, whoever signed it
    Show {
        /// The signed certificate
        file: PathBuf,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Make the proof that an address is among the erased, with the operator's keyring
    Prove(ProveInclusionArgs),
}

#[derive(Debug, Args)]
pub struct VerifyCertificateArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The signed certificate
    pub file: PathBuf,
    /// The DID that must have signed it
    #[arg(long, value_name = "DID")]
    pub signer: Option<String>,
    /// The leaves that belong to it
    #[arg(long, value_name = "FILE")]
    pub leaves: Option<PathBuf>,
    /// An inclusion proof, as `certificate prove` makes it
    #[arg(long, value_name = "FILE")]
    pub proof: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ProveInclusionArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The leaves that belong to the certificate
    pub leaves: PathBuf,
    /// The address
    pub address: String,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// The operations, one JSON object a line; `-` for standard input
    #[arg(value_name = "OPS.jsonl")]
    pub operations: PathBuf,
    /// Write the answers here, one a line [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Judge everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Walk the chain of the audit log
    Verify {
        #[command(flatten)]
        results: ResultArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a signing key (Ed25519), and the keyring if there is none
    Generate {
        /// The key's name
        #[arg(default_value = "erasure")]
        name: String,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// List the keys: names, kinds, DIDs; needs no passphrase
    List {
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Encrypt the lake: everything that it holds is sealed now, and everything that comes in from
    /// now on; makes the keyring if there is none
    Encrypt {
        /// Nobody else writes to the lake: remove files that no version names at once, whatever
        /// their age
        #[arg(long)]
        exclusive: bool,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Give people new keys, seal what is theirs anew, and end the keys that they had; addresses
    /// stay
    Rotate {
        /// A user id [default: everybody, and grains without a user]
        #[arg(long, value_name = "ID")]
        user: Vec<String>,
        /// Nobody else writes to the lake: remove files that no version names at once, whatever
        /// their age
        #[arg(long)]
        exclusive: bool,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Give the keyring another passphrase; no key changes
    Passphrase {
        /// A file whose first line is the new passphrase
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: PathBuf,
        #[command(flatten)]
        results: ResultArgs,
    },
}
