//! `certificate`: verifies and shows erasure certificates, and creates inclusion proofs.

use std::path::Path;

use gristmill_engine::erase::{Certificate, InclusionProof, verify};
use gristmill_queries::pages::certificate_page;

use super::CommandContext;
use super::keys::keyring;
use crate::args::ResultArgs;
use crate::args::governance::{CertificateCommand, ProveInclusionArgs, VerifyCertificateArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;
use crate::output::write_file;

/// Verifies or shows a certificate, or creates an inclusion proof.
pub fn run(
    context: &CommandContext,
    arguments: CertificateCommand,
) -> Result<CommandOutcome, Failure> {
    match arguments {
        CertificateCommand::Verify(arguments) => verify_certificate(context, &arguments),
        CertificateCommand::Show {
            file,
            html,
            results,
        } => show(context, &file, html.as_deref(), results),
        CertificateCommand::Prove(arguments) => prove(context, &arguments),
    }
}

fn show(
    context: &CommandContext,
    file: &Path,
    html: Option<&Path>,
    results: ResultArgs,
) -> Result<CommandOutcome, Failure> {
    let bytes = read(file)?;
    let found = verify(&bytes, None, None, &[]);
    let Some(certificate) = &found.certificate else {
        let problems = found.problems.join("; ");
        return Err(Failure::data(format!("`{}`: {problems}", file.display())));
    };
    match html {
        Some(html) => {
            let name = file.file_name().unwrap_or(file.as_os_str());
            let page = certificate_page(&found, &bytes, &name.to_string_lossy())
                .map_err(|error| Failure::data(format!("can't render the page: {error}")))?;
            write_file(html, page.unwrap_or_default().as_bytes())?;
        }
        None => {
            context.printer(results).record(certificate)?;
            note_if_nobody(context, certificate);
        }
    }
    if !found.valid {
        let problems = found.problems.join("; ");
        note(format_args!("the certificate does not hold: {problems}"));
    }
    Ok(CommandOutcome::done_if(found.valid))
}

/// Notes that the certificate proves the absence of identifiers that the lake never had, such as a
/// mistyped one.
fn note_if_nobody(context: &CommandContext, certificate: &Certificate) {
    if certificate.found_nobody() {
        context.hint(
            "nobody was found by the identifiers of this certificate: it proves nothing about a \
             person who is spelled otherwise",
        );
    }
}

fn verify_certificate(
    context: &CommandContext,
    arguments: &VerifyCertificateArgs,
) -> Result<CommandOutcome, Failure> {
    let leaves = arguments.leaves.as_deref().map(read).transpose()?;
    let mut proofs: Vec<InclusionProof> = Vec::new();
    for path in &arguments.proof {
        proofs.push(inclusion_proof(path)?);
    }
    let found = verify(
        &read(&arguments.file)?,
        arguments.signer.as_deref(),
        leaves.as_deref(),
        &proofs,
    );
    context.printer(arguments.results).record(&found)?;
    if let Some(certificate) = &found.certificate {
        note_if_nobody(context, certificate);
    }
    if found.valid && arguments.signer.is_none() {
        context.hint(
            "anyone who has a key can sign a certificate: compare `signer` with the operator's, or \
             name it with --signer",
        );
    }
    Ok(CommandOutcome::done_if(found.valid))
}

/// Reads an inclusion proof from a file.
fn inclusion_proof(path: &Path) -> Result<InclusionProof, Failure> {
    serde_json::from_slice(&read(path)?).map_err(|error| {
        Failure::data(format!(
            "`{}` is not an inclusion proof: {error}",
            path.display()
        ))
    })
}

fn prove(
    context: &CommandContext,
    arguments: &ProveInclusionArgs,
) -> Result<CommandOutcome, Failure> {
    let address = arguments
        .address
        .parse()
        .map_err(|error| Failure::usage(format!("{error}")))?;
    match InclusionProof::of(
        &address,
        &read(&arguments.leaves)?,
        &keyring(&context.common.keys)?,
    )? {
        Some(proof) => {
            context.printer(arguments.results).record(&proof)?;
            Ok(CommandOutcome::Done)
        }
        None => Err(Failure::data(format!(
            "{address} isn't covered by this certificate"
        ))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::reading(path, &error))
}
