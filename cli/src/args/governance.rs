//! Arguments of the commands for governance: disclosure, erasure, certificates, the audit log,
//! keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ResultArgs;
#[cfg(feature = "cluster")]
use super::query::ClusterArgs;

/// Help of `--format` for commands that write JSON only to standard output.
const JSON_FORMAT: &str = "Output format: json or jsonl; if the result is written to a file, any \
                           format for the summary [default: jsonl; table for a summary on a \
                           terminal]";

/// The data subjects of a request; shared by disclosure and erasure.
#[derive(Debug, Default, Args)]
pub struct SubjectSelector {
    /// User id of a person; combined with the other identifiers into one person
    #[arg(long, value_name = "ID", help_heading = "Data subjects")]
    pub user: Vec<String>,
    /// Name or other identifier of a person, as it occurs in subjects, objects and texts
    #[arg(long, value_name = "NAME", help_heading = "Data subjects")]
    pub subject: Vec<String>,
    /// E-mail address of a person
    #[arg(long, value_name = "ADDRESS", help_heading = "Data subjects")]
    pub email: Vec<String>,
    /// Telephone number of a person, in any notation
    #[arg(long, value_name = "NUMBER", help_heading = "Data subjects")]
    pub phone: Vec<String>,
    /// DID of a person
    #[arg(long, value_name = "DID", help_heading = "Data subjects")]
    pub did: Vec<String>,
    /// Session or run id of the person
    #[arg(long, value_name = "ID", help_heading = "Data subjects")]
    pub session: Vec<String>,
    /// CSV file with one person per line: columns user, subject, did, name, email, phone,
    /// entity_id, session, run_id; other columns are ignored
    #[arg(long, value_name = "FILE", help_heading = "Data subjects")]
    pub subjects: Option<PathBuf>,
    /// Address of a consent: selects every grain created on its basis
    #[arg(long, value_name = "ADDRESS", help_heading = "Data subjects")]
    pub consent: Vec<String>,
    /// Select every grain with the policy consent_cascade whose consent was withdrawn
    #[arg(long, help_heading = "Data subjects")]
    pub withdrawn_consents: bool,
    /// File of content addresses, one per line
    #[arg(long, value_name = "FILE", help_heading = "Data subjects")]
    pub addresses: Option<PathBuf>,
    /// Also select grains whose text mentions a person
    #[arg(long, help_heading = "Extent of the selection")]
    pub text_mentions: bool,
    /// Also select grains derived from selected ones
    #[arg(long, help_heading = "Extent of the selection")]
    pub derived: bool,
    /// Also select grains that refer to selected ones or share a session with them
    #[arg(long, help_heading = "Extent of the selection")]
    pub related: bool,
    /// Also select grains that give only the initial of a person's first name
    #[arg(long, help_heading = "Extent of the selection")]
    pub initials: bool,
    /// Match identifiers exactly: other spellings (case, compatibility forms, blanks) count as
    /// other people, and of the classes of variation only encodings are searched
    #[arg(long, help_heading = "Extent of the selection")]
    pub exact: bool,
    /// Search only these classes of variation: names separated by commas, `all` or `none` [default:
    /// all]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Extent of the selection"
    )]
    pub variations: Vec<String>,
    /// Exclude classes of variation from the search
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Extent of the selection"
    )]
    pub no_variation: Vec<String>,
    /// Approval that was given, for grains whose retention policy requires it before deletion
    #[arg(long, value_name = "WHAT", help_heading = "Extent of the selection")]
    pub approve: Vec<String>,
}

impl SubjectSelector {
    /// Returns the flags that identify a person, except by a session, and their values.
    pub fn identifiers(&self) -> [(&'static str, &[String]); 5] {
        [
            ("--user", &self.user),
            ("--subject", &self.subject),
            ("--email", &self.email),
            ("--phone", &self.phone),
            ("--did", &self.did),
        ]
    }
}

/// Location of the keys.
#[derive(Debug, Clone, Args)]
pub struct KeyringArgs {
    /// Keyring file [default: gristmill/keyring.json in the user's configuration folder]
    #[arg(long, global = true, env = "GRISTMILL_KEYRING", value_name = "FILE")]
    pub keyring: Option<PathBuf>,
    /// File whose first line is the passphrase [default: the environment variable
    /// GRISTMILL_PASSPHRASE]
    #[arg(long, global = true, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Skip sealed data, so that the rest of an encrypted lake can be read without keys
    #[arg(long, global = true)]
    pub leave_out_sealed: bool,
    /// Request the documents of signers' did:web identifiers over HTTPS, unless their keys are
    /// trusted already (`keys trust`)
    #[arg(long, global = true)]
    pub resolve_did_web: bool,
}

#[derive(Debug, Args)]
pub struct EraseArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub selector: SubjectSelector,
    /// Show what would be erased and what would be kept, without changing anything; this is the
    /// default without --execute
    #[arg(long, conflicts_with = "execute")]
    pub plan: bool,
    /// Carry out the erasure
    #[arg(long)]
    pub execute: bool,
    #[command(flatten)]
    pub run: ErasureRunArgs,
    /// Destroy the people's keys in an encrypted lake: data sealed with them becomes unreadable at
    /// once and is not rewritten
    #[arg(long)]
    pub destroy_keys: bool,
    /// Also write the signed certificate to this file
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// How an erasure is carried out and certified.
#[derive(Debug, Args)]
pub struct ErasureRunArgs {
    /// Assert that no other process writes to the lake, so that files that killed commands left are
    /// removed at once; without it, when they are an hour old
    #[arg(long)]
    pub exclusive: bool,
    /// Also remove the earlier versions that a bucket of S3 with versioning keeps of all objects of
    /// the lake
    #[arg(long, requires = "exclusive")]
    pub purge_versions: bool,
    /// Reference of the request, for the certificate
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// Legal ground, for the certificate [default for retention: the names of its policies]
    #[arg(long, value_name = "TEXT")]
    pub legal_ground: Option<String>,
    /// Operator of the lake, for the certificate
    #[arg(long, value_name = "TEXT")]
    pub operator: Option<String>,
    /// Name of the key that signs the certificate
    #[arg(long, default_value = "erasure", value_name = "NAME")]
    pub signing_key: String,
}

#[derive(Debug, Args)]
#[command(mut_arg("format", |arg| arg.help(JSON_FORMAT)))]
pub struct ReportSubjectArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub selector: SubjectSelector,
    /// Write what is found to this file, one JSON object per line [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write a page to read, print or hand over to the person; `-` for standard output
    #[arg(long, value_name = "PAGE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum CertificateCommand {
    /// Verify a signed certificate; needs only the file
    Verify(VerifyCertificateArgs),
    /// Show the contents of a certificate without checking the signer
    Show {
        /// Signed certificate file
        file: PathBuf,
        /// Write a page for an auditor's files, with instructions to check the certificate
        #[arg(long, value_name = "PAGE")]
        html: Option<PathBuf>,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Create the proof that an address was erased, with the operator's keyring
    Prove(ProveInclusionArgs),
}

#[derive(Debug, Args)]
pub struct VerifyCertificateArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Signed certificate file
    pub file: PathBuf,
    /// DID of the required signer
    #[arg(long, value_name = "DID")]
    pub signer: Option<String>,
    /// File of the certificate's leaves
    #[arg(long, value_name = "FILE")]
    pub leaves: Option<PathBuf>,
    /// Inclusion proof created by `certificate prove`; may be repeated
    #[arg(long, value_name = "FILE")]
    pub proof: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ProveInclusionArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// File of the certificate's leaves
    pub leaves: PathBuf,
    /// Content address
    pub address: String,
}

#[derive(Debug, Args)]
#[command(mut_arg("format", |arg| arg.help(JSON_FORMAT)))]
pub struct ApplyArgs {
    #[command(flatten)]
    pub results: ResultArgs,
    /// Operations, one JSON object per line; `-` for standard input
    #[arg(value_name = "OPS.jsonl")]
    pub operations: PathBuf,
    /// Write the answers to this file, one per line [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Evaluate all operations and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Verify the hash chain of the audit log
    Verify {
        /// File with the heads of earlier runs, which the log must have. The head of this run is
        /// appended if nothing is wrong. Keep it where those who can write to the lake can't change
        /// it: it shows that all of the lake was set back to an earlier state
        #[arg(long, value_name = "FILE", env = "GRISTMILL_AUDIT_HEADS")]
        heads: Option<PathBuf>,
        #[command(flatten)]
        results: ResultArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Generate a signing key (Ed25519), and the keyring if it doesn't exist
    Generate {
        /// Name of the key
        #[arg(default_value = "erasure")]
        name: String,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// List the keys with names, kinds and DIDs; needs no passphrase
    List {
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Encrypt the lake: seal its data and all future data; creates the keyring if it doesn't exist
    Encrypt {
        /// Assert that no other process writes to the lake, so that plain files that killed
        /// commands left are removed at once; without it, those younger than an hour stay
        #[arg(long)]
        exclusive: bool,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Rotate people's keys: seal their data again with new keys; --exclusive destroys the old
    /// ones. Addresses don't change
    Rotate {
        /// User id [default: all users, and grains without a user]
        #[arg(long, value_name = "ID")]
        user: Vec<String>,
        /// Assert that no other process writes to the lake, so that the old keys are destroyed;
        /// without it they stay usable, because a running command may seal with them
        #[arg(long)]
        exclusive: bool,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Change the passphrase of the keyring; keys don't change
    Passphrase {
        /// File whose first line is the new passphrase
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: PathBuf,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Trust the keys of a DID that doesn't contain its key, such as did:web: signatures of it
    /// can then be verified. Keys that were trusted before stay
    Trust {
        /// The DID
        did: String,
        /// DID document, JSON Web Key, or a file with one line: a did:key or a multibase key (z…)
        file: PathBuf,
        #[command(flatten)]
        results: ResultArgs,
    },
    /// List the trusted keys
    Trusted {
        #[command(flatten)]
        results: ResultArgs,
    },
    /// Stop trusting the keys of a DID
    Untrust {
        /// The DID
        did: String,
        #[command(flatten)]
        results: ResultArgs,
    },
}
