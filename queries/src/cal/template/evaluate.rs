//! Renders the nodes of a template with the values of variables.

use super::{Node, Variable};
use crate::cal::limits;

/// The values of the variables of a template.
pub trait TemplateScope {
    /// Returns the value of a variable; `None` if it has none, which prints nothing.
    fn value(&self, variable: Variable) -> Option<String>;

    /// Returns the number of grains of `{{#each}}`.
    fn grains(&self) -> usize;

    /// Returns the same scope with the grain at `index` as the current grain.
    fn with_grain(&self, index: usize) -> Box<dyn TemplateScope + '_>;
}

/// Text of limited length, made in a limited number of steps.
#[derive(Debug)]
pub struct BoundedOutput {
    text: String,
    characters_left: usize,
    steps_left: usize,
    truncated: bool,
}

impl BoundedOutput {
    /// Returns an empty output of at most `characters`.
    pub fn new(characters: usize) -> BoundedOutput {
        BoundedOutput {
            text: String::new(),
            characters_left: characters,
            steps_left: limits::MAX_TEMPLATE_STEPS,
            truncated: false,
        }
    }

    /// Appends as much of `text` as fits.
    pub fn push(&mut self, text: &str) {
        let mut characters = text.char_indices();
        let end = characters
            .by_ref()
            .nth(self.characters_left)
            .map_or(text.len(), |(at, _)| at);
        if end == text.len() {
            self.characters_left -= text.chars().count();
        } else {
            self.characters_left = 0;
            self.truncated = true;
        }
        self.text.push_str(&text[..end]);
    }

    /// Returns true if something was cut, by length or by the number of steps.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the text so far.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.text
    }

    /// Counts a step. Returns false if the maximum is reached.
    fn step(&mut self) -> bool {
        match self.steps_left.checked_sub(1) {
            Some(left) if !self.truncated => {
                self.steps_left = left;
                true
            }
            _ => {
                self.truncated = true;
                false
            }
        }
    }
}

/// Appends the rendering of `nodes` in `scope`. [`limits::MAX_TEMPLATE_STEPS`] bounds the steps of
/// an output, whatever the nesting of `{{#each}}`; [`limits::MAX_TEMPLATE_DEPTH`] bounds the
/// recursion, which the parser checks.
pub fn evaluate(nodes: &[Node], scope: &dyn TemplateScope, output: &mut BoundedOutput) {
    for node in nodes {
        if !output.step() {
            return;
        }
        match node {
            Node::Text(text) => output.push(text),
            Node::Value(variable) => output.push(&scope.value(*variable).unwrap_or_default()),
            Node::If(variable, inner) if is_truthy(scope, *variable) => {
                evaluate(inner, scope, output)
            }
            Node::Unless(variable, inner) if !is_truthy(scope, *variable) => {
                evaluate(inner, scope, output)
            }
            Node::If(..) | Node::Unless(..) => {}
            Node::Each(inner) => evaluate_each(inner, scope, output),
        }
    }
}

/// Appends the rendering of `nodes` for each grain of `scope`.
fn evaluate_each(nodes: &[Node], scope: &dyn TemplateScope, output: &mut BoundedOutput) {
    for index in 0..scope.grains().min(limits::MAX_EACH_ITERATIONS) {
        if !output.step() {
            return;
        }
        evaluate(nodes, &*scope.with_grain(index), output);
    }
}

/// Returns true for a value that is present, not empty and not `false`. Zero is truthy, and so is a
/// grain's text that says `false`.
fn is_truthy(scope: &dyn TemplateScope, variable: Variable) -> bool {
    let is_flag = matches!(
        variable,
        Variable::SourceTruncated | Variable::GrainIsFull | Variable::GrainIsSummary
    );
    scope
        .value(variable)
        .is_some_and(|value| !(value.is_empty() || is_flag && value == "false"))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    struct Words(Vec<&'static str>, Option<usize>);

    impl TemplateScope for Words {
        fn value(&self, variable: Variable) -> Option<String> {
            match variable {
                Variable::GrainContent => self.0.get(self.1?).map(|word| (*word).to_owned()),
                Variable::AssemblyName => Some(String::new()),
                Variable::SourceTruncated => Some("false".to_owned()),
                Variable::BudgetUsed => Some("0".to_owned()),
                _ => None,
            }
        }

        fn grains(&self) -> usize {
            self.0.len()
        }

        fn with_grain(&self, index: usize) -> Box<dyn TemplateScope + '_> {
            Box::new(Words(self.0.clone(), Some(index)))
        }
    }

    fn render(text: &str, scope: &Words, characters: usize) -> (String, bool) {
        let mut output = BoundedOutput::new(characters);
        evaluate(&parse(text).unwrap(), scope, &mut output);
        let truncated = output.is_truncated();
        (output.into_string(), truncated)
    }

    #[test]
    fn each_visits_the_grains_and_unset_variables_print_nothing() {
        let words = Words(vec!["a", "b"], None);
        assert_eq!(
            render(
                "{{grain.content}}[{{#each}}<{{grain.content}}>{{/each}}]",
                &words,
                100
            ),
            ("[<a><b>]".to_owned(), false)
        );
    }

    #[test]
    fn empty_and_false_are_not_truthy_but_zero_is() {
        let words = Words(vec![], None);
        let text = "{{#assembly.name}}1{{/assembly.name}}{{#source.truncated}}2{{/source.truncated}}{{#budget.used}}3{{/budget.used}}{{^grain.hash}}4{{/grain.hash}}";
        assert_eq!(render(text, &words, 100).0, "34");
    }

    #[test]
    fn a_text_that_says_false_is_truthy() {
        let words = Words(vec!["false"], None);
        let text = "{{#each}}{{#grain.content}}{{grain.content}}{{/grain.content}}{{/each}}";
        assert_eq!(render(text, &words, 100), ("false".to_owned(), false));
    }

    #[test]
    fn output_is_cut_at_the_cap_between_characters() {
        let words = Words(vec!["é"; 10], None);
        assert_eq!(
            render("{{#each}}{{grain.content}}{{/each}}", &words, 3),
            ("ééé".to_owned(), true)
        );
        assert_eq!(render("abc", &words, 3), ("abc".to_owned(), false));
    }

    #[test]
    fn nested_loops_without_output_are_bounded() {
        let words = Words(vec![""; 200], None);
        let bomb = "{{#each}}".repeat(5) + "{{grain.content}}" + &"{{/each}}".repeat(5);
        let (text, truncated) = render(&bomb, &words, 1_000_000);
        assert!(truncated && text.is_empty());
    }

    #[test]
    fn each_visits_at_most_two_hundred_grains() {
        let words = Words(vec!["x"; 500], None);
        assert_eq!(
            render("{{#each}}{{grain.content}}{{/each}}", &words, 1000),
            ("x".repeat(200), false)
        );
    }
}
