//! `certificate`: verifies and shows erasure certificates, and creates inclusion proofs.

use std::path::Path;

use gristmill_engine::erase::{InclusionProof, verify};

use super::CommandContext;
use super::keys::keyring;
use crate::args::governance::{CertificateCommand, ProveInclusionArgs, VerifyCertificateArgs};
use crate::exit::{CommandOutcome, Failure};

/// Verifies or shows a certificate, or creates an inclusion proof.
pub fn run(
    context: &CommandContext,
    arguments: CertificateCommand,
) -> Result<CommandOutcome, Failure> {
    match arguments {
        CertificateCommand::Verify(arguments) => verify_certificate(context, &arguments),
        CertificateCommand::Show { file, results } => {
            let found = verify(&read(&file)?, None, None, &[]);
            match found.certificate {
                Some(certificate) => context.printer(results).record(&certificate)?,
                None => {
                    return Err(Failure::data(format!(
                        "`{}`: {}",
                        file.display(),
                        found.problems.join("; ")
                    )));
                }
            }
            Ok(CommandOutcome::Done)
        }
        CertificateCommand::Prove(arguments) => prove(context, &arguments),
    }
}

fn verify_certificate(
    context: &CommandContext,
    arguments: &VerifyCertificateArgs,
) -> Result<CommandOutcome, Failure> {
    let leaves = arguments.leaves.as_deref().map(read).transpose()?;
    let mut proofs: Vec<InclusionProof> = Vec::new();
    for path in &arguments.proof {
        let proof = serde_json::from_slice(&read(path)?);
        proofs.push(proof.map_err(|error| {
            Failure::data(format!(
                "`{}` is not an inclusion proof: {error}",
                path.display()
            ))
        })?);
    }
    let found = verify(
        &read(&arguments.file)?,
        arguments.signer.as_deref(),
        leaves.as_deref(),
        &proofs,
    );
    context.printer(arguments.results).record(&found)?;
    Ok(CommandOutcome::done_if(found.valid))
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
