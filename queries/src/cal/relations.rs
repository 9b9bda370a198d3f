//! The `mg:` relations and their categories (CAL 1.0, section 7).

use super::vocabulary::vocabulary;

vocabulary! {
    /// A category of relations: `relation IS PREFERENCE`.
    pub enum RelationCategory {
        /// What someone likes or needs.
        Preference = "PREFERENCE",
        /// What someone knows.
        Knowledge = "KNOWLEDGE",
        /// What someone may do.
        Permission = "PERMISSION",
        /// What passed between parties.
        Interaction = "INTERACTION",
        /// Who acts for whom.
        Agency = "AGENCY",
        /// What is wanted and what it needs.
        Lifecycle = "LIFECYCLE",
        /// What was perceived.
        Observation = "OBSERVATION",
    }
}

impl RelationCategory {
    /// Returns the relations of the category, which all have the prefix `mg:`.
    pub const fn relations(self) -> &'static [&'static str] {
        match self {
            RelationCategory::Preference => &["mg:prefers", "mg:avoids", "mg:requires"],
            RelationCategory::Knowledge => &["mg:knows", "mg:infers"],
            RelationCategory::Permission => &["mg:permits", "mg:revokes", "mg:prohibits"],
            RelationCategory::Interaction => &["mg:said", "mg:did", "mg:handed_off_to"],
            RelationCategory::Agency => &["mg:delegates_to", "mg:has_capability", "mg:assigned_to"],
            RelationCategory::Lifecycle => &["mg:intends", "mg:depends_on"],
            RelationCategory::Observation => &["mg:perceives", "mg:state_at"],
        }
    }
}

/// Relations of the vocabulary that are in no category.
const UNCATEGORISED: [&str; 3] = ["mg:agrees_with", "mg:requires_steps", "mg:owned_by"];

/// Returns all relations of the `mg:` vocabulary.
pub fn vocabulary() -> impl Iterator<Item = &'static str> {
    let categorised = RelationCategory::ALL
        .iter()
        .flat_map(|category| category.relations().iter().copied());
    categorised.chain(UNCATEGORISED)
}

/// Returns true for a name with the prefix `mg:` that is not in the vocabulary.
pub fn is_unknown_mg(relation: &str) -> bool {
    relation.starts_with("mg:") && !vocabulary().any(|known| known == relation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_has_twenty_one_distinct_relations() {
        let mut all: Vec<_> = vocabulary().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 21);
        assert!(all.iter().all(|relation| !is_unknown_mg(relation)));
        assert!(
            is_unknown_mg("mg:loves") && !is_unknown_mg("loves") && !is_unknown_mg("acme:loves")
        );
    }
}
