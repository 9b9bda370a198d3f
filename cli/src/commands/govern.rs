//! `apply`, `erase`, `report-subject`, `certificate`, `audit`, `keys`.

use std::io::{BufRead, BufReader};
use std::path::Path;

use gristmill_engine::apply::{ApplyOptions, OperationOutcome, apply as run_apply};
use gristmill_engine::erase::{
    Disclosed, ErasureOptions, ErasurePlan, Folding, InclusionProof, Person, RequestOrigin,
    SelectionOptions, SubjectRequest, Variation, Variations, disclose, erase as run_erasure,
    is_blank_identifier, plan as run_plan, plan_disclosure, verify as check,
};
use gristmill_engine::lake::AuditVerdict;

use super::CommandContext;
use super::keys::keyring;
use crate::args::governance::{
    ApplyArgs, AuditCommand, CertificateCommand, EraseArgs, ProveInclusionArgs, ReportSubjectArgs,
    SubjectSelector, VerifyCertificateArgs,
};
use crate::args::{OutputFormat, ResultArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::json_lines::JsonLinesWriter;
use crate::output::{begin_file, finish_file, note, write_file};

/// Applies operations in bulk and writes one answer per line.
pub async fn apply(
    context: &CommandContext,
    arguments: ApplyArgs,
) -> Result<CommandOutcome, Failure> {
    if arguments.out.is_none() {
        lines_only(context, arguments.results)?;
    }
    let mut lake = context.open_or_create_lake().await?;
    let mut lines: Box<dyn BufRead> = match arguments.operations.to_str() {
        Some("-") => Box::new(BufReader::new(std::io::stdin())),
        _ => {
            let path = &arguments.operations;
            let file = std::fs::File::open(path).map_err(|error| Failure::reading(path, &error))?;
            Box::new(BufReader::new(file))
        }
    };
    // Answers are written immediately, so that they show how far a killed run came.
    let mut answers = match &arguments.out {
        Some(path) => JsonLinesWriter::to(
            path,
            std::fs::File::create(path).map_err(|error| Failure::writing(path, &error))?,
        ),
        None => JsonLinesWriter::to_stdout(),
    };
    let mut answer = |answer: &OperationOutcome| answers.write(answer);
    let options = ApplyOptions {
        dry_run: arguments.dry_run,
        ..ApplyOptions::default()
    };
    let report = run_apply(&mut lake, &mut *lines, &options, &mut answer).await?;
    answers.finish()?;
    if arguments.out.is_some() {
        context.printer(arguments.results).record(&report)?;
    } else if !context.common.quiet {
        eprintln!(
            "{} operations: {} done, {} denied, {} failed",
            report.operations, report.done, report.denied, report.failed
        );
    }
    match (report.denied, report.failed) {
        (0, 0) => Ok(CommandOutcome::Done),
        (denied, 0) => Err(Failure::policy(format!(
            "{denied} operations were refused by policy; see their answers for the reasons"
        ))),
        _ => Ok(CommandOutcome::Problems),
    }
}

/// Refuses formats other than JSON where standard output gets JSON Lines, rather than ignoring
/// them.
fn lines_only(context: &CommandContext, own: ResultArgs) -> Result<(), Failure> {
    match own.format.or(context.results.format) {
        None | Some(OutputFormat::Json | OutputFormat::Jsonl) => Ok(()),
        Some(_) => Err(Failure::usage(
            "standard output is JSON Lines here; --format applies only to the summary printed \
             with --out FILE",
        )),
    }
}

/// Plans an erasure and carries it out with `--execute`.
pub async fn erase(
    context: &CommandContext,
    arguments: EraseArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let request = request(&arguments.selector)?;
    let mut lake = context.open_lake().await?;
    if !arguments.execute {
        let (plan, _) = run_plan(&mut lake, &request, context.threads()).await?;
        printer.record(&plan)?;
        hint(context, &plan);
        return Ok(CommandOutcome::Done);
    }
    let order = ErasureOptions {
        origin: RequestOrigin {
            reference: arguments.reference,
            legal_ground: arguments.legal_ground,
            operator: arguments.operator,
        },
        keyring: keyring(&context.common.keys)?,
        signing_key: arguments.signing_key,
        exclusive: arguments.exclusive,
        destroy_keys: arguments.destroy_keys,
        threads: context.threads(),
    };
    let erased = run_erasure(&mut lake, &request, &order).await?;
    if let Some(copy) = arguments.certificate {
        let signed = lake
            .location()
            .read(&erased.certificate.as_str().into())
            .await?;
        write_file(&copy, &signed)?;
    }
    printer.record(&erased)?;
    if erased.proven {
        return Ok(CommandOutcome::Done);
    }
    note(format_args!(
        "the erasure was carried out but is not proven: {} occurrences remain in {}. Unreferenced \
         files may belong to a running writer; use --exclusive to remove them at once",
        erased.proofs.byte_search.remnants,
        erased.proofs.byte_search.remnant_files.join(", ")
    ));
    Ok(CommandOutcome::Problems)
}

fn hint(context: &CommandContext, plan: &ErasurePlan) {
    if !context.common.quiet && plan.has_work() {
        eprintln!("nothing was changed; use --execute to erase the selected data");
    }
}

/// Writes all data about the data subjects.
pub async fn report(
    context: &CommandContext,
    arguments: ReportSubjectArgs,
) -> Result<CommandOutcome, Failure> {
    if arguments.out.is_none() {
        lines_only(context, arguments.results)?;
    }
    let request = request(&arguments.selector)?;
    let mut lake = context.open_lake().await?;
    let (plan, survey) = plan_disclosure(&mut lake, &request, context.threads()).await?;
    // Without a keyring the audit entry records the disclosure without the pseudonym of the data
    // subject.
    let key = keyring(&context.common.keys)
        .ok()
        .map(|keyring| keyring.derive("gristmill/erasure/pseudonyms"))
        .transpose()?;
    let mut file = match arguments.out.as_deref() {
        Some(path) => Some((path, begin_file(path)?)),
        None => None,
    };
    let mut lines = match &mut file {
        Some((path, file)) => JsonLinesWriter::to(path, file),
        None => JsonLinesWriter::to_stdout(),
    };
    let mut write = |held: &Disclosed| lines.write(held);
    let count = disclose(&mut lake, &request, &survey, key.as_ref(), &mut write).await?;
    lines.finish()?;
    if let Some((path, file)) = file {
        finish_file(path, file)?;
        let summary = serde_json::json!({
            "disclosed": count,
            "selected": plan.selected,
            "excluded": plan.excluded,
            "variations": plan.variations,
            "variations_off": plan.variations_off,
            "too_short_for_text": plan.too_short_for_text,
            "unsearchable": plan.unsearchable,
            "grains_read": plan.grains_read,
        });
        context.printer(arguments.results).record(&summary)?;
    }
    Ok(CommandOutcome::Done)
}

/// Verifies or shows a certificate, or creates an inclusion proof.
pub fn certificate(
    context: &CommandContext,
    arguments: CertificateCommand,
) -> Result<CommandOutcome, Failure> {
    match arguments {
        CertificateCommand::Verify(arguments) => verify_certificate(context, &arguments),
        CertificateCommand::Show { file, results } => {
            let found = check(&read(&file)?, None, None, &[]);
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
    let found = check(
        &read(&arguments.file)?,
        arguments.signer.as_deref(),
        leaves.as_deref(),
        &proofs,
    );
    context.printer(arguments.results).record(&found)?;
    Ok(if found.valid {
        CommandOutcome::Done
    } else {
        CommandOutcome::Problems
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

/// Verifies the audit log.
pub async fn audit(
    context: &CommandContext,
    arguments: AuditCommand,
) -> Result<CommandOutcome, Failure> {
    let AuditCommand::Verify { results } = arguments;
    let verdict = match context.open_damaged_lake().await? {
        // The damage prevents the lake from being opened and is the result.
        Err(error) => AuditVerdict::of_unreadable(&error),
        Ok(mut lake) => lake.verify_audit().await?,
    };
    context.printer(results).record(&verdict)?;
    Ok(if verdict.bad == 0 {
        CommandOutcome::Done
    } else {
        CommandOutcome::Problems
    })
}

fn request(selector: &SubjectSelector) -> Result<SubjectRequest, Failure> {
    let mut request = SubjectRequest {
        withdrawn: selector.withdrawn_consents,
        extent: SelectionOptions {
            text_mentions: selector.text_mentions,
            derived: selector.derived,
            related: selector.related,
            initials: selector.initials,
        },
        variations: variations(selector)?,
        folding: if selector.exact {
            Folding::Exact
        } else {
            Folding::Spellings
        },
        approvals: selector.approve.clone(),
        ..SubjectRequest::default()
    };
    for (option, values) in [
        ("--user", &selector.user),
        ("--subject", &selector.subject),
        ("--did", &selector.did),
        ("--session", &selector.session),
    ] {
        named(option, values)?;
    }
    let identifiers = [&selector.user, &selector.subject, &selector.did]
        .into_iter()
        .flatten()
        .cloned();
    let person = Person {
        identifiers: identifiers.collect(),
        sessions: selector.session.iter().cloned().collect(),
    };
    if person != Person::default() {
        request.people.push(person);
    }
    for consent in &selector.consent {
        request.consents.push(
            consent
                .parse()
                .map_err(|error| Failure::usage(format!("`{consent}`: {error}")))?,
        );
    }
    if let Some(path) = &selector.subjects {
        request
            .add_people(&text(path)?)
            .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
    }
    if let Some(path) = &selector.addresses {
        request
            .add_addresses(&text(path)?)
            .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
    }
    Ok(request)
}

/// Returns the selected classes of variation.
fn variations(selector: &SubjectSelector) -> Result<Variations, Failure> {
    let class = |name: &String| {
        name.trim()
            .parse::<Variation>()
            .map_err(|error| Failure::usage(format!("{error}")))
    };
    let mut searched = match selector.variations.as_slice() {
        [] => Variations::ALL,
        [all] if all == "all" => Variations::ALL,
        [none] if none == "none" => Variations::NONE,
        names => names.iter().map(class).collect::<Result<_, _>>()?,
    };
    for name in &selector.no_variation {
        searched.remove(class(name)?);
    }
    Ok(searched)
}

/// Refuses an empty value of `option`, which would identify nobody.
pub fn named(option: &str, values: &[String]) -> Result<(), Failure> {
    match values.iter().any(|value| is_blank_identifier(value)) {
        true => Err(Failure::usage(format!(
            "{option} is empty: it identifies nobody"
        ))),
        false => Ok(()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::reading(path, &error))
}

fn text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(read(path)?)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
}
