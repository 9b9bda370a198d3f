//! The flags that select data subjects, as a request; shared by `erase` and `report-subject`.

use std::path::Path;

use gristmill_engine::erase::{
    Folding, Person, SelectionOptions, SubjectRequest, Variation, Variations, is_blank_identifier,
};

use crate::args::governance::SubjectSelector;
use crate::exit::Failure;

/// Converts the selector flags to a request.
pub fn request_of(selector: &SubjectSelector) -> Result<SubjectRequest, Failure> {
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
    request.people.extend(person_of(selector)?);
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

/// Returns the one person that the identifier flags describe; `None` without such flags.
fn person_of(selector: &SubjectSelector) -> Result<Option<Person>, Failure> {
    let identifiers = selector.identifiers();
    for (option, values) in identifiers {
        refuse_blank(option, values)?;
    }
    refuse_blank("--session", &selector.session)?;
    let identifiers = identifiers.into_iter().flat_map(|(_, values)| values);
    let person = Person {
        identifiers: identifiers.cloned().collect(),
        sessions: selector.session.iter().cloned().collect(),
    };
    Ok((person != Person::default()).then_some(person))
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
pub fn refuse_blank(option: &str, values: &[String]) -> Result<(), Failure> {
    match values.iter().any(|value| is_blank_identifier(value)) {
        true => Err(Failure::usage(format!(
            "{option} is empty: it identifies nobody"
        ))),
        false => Ok(()),
    }
}

/// Reads a text file.
pub fn text(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::reading(path, &error))?;
    String::from_utf8(bytes)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
}
