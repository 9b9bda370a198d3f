//! Keywords, and words that are excluded from the language.
//!
//! Keywords are contextual. The specification bans them as names, but its own examples use
//! `history:` and `recent:` as labels, so any word except an excluded one is accepted as a name.

macro_rules! keywords {
    ($($keyword:ident $text:literal)+) => {
        /// A keyword of CAL 1.0.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Keyword { $($keyword,)+ }

        impl Keyword {
            /// Every keyword.
            pub const ALL: &'static [Keyword] = &[$(Keyword::$keyword,)+];

            /// Returns the canonical spelling, in upper case.
            pub const fn name(self) -> &'static str {
                match self { $(Keyword::$keyword => $text,)+ }
            }

            /// Returns the keyword with this spelling, case-insensitively.
            pub fn from_name(word: &str) -> Option<Keyword> {
                let mut upper = [0u8; LONGEST_KEYWORD];
                let upper = upper.get_mut(..word.len())?;
                upper.copy_from_slice(word.as_bytes());
                upper.make_ascii_uppercase();
                match std::str::from_utf8(upper).ok()? {
                    $($text => Some(Keyword::$keyword),)+
                    _ => None,
                }
            }
        }
    };
}

const LONGEST_KEYWORD: usize = 15;

keywords! {
    Recall "RECALL" Assemble "ASSEMBLE" Exists "EXISTS" History "HISTORY" Explain "EXPLAIN" Describe "DESCRIBE"
    Batch "BATCH" Coalesce "COALESCE" Let "LET" Define "DEFINE" Add "ADD" Supersede "SUPERSEDE" Revert "REVERT"
    Where "WHERE" And "AND" Or "OR" Not "NOT" In "IN" Scope "SCOPE" Between "BETWEEN" Include "INCLUDE" Exclude "EXCLUDE"
    Is "IS" Null "NULL" True "TRUE" False "FALSE"
    About "ABOUT" Like "LIKE" Since "SINCE" Thread "THREAD" With "WITH" Recent "RECENT" My "MY"
    Contradictions "CONTRADICTIONS" As "AS" Of "OF" Diff "DIFF"
    Select "SELECT" Order "ORDER" By "BY" Asc "ASC" Desc "DESC" Limit "LIMIT" Offset "OFFSET" Count "COUNT" First "FIRST"
    Group "GROUP" Subjects "SUBJECTS" Objects "OBJECTS" Hashes "HASHES" Project "PROJECT"
    For "FOR" From "FROM" Budget "BUDGET" Priority "PRIORITY" Format "FORMAT" Stream "STREAM" Template "TEMPLATE"
    Extends "EXTENDS" Header "HEADER" Element "ELEMENT" ElementSummary "ELEMENT_SUMMARY" ElementOmit "ELEMENT_OMIT"
    SourceBreak "SOURCE_BREAK" Footer "FOOTER"
    Union "UNION" Intersect "INTERSECT" Except "EXCEPT"
    Set "SET" Reason "REASON" Cal "CAL"
}

impl Keyword {
    /// Returns true for keywords that begin a pipeline stage.
    pub const fn begins_stage(self) -> bool {
        use Keyword::*;
        matches!(
            self,
            Select
                | Order
                | Limit
                | Offset
                | Count
                | First
                | Subjects
                | Objects
                | Hashes
                | Group
                | Project
        )
    }

    /// Returns true for keywords that begin a clause or a stage of RECALL.
    pub const fn begins_clause(self) -> bool {
        use Keyword::*;
        self.begins_stage()
            || matches!(
                self,
                In | About
                    | Like
                    | Since
                    | Between
                    | Thread
                    | Where
                    | With
                    | Recent
                    | Contradictions
                    | As
            )
    }

    /// Returns true for keywords that begin a statement.
    pub const fn begins_statement(self) -> bool {
        use Keyword::*;
        matches!(
            self,
            Recall
                | Assemble
                | Exists
                | History
                | Explain
                | Describe
                | Batch
                | Coalesce
                | Define
                | Add
                | Supersede
                | Revert
        )
    }
}

/// Words that are errors everywhere except in template text (CAL 1.0, section 2.4). They have no
/// keyword, no production and no syntax tree. `CONSENT` is excluded as a name only, because it is a
/// grain type.
pub const EXCLUDED_WORDS: &[&str] = &[
    "DELETE",
    "DROP",
    "FORGET",
    "ERASE",
    "DESTROY",
    "PURGE",
    "TRUNCATE",
    "INSERT",
    "CREATE",
    "WRITE",
    "STORE",
    "KEY",
    "ENCRYPT",
    "DECRYPT",
    "ROTATE",
    "MASTER",
    "DEK",
    "SECRET",
    "POLICY",
    "SEAL",
    "UNSEAL",
    "GRANT",
    "REVOKE",
    "CONSENT",
    "RESTRICT",
    "SCHEMA",
    "PARTITION",
    "INDEX",
    "MIGRATION",
];

/// Returns true for [`EXCLUDED_WORDS`], case-insensitively.
pub fn is_excluded(word: &str) -> bool {
    EXCLUDED_WORDS
        .iter()
        .any(|excluded| excluded.eq_ignore_ascii_case(word))
}

/// Returns true for an ASCII letter followed by letters, digits and underscores.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_case_insensitive_and_none_is_excluded() {
        for keyword in Keyword::ALL {
            assert_eq!(Keyword::from_name(keyword.name()), Some(*keyword));
            assert_eq!(
                Keyword::from_name(&keyword.name().to_lowercase()),
                Some(*keyword)
            );
            assert!(!is_excluded(keyword.name()), "{keyword:?}");
        }
        let longest = Keyword::ALL
            .iter()
            .map(|keyword| keyword.name().len())
            .max();
        assert_eq!(longest, Some(LONGEST_KEYWORD));
        assert_eq!(Keyword::from_name("RECALLS"), None);
        assert_eq!(Keyword::from_name(&"R".repeat(100)), None);
    }
}
