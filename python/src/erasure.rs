//! Erasure of a person's data: plan, execution and the check of a certificate.

use gristmill_engine::erase::{
    ErasureOptions, Person, RequestOrigin, SubjectRequest, erase, is_blank_identifier, plan, verify,
};
use gristmill_engine::lake::Lake;
use pyo3::prelude::*;

use crate::failure::{PythonError, Result};
use crate::lake::{NativeLake, open_keyring, to_json};
use crate::runtime::wait;

/// The person and what is selected besides direct matches.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub struct ErasureSelector {
    user: Vec<String>,
    subject: Vec<String>,
    did: Vec<String>,
    session: Vec<String>,
    addresses: Vec<String>,
    text_mentions: bool,
    derived: bool,
    related: bool,
    approve: Vec<String>,
}

/// How an erasure is carried out.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub struct ExecutionArguments {
    keyring: String,
    passphrase: Option<String>,
    signing_key: String,
    exclusive: bool,
    destroy_keys: bool,
    reference: Option<String>,
    legal_ground: Option<String>,
    operator: Option<String>,
}

/// Plans an erasure; returns the plan as JSON.
#[pyfunction]
pub fn plan_erasure(
    py: Python<'_>,
    lake: &Bound<'_, NativeLake>,
    selector: ErasureSelector,
) -> PyResult<String> {
    let (lake, request) = (lake.get(), request_of(selector)?);
    wait(py, || async {
        let work = async |open: &mut Lake| {
            let (planned, _) = plan(open, &request, lake.threads()).await?;
            to_json(&planned)
        };
        lake.change(work).await
    })
}

/// Erases; returns the report as JSON, and the signed certificate.
#[pyfunction]
pub fn erase_person(
    py: Python<'_>,
    lake: &Bound<'_, NativeLake>,
    selector: ErasureSelector,
    arguments: ExecutionArguments,
) -> PyResult<(String, Vec<u8>)> {
    let (lake, request) = (lake.get(), request_of(selector)?);
    let options = ErasureOptions {
        origin: RequestOrigin {
            reference: arguments.reference,
            legal_ground: arguments.legal_ground,
            operator: arguments.operator,
        },
        keyring: open_keyring(&arguments.keyring, arguments.passphrase.as_deref())?,
        signing_key: arguments.signing_key,
        exclusive: arguments.exclusive,
        destroy_keys: arguments.destroy_keys,
        purge_versions: false,
        threads: lake.threads(),
    };
    wait(py, || async {
        let work = async |open: &mut Lake| {
            let erased = erase(open, &request, &options).await?;
            let path = erased.certificate.as_str().into();
            let signed = open.location().read(&path).await?;
            Ok((to_json(&erased)?, signed.to_vec()))
        };
        lake.change(work).await
    })
}

fn request_of(selector: ErasureSelector) -> Result<SubjectRequest> {
    let mut request = SubjectRequest {
        approvals: selector.approve,
        ..SubjectRequest::default()
    };
    request.extent.text_mentions = selector.text_mentions;
    request.extent.derived = selector.derived;
    request.extent.related = selector.related;
    request
        .add_addresses(&selector.addresses.join("\n"))
        .map_err(|error| PythonError::usage(error.to_string()))?;
    let identifiers = [selector.user, selector.subject, selector.did].concat();
    let mut named = identifiers.iter().chain(&selector.session);
    if named.any(|name| is_blank_identifier(name)) {
        return Err(PythonError::usage(
            "an identifier is empty: it identifies nobody",
        ));
    }
    let person = Person {
        identifiers: identifiers.into_iter().collect(),
        sessions: selector.session.into_iter().collect(),
    };
    if person != Person::default() {
        request.people.push(person);
    }
    Ok(request)
}

/// Verifies a signed certificate; returns the verdict as JSON.
#[pyfunction]
#[pyo3(signature = (certificate, signer=None, leaves=None))]
pub fn verify_certificate(
    certificate: &[u8],
    signer: Option<&str>,
    leaves: Option<&[u8]>,
) -> PyResult<String> {
    Ok(to_json(&verify(certificate, signer, leaves, &[]))?)
}
