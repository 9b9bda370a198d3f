//! Iteration over the views of a message, one per part, in order.

use std::slice;

use super::MessageView;
use crate::cmf::access::ExtensionAccess;
use crate::cmf::message::CmfMessage;
use crate::cmf::part::ContentPart;
use crate::cmf::vocabulary::CmfRole;

/// Returns the views of `message`, one per part. `access` limits the visible extensions.
pub fn views<'a>(message: &'a CmfMessage, access: ExtensionAccess<'a>) -> Views<'a> {
    let innermost = NestingLevel {
        parts: message.content.iter(),
        messages: [].iter(),
        role: message.role,
    };
    Views {
        access,
        hook: None,
        recursive: false,
        innermost,
        outer: Vec::new(),
    }
}

/// An iterator over views. Allocates only for nested messages.
#[derive(Debug, Clone)]
pub struct Views<'a> {
    access: ExtensionAccess<'a>,
    hook: Option<&'a str>,
    recursive: bool,
    innermost: NestingLevel<'a>,
    outer: Vec<NestingLevel<'a>>,
}

/// The remaining parts of a message, and its remaining siblings within a prompt result.
#[derive(Debug, Clone)]
struct NestingLevel<'a> {
    parts: slice::Iter<'a, ContentPart>,
    messages: slice::Iter<'a, CmfMessage>,
    role: CmfRole,
}

impl<'a> NestingLevel<'a> {
    fn next(&mut self) -> Option<(&'a ContentPart, CmfRole)> {
        loop {
            if let Some(part) = self.parts.next() {
                return Some((part, self.role));
            }
            let message = self.messages.next()?;
            self.parts = message.content.iter();
            self.role = message.role;
        }
    }
}

impl<'a> Views<'a> {
    /// Sets the hook of the views, which changes nothing else.
    pub fn at_hook(mut self, hook: Option<&'a str>) -> Self {
        self.hook = hook;
        self
    }

    /// Includes the views of messages nested in prompt results, at any depth, after the view of the
    /// result. By default nested messages are not visited.
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    fn descend(&mut self, part: &'a ContentPart) {
        if let (true, ContentPart::PromptResult(result)) = (self.recursive, part) {
            let nested = NestingLevel {
                parts: [].iter(),
                messages: result.messages.iter(),
                role: self.innermost.role,
            };
            self.outer
                .push(std::mem::replace(&mut self.innermost, nested));
        }
    }
}

impl<'a> Iterator for Views<'a> {
    type Item = MessageView<'a>;

    fn next(&mut self) -> Option<MessageView<'a>> {
        loop {
            if let Some((part, role)) = self.innermost.next() {
                let view = MessageView::new(part, role, self.access, self.hook, self.outer.len());
                self.descend(part);
                return Some(view);
            }
            self.innermost = self.outer.pop()?;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let here = self.innermost.parts.len();
        (here, (!self.recursive).then_some(here))
    }
}
