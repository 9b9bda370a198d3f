//! The flags that select data subjects, as a request; shared by `erase` and `report-subject`.

use std::path::Path;

use gristmill_engine::erase::{
    Folding, Person, SelectionOptions, SubjectRequest, Variation, Variations, is_blank_identifier,
};

use super::CommandContext;
use crate::args::governance::SubjectSelector;
use crate::exit::Failure;
use crate::log::on_one_line;

/// Number of columns that a note lists.
const LISTED: usize = 8;

/// Converts the selector flags to a request, and notes what a file of people has that isn't
/// searched for.
pub fn request_of(
    context: &CommandContext,
    selector: &SubjectSelector,
) -> Result<SubjectRequest, Failure> {
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
        add_people(context, &mut request, path)?;
    }
    if let Some(path) = &selector.addresses {
        request
            .add_addresses(&text(path)?)
            .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
    }
    Ok(request)
}

/// Adds the people of the file `path`, and notes what it has that isn't searched for.
pub fn add_people(
    context: &CommandContext,
    request: &mut SubjectRequest,
    path: &Path,
) -> Result<(), Failure> {
    let added = request.add_people(&text(path)?);
    let unsearched =
        added.map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
    let path = path.display();
    if !unsearched.columns.is_empty() {
        context.hint(format_args!(
            "`{path}`: not searched for: the columns {}. Those with identifiers are named user, \
             subject, did, name, email, phone, entity_id, session or run_id",
            listed(&unsearched.columns)
        ));
    }
    if unsearched.lines > 0 {
        context.hint(format_args!(
            "`{path}`: lines that identify nobody: {}, such as line {}",
            unsearched.lines, unsearched.first_line
        ));
    }
    Ok(())
}

/// Returns the first [`LISTED`] of `titles`, and how many others there are.
fn listed(titles: &[String]) -> String {
    let first: Vec<String> = titles
        .iter()
        .take(LISTED)
        .map(|title| format!("`{}`", on_one_line(title)))
        .collect();
    match titles.len().saturating_sub(LISTED) {
        0 => first.join(", "),
        others => format!("{} and {others} others", first.join(", ")),
    }
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
    String::from_utf8(bytes).map_err(|error| {
        let cause = error.utf8_error();
        Failure::usage(format!(
            "`{}` isn't in UTF-8: {cause}; save it again in this encoding",
            path.display()
        ))
    })
}
