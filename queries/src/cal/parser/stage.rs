//! The pipeline.

use super::Parser;
use crate::cal::ast::{Field, Offset, ProjectField, Projection, Recall, Stage, StageKind};
use crate::cal::check;
use crate::cal::error::Result;
use crate::cal::grain_type::GrainType;
use crate::cal::keywords::Keyword;
use crate::cal::lexer::{Symbol, Token, TokenKind};
use crate::cal::vocabulary::{Direction, Extractor};

/// The keywords that begin a stage, for messages.
pub(super) const STAGES: [&str; 11] = [
    "SELECT", "ORDER BY", "LIMIT", "OFFSET", "COUNT", "FIRST", "SUBJECTS", "OBJECTS", "HASHES",
    "GROUP BY", "PROJECT",
];

impl Parser<'_> {
    /// Parses a stage from its keyword on, and checks it against the stages before it.
    pub(super) fn stage(
        &mut self,
        before: &[Stage],
        grain_type: Option<GrainType>,
    ) -> Result<Stage> {
        let start = self.here();
        let kind = self.stage_kind(grain_type)?;
        let stage = Stage {
            kind,
            span: self.since(start),
        };
        check::pipeline::stage(before, &stage, grain_type)?;
        Ok(stage)
    }

    fn stage_kind(&mut self, grain_type: Option<GrainType>) -> Result<StageKind> {
        let keyword = self
            .next_keyword()?
            .filter(|keyword| keyword.begins_stage());
        let Some(keyword) = keyword else {
            return Err(self.unexpected(STAGES));
        };
        self.take()?;
        match keyword {
            Keyword::Select => self
                .open_list(|parser| parser.stage_field(grain_type))
                .map(StageKind::Select),
            Keyword::Order => self.order(grain_type),
            Keyword::Group => {
                self.require_keyword(Keyword::By)?;
                self.stage_field(grain_type).map(StageKind::GroupBy)
            }
            Keyword::Limit => {
                let (count, span) = self.positive()?;
                check::limit(count, "LIMIT", span).map(StageKind::Limit)
            }
            Keyword::Offset => self.offset().map(StageKind::Offset),
            Keyword::Count => Ok(StageKind::Count),
            Keyword::First => Ok(StageKind::First),
            Keyword::Subjects => Ok(StageKind::Extract(Extractor::Subjects)),
            Keyword::Objects => Ok(StageKind::Extract(Extractor::Objects)),
            Keyword::Hashes => Ok(StageKind::Extract(Extractor::Hashes)),
            _ => self.projection(grain_type).map(StageKind::Project),
        }
    }

    fn stage_field(&mut self, grain_type: Option<GrainType>) -> Result<Field> {
        Ok(self.field(grain_type)?.0)
    }

    fn order(&mut self, grain_type: Option<GrainType>) -> Result<StageKind> {
        self.require_keyword(Keyword::By)?;
        let field = self.stage_field(grain_type)?;
        let direction = match self.next_keyword()? {
            Some(Keyword::Asc) => Some(Direction::Ascending),
            Some(Keyword::Desc) => Some(Direction::Descending),
            _ => None,
        };
        if direction.is_some() {
            self.take()?;
        }
        Ok(StageKind::OrderBy(
            field,
            direction.unwrap_or(Direction::Ascending),
        ))
    }

    fn offset(&mut self) -> Result<Offset> {
        match self.peek()?.kind {
            TokenKind::Parameter(_) => self.parameter().map(Offset::Parameter),
            TokenKind::Number(_) => {
                let (number, span) = self.number()?;
                check::offset(&number, span).map(Offset::Count)
            }
            _ => Err(self.unexpected(["a number", "a parameter"])),
        }
    }

    fn projection(&mut self, grain_type: Option<GrainType>) -> Result<Projection> {
        let mut projection = Projection::default();
        self.projection_part(&mut projection, grain_type)?;
        while self.next_is(Symbol::Comma)? && self.projection_continues()? {
            self.take()?;
            self.projection_part(&mut projection, grain_type)?;
        }
        Ok(projection)
    }

    /// Returns true if `content(` or `attr(` follows the comma.
    fn projection_continues(&mut self) -> Result<bool> {
        let [word, paren] = self.peek_after()?;
        let part = word
            .as_ref()
            .is_some_and(|token| is_word(token, "content") || is_word(token, "attr"));
        Ok(part && paren.is_some_and(|token| token.is(Symbol::OpenParen)))
    }

    fn projection_part(
        &mut self,
        projection: &mut Projection,
        grain_type: Option<GrainType>,
    ) -> Result<()> {
        let token = self.peek()?;
        let into_content = is_word(token, "content");
        if !into_content && !is_word(token, "attr") {
            return Err(self.unexpected(["content(…)", "attr(…)"]));
        }
        self.take()?;
        self.require(Symbol::OpenParen)?;
        let fields = self.list(|parser| parser.projected(grain_type))?;
        self.require(Symbol::CloseParen)?;
        let part = if into_content {
            &mut projection.content
        } else {
            &mut projection.attributes
        };
        part.extend(fields);
        Ok(())
    }

    fn projected(&mut self, grain_type: Option<GrainType>) -> Result<ProjectField> {
        let (name, span) = self.field_word()?;
        match self.domain_rest(name, span)? {
            Some((field, _)) => Ok(ProjectField::Field(field)),
            None => check::field::projected(name, grain_type, span),
        }
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token.kind, TokenKind::Word { text, .. } if text.eq_ignore_ascii_case(word))
}

/// Removes the extractor from the end of the pipeline, if there is one.
pub(super) fn take_extractor(recall: &mut Recall) -> Option<Extractor> {
    match recall.stages.last()?.kind {
        StageKind::Extract(extractor) => {
            recall.stages.pop();
            Some(extractor)
        }
        _ => None,
    }
}
