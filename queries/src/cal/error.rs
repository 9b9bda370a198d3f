//! Errors and warnings of CAL: code, message, suggestion and position (CAL 1.0, section 22 and
//! appendix C).
//!
//! This module has the registry of codes, and the errors and warnings with their JSON form. It
//! doesn't decide what is an error.

use std::fmt;

use gristmill_schemas::json::{Json, Object};

use super::span::{Position, Span};

macro_rules! codes {
    ($($code:ident $text:literal $meaning:literal $advice:literal,)+) => {
        /// A code of the error registry. E032 to E039 and E120 are not in the registry of 1.0; they
        /// are used as both known implementations use them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $code,)+
        }

        impl Code {
            /// Every code, in ascending order.
            pub const ALL: &'static [Code] = &[$(Code::$code,)+];

            /// Returns the code in messages: `CAL-E001`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$code => $text,)+ }
            }

            /// Returns the meaning of the code in the registry.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$code => $meaning,)+ }
            }

            /// Returns the default suggestion.
            pub const fn advice(self) -> &'static str {
                match self { $(Code::$code => $advice,)+ }
            }
        }
    };
}

codes! {
    E001 "CAL-E001" "The query is too long." "Shorten the query to at most 8192 bytes, or pass \
                                              long values as parameters.",
    E002 "CAL-E002" "Unexpected token." "Check the statement against `DESCRIBE grammar`.",
    E003 "CAL-E003" "Unknown grain type." "Use one of the ten grain types, plural after RECALL and \
                                           singular elsewhere.",
    E004 "CAL-E004" "Unknown field." "Use a field that `DESCRIBE fields` lists.",
    E005 "CAL-E005" "A string has no closing quote." "Close the string with a double quote; write \
                                                      \\\" for a quote inside it.",
    E006 "CAL-E006" "Not a number that is allowed here." "Write digits with an optional fraction; \
                                                          counts are whole numbers from 1.",
    E007 "CAL-E007" "Nested too deeply." "Bind inner queries with LET.",
    E008 "CAL-E008" "A parameter has no value." "Pass a value for the parameter, or bind it with \
                                                 LET before it is used.",
    E009 "CAL-E009" "A name is bound twice." "Give every LET its own name.",
    E010 "CAL-E010" "The limit is too large." "Ask for at most 1000 grains.",
    E011 "CAL-E011" "The IN list is too long." "List at most 100 values, or use a subquery.",
    E012 "CAL-E012" "Too many pipeline stages." "Use at most 5 stages.",
    E013 "CAL-E013" "Too many set operands." "Combine at most 5 RECALLs.",
    E014 "CAL-E014" "The query is empty." "Write a statement, for example RECALL beliefs ABOUT \
                                           \"alice\".",
    E015 "CAL-E015" "Not a content address." "Write sha256: and 8 to 64 lower-case hexadecimal \
                                              digits.",
    E016 "CAL-E016" "The REASON is too long." "Use at most 500 characters.",
    E017 "CAL-E017" "The field can't be SET." "SET only fields that this statement takes; \
                                               namespace and user come from the session.",
    E018 "CAL-E018" "REASON is missing." "End the statement with REASON \"why\".",
    E019 "CAL-E019" "SUPERSEDE has no SET." "Add at least one SET field = value.",
    E020 "CAL-E020" "The types don't match." "Use an operator and a value of the field's type; see \
                                            `DESCRIBE fields`.",
    E021 "CAL-E021" "The stage doesn't fit its input." "Reorder the stages, or use a field that \
                                                        is allowed here.",
    E022 "CAL-E022" "SUBJECTS and OBJECTS need beliefs." "RECALL beliefs, or use HASHES.",
    E030 "CAL-E030" "The grain budget is exceeded." "Narrow the query.",
    E031 "CAL-E031" "The query took too long." "Narrow the query.",
    E032 "CAL-E032" "Too many sources." "ASSEMBLE from at most 8 sources.",
    E033 "CAL-E033" "The budget is too large." "Use at most 16000 tokens or 200 grains.",
    E034 "CAL-E034" "A label is used twice." "Give every source its own label.",
    E035 "CAL-E035" "PRIORITY names no source." "Use labels of the FROM clause.",
    E036 "CAL-E036" "Too many LET bindings." "Use at most 5.",
    E037 "CAL-E037" "A LET reference is not bound." "Bind the name with LET before it is used.",
    E038 "CAL-E038" "LET bindings build on one another too deeply." "Chain at most 3.",
    E039 "CAL-E039" "Too many branches." "COALESCE at most 5 RECALLs.",
    E040 "CAL-E040" "The grain is superseded already." "Find the newest version with HISTORY and \
                                                        supersede that.",
    E041 "CAL-E041" "There is no earlier version." "REVERT needs a grain that superseded another.",
    E042 "CAL-E042" "Grains of this type can't be superseded." "Only beliefs can.",
    E043 "CAL-E043" "The write quota is used up." "Wait a minute.",
    E044 "CAL-E044" "Writes are not enabled." "Start the session with writes allowed, or EXPLAIN \
                                               the statement.",
    E045 "CAL-E045" "The grain is in another namespace." "Use a session of that namespace.",
    E046 "CAL-E046" "There is no such grain." "Check the address.",
    E050 "CAL-E050" "A required field is missing." "ADD needs SET subject, SET relation and SET \
                                                    object.",
    E051 "CAL-E051" "Grains of this type can't be added." "Add a belief, an observation or a goal.",
    E052 "CAL-E052" "The ADD quota is used up." "Wait a minute.",
    E060 "CAL-E060" "An ambiguous combination, or a field of another grain type." "Use one of the \
        two, or a field of this type.",
    E061 "CAL-E061" "A field of one grain type without that type." "Name the type, for example \
        RECALL goals WHERE goal_state = \"active\".",
    E062 "CAL-E062" "Unknown action_phase." "Use definition, call, result or complete.",
    E063 "CAL-E063" "Unknown goal_state." "Use active, completed, abandoned or blocked.",
    E064 "CAL-E064" "Unknown consent_action." "Use grant or withdraw.",
    E065 "CAL-E065" "Unknown recall_priority." "Use hot, warm or cold.",
    E066 "CAL-E066" "Unknown epistemic_status." "Use certain, probable, uncertain, estimated or \
                                                 derived.",
    E070 "CAL-E070" "The query is not UTF-8." "Send the query as UTF-8.",
    E071 "CAL-E071" "A text holds characters that reverse the writing direction." "Remove the \
        characters U+202A to U+202E and U+2066 to U+2069.",
    E075 "CAL-E075" "ASSEMBLE took too long." "Use fewer or narrower sources.",
    E076 "CAL-E076" "All sources failed." "Try the sources one by one.",
    E077 "CAL-E077" "Unknown STREAM option." "Use progress, budget, chunks, all or chunk_size = n.",
    E078 "CAL-E078" "chunk_size is out of range." "Use 20 to 1000 tokens.",
    E079 "CAL-E079" "Streaming is not available." "Leave STREAM out.",
    E080 "CAL-E080" "A grain could not be formatted." "Use another format.",
    E081 "CAL-E081" "The assembly ended before the stream was resumed." "Run the statement again.",
    E082 "CAL-E082" "The assembly was cancelled." "Run the statement again.",
    E085 "CAL-E085" "There is no such template." "List templates with DESCRIBE templates.",
    E086 "CAL-E086" "The preset data can't be extended." "Extend structured, readable or compact.",
    E087 "CAL-E087" "Only presets can be extended." "Extend structured, readable or compact.",
    E088 "CAL-E088" "The template exists already." "Use another name.",
    E089 "CAL-E089" "Too many templates." "A namespace holds at most 50.",
    E090 "CAL-E090" "Unknown template variable." "Use a variable of the closed set.",
    E091 "CAL-E091" "Template sections are not balanced." "Close every {{#x}} with {{/x}}, \
                                                           innermost first.",
    E092 "CAL-E092" "The template is too large." "Use at most 4096 bytes.",
    E093 "CAL-E093" "Template sections are nested too deeply." "Nest at most 5.",
    E094 "CAL-E094" "Not a tag of the template language." "Use {{x}}, {{#x}}, {{^x}}, {{/x}}, {{! \
                                                           comment }} or {{#each}}.",
    E095 "CAL-E095" "A template section is defined twice." "Define each section once.",
    E096 "CAL-E096" "Element sections contradict one another." "Define one of them.",
    E100 "CAL-E100" "This version of CAL is not supported." "Write CAL/1.",
    E120 "CAL-E120" "Not a query in JSON form." "Send a JSON object as `--parse` prints it.",
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// An error of a query, with position and suggestion. It is one machine word, which keeps results
/// small.
#[derive(Debug, Clone, PartialEq)]
pub struct CalError(Box<Details>);

#[derive(Debug, Clone, PartialEq)]
struct Details {
    code: Code,
    message: String,
    suggestion: Option<String>,
    span: Option<Span>,
    position: Option<Position>,
    /// Keys and indexes from the root of a query in JSON form, innermost last.
    path: Vec<String>,
    expected: Vec<String>,
    example: Option<String>,
    valid_values: Vec<String>,
}

impl CalError {
    /// Returns an error with a message: a sentence that names the offending part.
    pub fn new(code: Code, message: impl Into<String>) -> CalError {
        CalError(Box::new(Details {
            code,
            message: message.into(),
            suggestion: None,
            span: None,
            position: None,
            path: Vec::new(),
            expected: Vec::new(),
            example: None,
            valid_values: Vec::new(),
        }))
    }

    /// Sets the span, unless a more precise one is set.
    pub fn at(mut self, span: Span) -> CalError {
        self.0.span.get_or_insert(span);
        self
    }

    /// Adds an enclosing key or index to the JSON pointer.
    pub(crate) fn in_member(mut self, key: impl Into<String>) -> CalError {
        self.0.path.insert(0, key.into());
        self
    }

    /// Replaces the suggestion of the code by a more precise one.
    pub fn suggest(mut self, suggestion: impl Into<String>) -> CalError {
        self.0.suggestion = Some(suggestion.into());
        self
    }

    /// Sets the tokens that are valid at the position.
    pub fn expected<T: Into<String>>(mut self, tokens: impl IntoIterator<Item = T>) -> CalError {
        self.0.expected = tokens.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an example of a valid statement.
    pub fn example(mut self, example: impl Into<String>) -> CalError {
        self.0.example = Some(example.into());
        self
    }

    /// Sets the allowed values.
    pub fn valid_values<T: Into<String>>(
        mut self,
        values: impl IntoIterator<Item = T>,
    ) -> CalError {
        self.0.valid_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// Computes line and column of the span in the query's text.
    pub fn located(mut self, text: &[u8]) -> CalError {
        self.0.position = self.0.span.map(|span| Position::of(span, text));
        self
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the suggestion, which is never empty.
    pub fn suggestion(&self) -> &str {
        self.0.suggestion.as_deref().unwrap_or(self.0.code.advice())
    }

    /// Returns the byte range in the text.
    pub fn span(&self) -> Option<Span> {
        self.0.span
    }

    /// Returns the position in lines and columns.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Returns the tokens that are valid at the position.
    pub fn expected_tokens(&self) -> &[String] {
        &self.0.expected
    }

    /// Returns the allowed values.
    pub fn allowed_values(&self) -> &[String] {
        &self.0.valid_values
    }

    /// Returns the JSON pointer in a query in JSON form; empty for queries in text form.
    pub fn pointer(&self) -> String {
        self.0
            .path
            .iter()
            .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")))
            .collect()
    }

    /// Returns the member `error` of a response: `{"code": …, "message": …, "suggestion": …, …}`.
    pub fn to_json(&self) -> Json<'static> {
        let list = |items: &[String]| Json::Array(items.iter().cloned().map(Json::from).collect());
        let mut object = Object::new();
        object.insert("code", self.code().as_str());
        object.insert("message", self.message().to_owned());
        if let Some(position) = self.position() {
            object.insert("position", position_to_json(position));
        }
        if !self.0.path.is_empty() {
            object.insert("path", self.pointer());
        }
        object.insert("suggestion", self.suggestion().to_owned());
        if !self.0.expected.is_empty() {
            object.insert("expected", list(&self.0.expected));
        }
        if let Some(example) = &self.0.example {
            object.insert("example", example.clone());
        }
        if !self.0.valid_values.is_empty() {
            object.insert("valid_values", list(&self.0.valid_values));
        }
        Json::Object(object)
    }
}

fn position_to_json(position: Position) -> Object<'static> {
    let mut object = Object::new();
    object.insert("start", position.start as u64);
    object.insert("end", position.end as u64);
    object.insert("line", position.line as u64);
    object.insert("col", position.column as u64);
    object
}

impl fmt::Display for CalError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code(), self.message())?;
        if let Some(position) = self.position() {
            write!(
                formatter,
                " (line {}, column {})",
                position.line, position.column
            )?;
        } else if !self.0.path.is_empty() {
            write!(formatter, " (at {})", self.pointer())?;
        }
        write!(formatter, " {}", self.suggestion())
    }
}

impl std::error::Error for CalError {}

/// Result of a function of CAL.
pub type Result<T> = std::result::Result<T, CalError>;

/// A code of the warning registry or, from [`WarningCode::W101`], one of this engine that the
/// registry lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WarningCode {
    /// A relation with the prefix `mg:` that is not in the vocabulary.
    W001,
    /// A field of a domain without the tag of its profile.
    W002,
    /// A prefix of none of the seven domains.
    W003,
    /// An unknown extension option.
    W004,
    /// The format was set to `toon` because the budget is tight.
    W005,
    /// An option without effect.
    W101,
    /// A source of an ASSEMBLE failed and was left out.
    W102,
    /// Reasoning that needs a human review was left out of an ASSEMBLE.
    W103,
}

impl WarningCode {
    /// Returns the code in messages: `CAL-W001`.
    pub const fn as_str(self) -> &'static str {
        match self {
            WarningCode::W001 => "CAL-W001",
            WarningCode::W002 => "CAL-W002",
            WarningCode::W003 => "CAL-W003",
            WarningCode::W004 => "CAL-W004",
            WarningCode::W005 => "CAL-W005",
            WarningCode::W101 => "CAL-W101",
            WarningCode::W102 => "CAL-W102",
            WarningCode::W103 => "CAL-W103",
        }
    }
}

/// A warning about a query that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Returns the code.
    pub code: WarningCode,
    /// The message.
    pub message: String,
    /// The position in the text.
    pub span: Option<Span>,
}

impl Warning {
    /// Returns the warning object of a response.
    pub fn to_json(&self) -> Json<'static> {
        let mut object = Object::new();
        object.insert("code", self.code.as_str());
        object.insert("message", self.message.clone());
        Json::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_name_as_spelling_and_a_suggestion() {
        for code in Code::ALL {
            assert_eq!(code.as_str(), format!("CAL-{code:?}"));
            assert!(
                code.meaning().ends_with('.') && code.advice().ends_with('.'),
                "{code}"
            );
        }
        assert!(Code::ALL.is_sorted());
    }

    #[test]
    fn an_error_object_has_code_message_suggestion_and_position() {
        let error = CalError::new(Code::E003, "Unknown grain type \"fact\".")
            .at(Span::new(7, 11))
            .suggest("Did you mean \"belief\"?")
            .valid_values(["belief"])
            .located(b"RECALL fact");
        assert_eq!(
            error.to_json().to_string(),
            r#"{"code":"CAL-E003","message":"Unknown grain type \"fact\".","position":{"start":7,"end":11,"line":1,"col":8},"suggestion":"Did you mean \"belief\"?","valid_values":["belief"]}"#
        );
        assert_eq!(
            error.to_string(),
            "CAL-E003: Unknown grain type \"fact\". (line 1, column 8) Did you mean \"belief\"?"
        );
    }

    #[test]
    fn a_position_in_json_is_a_pointer() {
        let error = CalError::new(Code::E020, "No.")
            .in_member("value")
            .in_member("0")
            .in_member("a/b");
        assert_eq!(error.pointer(), "/a~1b/0/value");
    }
}
