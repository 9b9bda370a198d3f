//! Random statements in CAL: queries of every form, EXPLAIN of them, and some that aren't valid.

use super::catalog::Catalog;
use super::dice::Dice;
use super::lakes::{OBJECTS, RELATIONS, SUBJECTS};

/// Generates statements.
pub(super) struct CalGenerator<'c> {
    catalog: &'c Catalog,
    dice: Dice,
}

impl<'c> CalGenerator<'c> {
    pub(super) fn new(catalog: &'c Catalog, dice: Dice) -> CalGenerator<'c> {
        CalGenerator { catalog, dice }
    }

    /// Returns the next statement.
    pub(super) fn statement(&mut self) -> String {
        let statement = match self.dice.below(20) {
            0..9 => self.query(),
            9 => self.assembled(),
            10 => format!("COALESCE({}, {})", self.recall(), self.recall()),
            11 => {
                let operator = self.dice.word(&["UNION", "INTERSECT", "EXCEPT"]);
                format!("({}) {operator} ({})", self.recall(), self.recall())
            }
            12 => self.history(),
            13 => self.of_address(),
            14 => self.bound(),
            15 => format!("BATCH {{ a: {}, b: {} }}", self.query(), self.history()),
            16 => self.description(),
            17 => self.written(),
            18 => self.cut_short(),
            _ => self.query(),
        };
        match self.dice.one_in(8) && !statement.starts_with("LET") {
            true => format!("EXPLAIN {statement}"),
            false => statement,
        }
    }

    fn subject(&mut self) -> &'static str {
        match self.dice.one_in(8) {
            true => "nobody",
            false => self.dice.word(&SUBJECTS),
        }
    }

    /// Returns words that are searched for.
    fn words(&mut self) -> &'static str {
        self.dice.word(&[
            "tea",
            "green tea",
            "foreign",
            "own",
            "coffee",
            "talk",
            "rain Oslo",
            "drink tea",
            "nothing",
            "bob",
        ])
    }

    /// Returns an address, or the beginning of one.
    fn target(&mut self) -> String {
        let address = self.catalog.address(&mut self.dice);
        let length = *self.dice.pick(&[64, 64, 64, 10, 8]);
        format!("sha256:{}", &address[..length])
    }

    /// Returns a RECALL with stages.
    fn query(&mut self) -> String {
        let recall = self.recall();
        let stages = [
            " | COUNT",
            " | FIRST",
            " | LIMIT 3",
            " | ORDER BY time DESC | LIMIT 5",
            " | ORDER BY confidence DESC | OFFSET 2 | LIMIT 4",
            " | OFFSET 3",
            " | SUBJECTS",
            " | OBJECTS",
            " | HASHES",
            " | GROUP BY subject",
            " | GROUP BY type",
            " | SELECT subject, object, time",
            " | HASHES | COUNT",
            " | SUBJECTS | LIMIT 2",
        ];
        let options = [
            " AS markdown",
            " AS json",
            " AS text",
            " RECENT 3",
            " LIMIT 50",
        ];
        match self.dice.below(3) {
            0 => recall,
            1 => format!("{recall}{}", self.dice.word(&options)),
            _ => format!("{recall}{}", self.dice.word(&stages)),
        }
    }

    /// Returns a RECALL of grains.
    fn recall(&mut self) -> String {
        let mut text = format!("RECALL{}", self.dice.rarely(&[" MY"]));
        let types = [
            "",
            " beliefs",
            " beliefs",
            " events",
            " goals",
            " actions",
            " observations",
            " reasonings",
            " consents",
            " workflows",
        ];
        text += self.dice.word(&types);
        match self.dice.below(6) {
            0 => text += &format!(" ABOUT \"{}\"", self.subject()),
            1 | 2 => text += &format!(" LIKE \"{}\"", self.words()),
            _ => {}
        }
        let count = self.dice.below(3);
        let conditions: Vec<String> = (0..count).map(|_| self.condition()).collect();
        if !conditions.is_empty() {
            let operator = self.dice.word(&[" AND ", " AND ", " OR "]);
            text += &format!(" WHERE {}", conditions.join(operator));
        }
        text += self.dice.rarely(&[
            " IN \"foreign\"",
            " IN SCOPE \"foreign\"",
            " IN SCOPE \"own\"",
            " SINCE \"2026-01-01\"",
            " SINCE \"2026-06-01\"",
            " THREAD \"s-1\"",
            " CONTRADICTIONS",
        ]);
        text += self.dice.rarely(&[
            " WITH superseded",
            " WITH superseded, provenance, explanation",
            " WITH score_breakdown",
            " WITH diversity(mmr)",
            " WITH contradiction_detection",
        ]);
        text
    }

    fn condition(&mut self) -> String {
        let operator = self.dice.word(&["=", "!="]);
        let relation = self.dice.word(&RELATIONS);
        let object = self.dice.word(&OBJECTS);
        match self.dice.below(16) {
            0 | 1 => format!("subject {operator} \"{}\"", self.subject()),
            2 => format!(
                "subject IN (\"{}\", \"{}\")",
                self.subject(),
                self.subject()
            ),
            3 => format!("relation {operator} \"{relation}\""),
            4 => "relation IS PREFERENCE".to_owned(),
            5 => format!("object {operator} \"{object}\""),
            6 => format!(
                "object = \"{object} {} 2\"",
                self.dice.word(&["own", "foreign"])
            ),
            7 => format!("confidence {} 0.5", self.dice.word(&[">=", "<", ">"])),
            8 => format!(
                "tags INCLUDE [\"{}\"]",
                self.dice.word(&["t-1", "ui", "none"])
            ),
            9 => format!("namespace {operator} \"foreign\""),
            10 => format!("user_id = \"u-{}\"", self.dice.below(5)),
            11 => format!("query = \"{}\"", self.words()),
            12 => format!("score > 0.{}", self.dice.below(10)),
            13 => format!("hash = {}", self.target()),
            14 => {
                let inner = format!("RECALL beliefs LIKE \"{}\"", self.words());
                format!("subject IN ({inner} | SUBJECTS)")
            }
            _ => "time BETWEEN \"2026-01-01T00:00:20Z\" AND \"2026-01-01T00:01:00Z\"".to_owned(),
        }
    }

    fn assembled(&mut self) -> String {
        let budget = 50 + 50 * self.dice.below(8);
        let format = self
            .dice
            .word(&["text", "markdown", "json", "toon", "readable"]);
        let (one, two) = (self.recall(), self.recall());
        let sources = match self.dice.one_in(2) {
            true => format!("a: ({one})"),
            false => format!("a: ({one}), b: ({two})"),
        };
        let options = self
            .dice
            .rarely(&[" WITH superseded", " WITH iso_timestamps"]);
        format!("ASSEMBLE c FROM {sources} BUDGET {budget} tokens FORMAT {format}{options}")
    }

    fn history(&mut self) -> String {
        let relation = self.dice.word(&RELATIONS);
        format!(
            "HISTORY WHERE subject = \"{}\" AND relation = \"{relation}\"",
            self.subject()
        )
    }

    fn of_address(&mut self) -> String {
        let (one, two) = (self.target(), self.target());
        match self.dice.below(5) {
            0 => format!("EXISTS {one}"),
            1 => format!("HISTORY {one}"),
            2 => format!("HISTORY {one} DIFF {two}"),
            3 => format!("RECALL WHERE hash = {one} WITH superseded, provenance"),
            _ => format!("RECALL events THREAD FROM {one}"),
        }
    }

    fn bound(&mut self) -> String {
        let (first, second) = (self.recall(), self.condition());
        format!("LET $s = {first} | SUBJECTS; RECALL beliefs WHERE subject IN ($s) AND {second}")
    }

    fn description(&mut self) -> String {
        let what = ["grain_types", "fields belief", "capabilities", "grammar"];
        format!("DESCRIBE {}", self.dice.word(&what))
    }

    /// Returns a statement that the session may not run, or only explain.
    fn written(&mut self) -> String {
        let target = self.target();
        match self.dice.below(3) {
            0 => format!("SUPERSEDE {target} SET object = \"o\" REASON \"r\""),
            1 => format!("REVERT {target} REASON \"r\""),
            _ => "ADD belief SET subject = \"a\" SET relation = \"b\" SET object = \"c\" \
                  REASON \"d\""
                .to_owned(),
        }
    }

    /// Returns the beginning of a statement.
    fn cut_short(&mut self) -> String {
        let statement = self.query();
        let end = self.dice.below(statement.len());
        // Statements are ASCII.
        statement.get(..end).unwrap_or_default().to_owned()
    }
}
