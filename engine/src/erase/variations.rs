//! The classes of variation: ways to write an identifier that are searched for besides its own
//! spelling. Each can be disabled.
//!
//! The rules of each class are in `docs/operations.md`; [`super::patterns`] and, independently,
//! [`super::identifier_search`] implement them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! variations {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// A class of variation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Variation {
            $(#[doc = $doc] $variant,)*
        }

        impl Variation {
            /// All classes.
            pub const ALL: &[Variation] = &[$(Variation::$variant),*];

            /// Returns its name in plans and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Variation::$variant => $name,)* }
            }
        }
    };
}

variations! {
    NameOrder "name-order" "Last name first, with or without a comma.";
    NameSeparators "name-separators" "Any separator between the words of a name, or none.";
    Initials "initials" "The first name as an initial. Reported for review.";
    SplitBlocks "split-blocks" "A name over adjacent blocks, items of a list, or parts of a map.";
    Accents "accents" "Letters without their accents.";
    Homoglyphs "homoglyphs" "Cyrillic and Greek letters that look like Latin ones.";
    TurkishI "turkish-i" "The Turkish dotless and dotted i.";
    Phone "phone" "A telephone number by its digits.";
    EmailTag "email-tag" "A `+tag` in an e-mail address.";
    Idn "idn" "The other form of an internationalised domain.";
    IdAffixes "id-affixes" "An id with a prefix or a version behind it.";
    IdSeparators "id-separators" "An id without its dashes, or with other separators.";
    UrlEncoding "url-encoding" "Inside of URL encoding.";
    HtmlEntities "html-entities" "Inside of text with HTML entities.";
    Base64 "base64" "Inside of base64.";
    Hex "hex" "Inside of hex.";
}

/// A set of classes; all of them by default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variations(u32);

impl Variations {
    /// All classes.
    pub const ALL: Variations = Variations((1 << Variation::ALL.len()) - 1);
    /// No class.
    pub const NONE: Variations = Variations(0);

    /// Returns whether it contains `variation`.
    pub const fn contains(self, variation: Variation) -> bool {
        self.0 & 1 << variation as u8 != 0
    }

    /// Adds a class.
    pub fn insert(&mut self, variation: Variation) {
        self.0 |= 1 << variation as u8;
    }

    /// Removes a class.
    pub fn remove(&mut self, variation: Variation) {
        self.0 &= !(1 << variation as u8);
    }

    /// Returns the union with `other`.
    #[must_use]
    pub const fn with(self, other: Variations) -> Variations {
        Variations(self.0 | other.0)
    }

    /// Returns whether it contains all of `other`.
    pub const fn holds(self, other: Variations) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the classes in their order.
    pub fn iter(self) -> impl Iterator<Item = Variation> {
        Variation::ALL
            .iter()
            .copied()
            .filter(move |variation| self.contains(*variation))
    }

    /// The encodings, which are searched for also with exact spelling.
    pub(super) const ENCODINGS: Variations = Variations(
        1 << Variation::UrlEncoding as u8
            | 1 << Variation::HtmlEntities as u8
            | 1 << Variation::Base64 as u8
            | 1 << Variation::Hex as u8,
    );

    /// Returns the intersection with `others`.
    pub(super) const fn only(self, others: Variations) -> Variations {
        Variations(self.0 & others.0)
    }
}

impl Default for Variations {
    fn default() -> Variations {
        Variations::ALL
    }
}

impl From<Variation> for Variations {
    fn from(variation: Variation) -> Variations {
        Variations(1 << variation as u8)
    }
}

impl FromIterator<Variation> for Variations {
    fn from_iter<I: IntoIterator<Item = Variation>>(classes: I) -> Variations {
        let mut all = Variations::NONE;
        classes.into_iter().for_each(|class| all.insert(class));
        all
    }
}

impl fmt::Debug for Variations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// The name of no class of variation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no class of variation; there are {names}", names = names())]
pub struct UnknownVariation(String);

fn names() -> String {
    Variation::ALL
        .iter()
        .map(|variation| variation.name())
        .collect::<Vec<_>>()
        .join(", ")
}

impl FromStr for Variation {
    type Err = UnknownVariation;

    fn from_str(name: &str) -> Result<Variation, UnknownVariation> {
        let known = Variation::ALL
            .iter()
            .find(|variation| variation.name() == name);
        known
            .copied()
            .ok_or_else(|| UnknownVariation(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_name_of_its_own_and_is_known_by_it() {
        for variation in Variation::ALL {
            assert_eq!(variation.name().parse(), Ok(*variation));
        }
        let error = "initial".parse::<Variation>().unwrap_err().to_string();
        assert!(error.contains("initials, split-blocks"), "{error}");
        assert_eq!(Variations::ALL.iter().count(), Variation::ALL.len());
    }
}
