//! The views of a message, one for each part and in its order.

use std::slice;

use super::MessageView;
use crate::cmf::access::Access;
use crate::cmf::message::Message;
use crate::cmf::part::Part;
use crate::cmf::vocabulary::Role;

/// The views of `message`: as many as it has parts. `access` says what they show of its extensions.
pub fn views<'a>(message: &'a Message, access: Access<'a>) -> Views<'a> {
    let innermost = Level {
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

/// An iterator over views. Allocates only where it descends.
#[derive(Debug, Clone)]
pub struct Views<'a> {
    access: Access<'a>,
    hook: Option<&'a str>,
    recursive: bool,
    innermost: Level<'a>,
    outer: Vec<Level<'a>>,
}

/// The rest of a message, and of its siblings within a prompt result.
#[derive(Debug, Clone)]
struct Level<'a> {
    parts: slice::Iter<'a, Part>,
    messages: slice::Iter<'a, Message>,
    role: Role,
}

impl<'a> Level<'a> {
    fn next(&mut self) -> Option<(&'a Part, Role)> {
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
    /// The same views, evaluated at `hook`. The hook is carried and changes nothing.
    pub fn at_hook(mut self, hook: Option<&'a str>) -> Self {
        self.hook = hook;
        self
    }

    /// The same views and, after that of a prompt result, those of its messages, at any depth.
    /// Without this nobody sees what nested messages hold.
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    fn descend(&mut self, part: &'a Part) {
        if let (true, Part::PromptResult(result)) = (self.recursive, part) {
            let nested = Level {
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
