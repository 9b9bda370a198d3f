//! Selection of single rules of packs.

use std::collections::BTreeSet;

use super::error::{PackError, Result};
use super::pack::Pack;
use crate::cal::suggest::near;

/// Maximum number of suggested ids.
const SUGGESTIONS: usize = 3;

/// Keeps the rules whose ids (`PACK/RULE`) are in `ids`, and the packs that have any of them.
///
/// # Errors
/// [`PackError::UnknownRule`] for an id that no pack has.
pub fn select_rules(packs: Vec<Pack>, ids: &[String]) -> Result<Vec<Pack>> {
    for id in ids {
        check_known(&packs, id)?;
    }
    let wanted: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    let selected = packs.into_iter().filter_map(|mut pack| {
        pack.rules.retain(|rule| wanted.contains(rule.id.as_str()));
        (!pack.rules.is_empty()).then_some(pack)
    });
    Ok(selected.collect())
}

fn check_known(packs: &[Pack], id: &str) -> Result<()> {
    let known = || packs.iter().flat_map(|pack| &pack.rules);
    if known().any(|rule| rule.id == id) {
        return Ok(());
    }
    let ids: Vec<&str> = known().map(|rule| rule.id.as_str()).collect();
    let similar = similar_ids(&ids, id);
    Err(PackError::UnknownRule {
        id: id.to_owned(),
        similar: match similar.is_empty() {
            true => String::new(),
            false => format!(" Did you mean {}?", similar.join(", ")),
        },
    })
}

/// Returns the ids among `ids` that may be meant with `id`.
fn similar_ids<'i>(ids: &[&'i str], id: &str) -> Vec<&'i str> {
    // The id of a rule is often given without its pack.
    let in_pack = |rule: &&str| rule.rsplit_once('/').is_some_and(|(_, name)| name == id);
    let ids = ids.iter().copied();
    let similar: Vec<&str> = ids.clone().filter(in_pack).collect();
    match similar.is_empty() {
        true => near(id, ids, SUGGESTIONS),
        false => similar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packs::shipped;

    fn packs() -> Vec<Pack> {
        vec![shipped("gdpr").unwrap(), shipped("ccpa").unwrap()]
    }

    #[test]
    fn only_the_selected_rules_and_their_packs_remain() {
        let all = packs();
        let id = all[0].rules[1].id.clone();
        let selected = select_rules(packs(), std::slice::from_ref(&id)).unwrap();
        assert_eq!(selected.len(), 1);
        assert_eq!(selected[0].rules.len(), 1);
        assert_eq!(selected[0].rules[0].id, id);
    }

    #[test]
    fn an_unknown_rule_is_an_error_with_similar_ids() {
        let all = packs();
        let (_, name) = all[0].rules[0].id.rsplit_once('/').unwrap();
        for wrong in [name.to_owned(), format!("{}x", all[0].rules[0].id)] {
            let error = select_rules(packs(), &[wrong]).unwrap_err().to_string();
            assert!(error.contains(&all[0].rules[0].id), "{error}");
        }
    }
}
