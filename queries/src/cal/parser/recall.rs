//! RECALL and its clauses, which may be in any order, each at most once.

use super::{Parser, STRING};
use crate::cal::ast::{NamespaceScope, Recall, Thread, Value};
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::grain_type::{GrainType, NameForm, TypeName};
use crate::cal::keywords::Keyword;
use crate::cal::lexer::{Symbol, TokenKind};
use crate::cal::span::Span;
use crate::cal::vocabulary::{Format, Preset};

impl Parser<'_> {
    /// Parses a RECALL.
    pub(super) fn recall(&mut self) -> Result<Recall> {
        let start = self.require_keyword(Keyword::Recall)?;
        let my = self.accept_keyword(Keyword::My)?;
        let grain_type = self.plural()?;
        let mut recall = Recall {
            my,
            grain_type,
            ..Recall::default()
        };
        let mut seen = Vec::new();
        while self.clause(&mut recall, &mut seen)? {}
        recall.span = self.since(start);
        check::recall::whole_statement(&mut self.checker, &recall)?;
        Ok(recall)
    }

    /// Parses the type after RECALL, if there is one.
    fn plural(&mut self) -> Result<Option<GrainType>> {
        let aliases = self.checker.options.aliases;
        let token = self.peek()?;
        let TokenKind::Word { text, keyword } = token.kind else {
            return Ok(None);
        };
        let span = token.span;
        if keyword.is_some() {
            // A clause or an error, because no type has the name of a keyword.
            return Ok(None);
        }
        let grain_type =
            GrainType::parse(text, NameForm::Plural, aliases).map_err(|error| error.at(span))?;
        self.take()?;
        Ok(Some(grain_type))
    }

    /// Parses a stage and adds it to `recall`.
    fn add_stage(&mut self, recall: &mut Recall) -> Result<()> {
        let stage = self.stage(&recall.stages, recall.grain_type)?;
        recall.stages.push(stage);
        Ok(())
    }

    /// Parses one clause. Returns false if the next token begins none.
    fn clause(&mut self, recall: &mut Recall, seen: &mut Vec<Keyword>) -> Result<bool> {
        if self.next_is(Symbol::Bar)? {
            self.take()?;
            self.add_stage(recall)?;
            return Ok(true);
        }
        let Some(keyword) = self
            .next_keyword()?
            .filter(|keyword| keyword.begins_clause())
        else {
            return Ok(false);
        };
        if keyword.begins_stage() {
            self.add_stage(recall)?;
            return Ok(true);
        }
        let start = self.here();
        if keyword != Keyword::With && seen.contains(&keyword) {
            return Err(repeated(keyword, start));
        }
        seen.push(keyword);
        self.take()?;
        self.clause_body(keyword, start, recall)?;
        Ok(keyword != Keyword::As)
    }

    fn clause_body(&mut self, keyword: Keyword, start: Span, recall: &mut Recall) -> Result<()> {
        match keyword {
            Keyword::In => recall.namespace = Some(self.namespace()?),
            Keyword::About => recall.about = Some(self.text()?.0),
            Keyword::Like => recall.like = Some(self.text()?.0),
            Keyword::Since => recall.since = Some(self.since_text()?),
            Keyword::Between => recall.between = Some(self.between()?),
            Keyword::Thread => {
                recall.thread = Some(self.thread()?);
                check::recall::thread(recall.grain_type, self.since(start))?;
            }
            Keyword::Where => recall.conditions = self.conditions(recall.grain_type)?,
            Keyword::With => recall.options.extend(self.options(recall.grain_type)?),
            Keyword::Recent => {
                let (count, span) = self.positive()?;
                recall.recent = Some(check::limit(count, "RECENT", span)?);
            }
            Keyword::Contradictions => recall.contradictions = true,
            _ => recall.format = Some(self.recall_format()?),
        }
        Ok(())
    }

    /// Parses the namespace after IN.
    pub(super) fn namespace(&mut self) -> Result<NamespaceScope> {
        let below = self.accept_keyword(Keyword::Scope)?;
        let (name, _) = self.text()?;
        Ok(if below {
            NamespaceScope::Below(name)
        } else {
            NamespaceScope::Exactly(name)
        })
    }

    fn since_text(&mut self) -> Result<String> {
        let (text, span) = self.text()?;
        let value = Value::Text(text);
        check::condition::time("SINCE", &value, span)?;
        Ok(value.as_text().unwrap_or_default().to_owned())
    }

    fn between(&mut self) -> Result<(Value, Value)> {
        let low = self.time_value()?;
        self.require_keyword(Keyword::And)?;
        Ok((low, self.time_value()?))
    }

    fn time_value(&mut self) -> Result<Value> {
        let (value, span) = self.value()?;
        check::condition::time("BETWEEN", &value, span)?;
        Ok(value)
    }

    fn thread(&mut self) -> Result<Thread> {
        if self.accept_keyword(Keyword::From)? {
            return self.address().map(Thread::From);
        }
        match self.peek()?.kind {
            TokenKind::Text(_) => Ok(Thread::Session(self.text()?.0)),
            _ => Err(self.unexpected([STRING, "FROM"])),
        }
    }

    fn recall_format(&mut self) -> Result<Format> {
        let TokenKind::Word { text, .. } = self.peek()?.kind else {
            return Err(self.unexpected(["a format"]));
        };
        if let Some(format) = Format::from_name(text) {
            self.take()?;
            return Ok(format);
        }
        let error = self
            .unexpected(["a format"])
            .valid_values(Format::NAMES.iter().copied());
        Err(match Preset::from_name(text) {
            Some(preset) => error.suggest(format!(
                "Presets belong to FORMAT; write AS {}.",
                preset.format()
            )),
            None => error.suggest(format!("Use one of {}.", Format::NAMES.join(", "))),
        })
    }
}

fn repeated(keyword: Keyword, span: Span) -> CalError {
    CalError::new(Code::E002, format!("{} is used twice.", keyword.name()))
        .at(span)
        .suggest("Write each clause once.")
}
