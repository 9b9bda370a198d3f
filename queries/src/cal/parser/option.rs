//! WITH.

use super::Parser;
use crate::cal::ast::{Consistency, Diversity, Field, Value, WithOption};
use crate::cal::check;
use crate::cal::error::{Result, WarningCode};
use crate::cal::grain_type::GrainType;
use crate::cal::lexer::{Symbol, TokenKind};
use crate::cal::number::Number;
use crate::cal::suggest::nearest;
use crate::cal::vocabulary::{DisclosureLevel, OptionName};

impl Parser<'_> {
    /// Parses the options after WITH.
    pub(super) fn options(&mut self, grain_type: Option<GrainType>) -> Result<Vec<WithOption>> {
        self.open_list(|parser| parser.option(grain_type))
    }

    fn option(&mut self, grain_type: Option<GrainType>) -> Result<WithOption> {
        let TokenKind::Word { text, .. } = self.peek()?.kind else {
            return Err(self.unexpected(["an option"]));
        };
        let lower = text.to_ascii_lowercase();
        if lower.len() > 2 && lower.starts_with("x_") {
            return self.extension(lower);
        }
        let Some(name) = OptionName::from_name(text) else {
            let error = self
                .unexpected(["an option"])
                .valid_values(OptionName::NAMES.iter().copied());
            return Err(match nearest(text, OptionName::NAMES.iter().copied()) {
                Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
                None => error.suggest("Options of other engines begin with x_."),
            });
        };
        self.take()?;
        self.option_body(name, grain_type)
    }

    fn option_body(
        &mut self,
        name: OptionName,
        grain_type: Option<GrainType>,
    ) -> Result<WithOption> {
        Ok(match name {
            OptionName::Superseded => WithOption::Superseded,
            OptionName::ScoreBreakdown => WithOption::ScoreBreakdown,
            OptionName::Explanation => WithOption::Explanation,
            OptionName::Provenance => WithOption::Provenance,
            OptionName::ContradictionDetection => WithOption::ContradictionDetection,
            OptionName::Summarize => WithOption::Summarize,
            OptionName::IsoTimestamps => WithOption::IsoTimestamps,
            OptionName::ProgressiveDisclosure => match self.next_is(Symbol::OpenParen)? {
                true => WithOption::ProgressiveDisclosure(Some(self.arguments(Self::level)?)),
                false => WithOption::ProgressiveDisclosure(None),
            },
            OptionName::Diversity => WithOption::Diversity(self.arguments(Self::diversity)?),
            OptionName::Consistency => WithOption::Consistency(self.arguments(Self::consistency)?),
            OptionName::Dedup => {
                WithOption::Dedup(self.arguments(|parser| parser.dedup_field(grain_type))?)
            }
            OptionName::Locale => WithOption::Locale(self.arguments(Self::text)?.0),
            OptionName::Cache => WithOption::Cache(self.arguments(|parser| {
                parser.setting("ttl")?;
                Ok(parser.positive()?.0)
            })?),
        })
    }

    fn arguments<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.require(Symbol::OpenParen)?;
        let arguments = read(self)?;
        self.require(Symbol::CloseParen)?;
        Ok(arguments)
    }

    /// Takes `name =`.
    pub(super) fn setting(&mut self, name: &str) -> Result<()> {
        match self.peek()?.kind {
            TokenKind::Word { text, .. } if text.eq_ignore_ascii_case(name) => self.take()?,
            _ => return Err(self.unexpected([name])),
        };
        self.require(Symbol::Equal)?;
        Ok(())
    }

    fn dedup_field(&mut self, grain_type: Option<GrainType>) -> Result<Field> {
        Ok(self.field(grain_type)?.0)
    }

    fn level(&mut self) -> Result<DisclosureLevel> {
        let level = match self.peek()?.kind {
            TokenKind::Word { text, .. } => DisclosureLevel::from_name(text),
            _ => None,
        };
        match level {
            Some(level) => {
                self.take()?;
                Ok(level)
            }
            None => Err(self.unexpected(DisclosureLevel::NAMES.iter().copied())),
        }
    }

    fn diversity(&mut self) -> Result<Diversity> {
        match self.chosen(&["mmr", "threshold"])? {
            0 => {
                let lambda = match self.accept(Symbol::Comma)? {
                    true => {
                        self.setting("lambda")?;
                        Some(self.number()?.0)
                    }
                    false => None,
                };
                Ok(Diversity::Mmr(lambda))
            }
            _ => {
                self.require(Symbol::Comma)?;
                Ok(Diversity::Threshold(self.number()?.0))
            }
        }
    }

    fn consistency(&mut self) -> Result<Consistency> {
        match self.chosen(&["eventual", "linearizable", "bounded"])? {
            0 => Ok(Consistency::Eventual),
            1 => Ok(Consistency::Linearizable),
            _ => {
                let bound: Number = self.arguments(|parser| Ok(parser.number()?.0))?;
                Ok(Consistency::Bounded(bound))
            }
        }
    }

    /// Takes one of `words`, and returns its index.
    fn chosen(&mut self, words: &[&str]) -> Result<usize> {
        let found = match self.peek()?.kind {
            TokenKind::Word { text, .. } => words
                .iter()
                .position(|word| word.eq_ignore_ascii_case(text)),
            _ => None,
        };
        match found {
            Some(at) => {
                self.take()?;
                Ok(at)
            }
            None => Err(self.unexpected(words.iter().copied())),
        }
    }

    fn extension(&mut self, name: String) -> Result<WithOption> {
        let span = self.take()?.span;
        let values: Vec<Value> = match self.next_is(Symbol::OpenParen)? {
            true => self.arguments(|parser| parser.list(|parser| Ok(parser.value()?.0)))?,
            false => Vec::new(),
        };
        let message = format!(
            "The option \"{}\" is unknown here and ignored.",
            name.chars().take(64).collect::<String>()
        );
        self.checker.warn(WarningCode::W004, message, span);
        check::name(&name, span)?;
        Ok(WithOption::Extension(name, values))
    }
}
