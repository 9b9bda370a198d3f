//! The templates of a namespace: names, and how many there may be (CAL 1.0, section 10.8).

use std::collections::BTreeMap;

use crate::cal::ast::TemplateDefinition;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::limits;
use crate::cal::suggest::nearest;

/// Templates by name, in memory. A definition prints as the statement that defined it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Registry(BTreeMap<String, TemplateDefinition>);

impl Registry {
    /// Returns an empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a template.
    ///
    /// # Errors
    /// E088 if the name is taken, E089 if the namespace is full.
    pub fn define(&mut self, definition: TemplateDefinition) -> Result<()> {
        let name = definition.name.clone();
        if self.0.contains_key(&name) {
            return Err(CalError::new(
                Code::E088,
                format!("There is a template \"{name}\" already."),
            )
            .at(definition.span));
        }
        if self.0.len() >= limits::MAX_TEMPLATES_PER_NAMESPACE {
            let message = format!("The namespace has {} templates.", self.0.len());
            return Err(CalError::new(Code::E089, message).at(definition.span));
        }
        self.0.insert(name, definition);
        Ok(())
    }

    /// Returns the template with this name.
    ///
    /// # Errors
    /// E085 if there is none.
    pub fn get(&self, name: &str) -> Result<&TemplateDefinition> {
        self.0.get(name).ok_or_else(|| {
            let error = CalError::new(Code::E085, format!("There is no template \"{name}\"."))
                .valid_values(self.names());
            match nearest(name, self.names()) {
                Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
                None => error,
            }
        })
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns all templates, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &TemplateDefinition> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cal::{Options, Statement, parse};

    fn definition(name: &str) -> TemplateDefinition {
        let text = format!("DEFINE TEMPLATE {name} ELEMENT {{ x }}");
        match parse(&text, Options::default()).unwrap().query.statement {
            Statement::DefineTemplate(definition) => definition,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn names_are_unique_and_the_number_of_templates_is_limited() {
        let mut registry = Registry::new();
        for at in 0..50 {
            registry.define(definition(&format!("brief{at}"))).unwrap();
        }
        assert_eq!(
            registry.define(definition("brief7")).unwrap_err().code(),
            Code::E088
        );
        assert_eq!(
            registry.define(definition("more")).unwrap_err().code(),
            Code::E089
        );
        assert_eq!(registry.get("brief7").unwrap().name, "brief7");
        let error = registry.get("breif7").unwrap_err();
        assert_eq!(
            (error.code(), error.suggestion()),
            (Code::E085, "Did you mean \"brief7\"?")
        );
        assert_eq!(registry.iter().count(), 50);
    }
}
