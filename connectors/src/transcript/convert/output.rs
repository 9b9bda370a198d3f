//! Output lines, and notices to the user.

use std::collections::HashMap;
use std::io::{self, Write};

use gristmill_schemas::cmf::canonical::from_canonical;
use gristmill_schemas::cmf::view::DictOptions;
use gristmill_schemas::cmf::{CapabilitySet, ExtensionAccess, views};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodedGrain, Grain, Payload};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::{ContentBlock, Message};

use super::{Notice, OutputFormat};
use crate::transcript::grain_output::{GrainCounts, GrainOutput};
use crate::transcript::line::LineFault;
use crate::transcript::parsed::StandaloneGrain;
use crate::wire::message_writer::{DroppedBlock, log_value};

/// The destination of lines and notices.
pub(super) struct LineOutput<'o> {
    out: &'o mut dyn Write,
    pub(super) notify: &'o mut dyn FnMut(Notice),
    error: Option<io::Error>,
    /// The names of the tools that were called so far, by call id.
    pub(super) tool_names: HashMap<String, String>,
    /// The numbers of what was written; only the sources of times are reported.
    pub(super) counts: GrainCounts,
}

impl<'o> LineOutput<'o> {
    pub(super) fn new(out: &'o mut dyn Write, notify: &'o mut dyn FnMut(Notice)) -> LineOutput<'o> {
        LineOutput {
            out,
            notify,
            error: None,
            tool_names: HashMap::new(),
            counts: GrainCounts::default(),
        }
    }
}

impl LineOutput<'_> {
    /// Writes a line. After an error, lines are ignored; [`LineOutput::finish`] returns the error.
    pub(super) fn line(&mut self, text: &str) {
        if self.error.is_none() {
            let written = self
                .out
                .write_all(text.as_bytes())
                .and_then(|()| self.out.write_all(b"\n"));
            self.error = written.err();
        }
    }

    /// Reports the sources of times, and flushes the output.
    pub(super) fn finish(self) -> io::Result<()> {
        let GrainCounts {
            dated_by_response: response,
            dated_by_header: header,
            dated_by_file: file,
            ..
        } = self.counts;
        if response + header + file > 0 {
            (self.notify)(Notice::Dated {
                response,
                header,
                file,
            });
        }
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    pub(super) fn faults(&mut self, faults: Vec<LineFault>) {
        faults
            .into_iter()
            .for_each(|fault| (self.notify)(Notice::Fault(fault)));
    }

    /// Writes a grain.
    pub(super) fn grain(&mut self, output: GrainOutput<'_>) {
        match output {
            GrainOutput::Fault(fault) => (self.notify)(Notice::Fault(fault)),
            GrainOutput::Message(_, grain) => {
                self.line(&Json::Object(grain_object(&grain)).to_string())
            }
            GrainOutput::Standalone(grain) => self.line(&standalone_line(&grain)),
        }
    }

    /// Adds the names of the tools that a message calls.
    fn add_tool_names(&mut self, message: &Message) {
        for block in &message.content {
            if let ContentBlock::ToolUse(call) = block {
                self.tool_names
                    .insert(call.id.to_string(), call.name.to_string());
            }
        }
    }

    /// Writes a message as CMF, or its views.
    pub(super) fn cmf(&mut self, message: &Message, to: OutputFormat) {
        self.add_tool_names(message);
        let projection = from_canonical(message, |id| self.tool_names.get(id).cloned());
        for tag in &projection.dropped {
            let (session, id) = (log_value(&message.session_id), log_value(&message.id));
            let tag = log_value(tag);
            (self.notify)(Notice::Dropped(format!(
                "session_id={session} message_id={id} block_type={tag} adapter=cmf reason=\"CMF \
                 has no part for it\""
            )));
        }
        let envelope = projection.envelope;
        if to == OutputFormat::Cmf {
            return self.line(&envelope.to_json().to_string());
        }
        let access = ExtensionAccess::new(envelope.extensions.as_ref(), CapabilitySet::all());
        for view in views(&envelope.message, access).at_hook(envelope.hook.as_deref()) {
            self.line(&view.to_dict(DictOptions::default()).to_string());
        }
    }

    /// Reports blocks that were dropped.
    pub(super) fn dropped(&mut self, drops: &[DroppedBlock]) {
        for dropped in drops {
            (self.notify)(Notice::Dropped(dropped.to_string()));
        }
    }
}

/// Returns the members of the line of a grain.
fn grain_object(grain: &EncodedGrain) -> Object<'static> {
    let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT);
    let decoded = payload
        .as_ref()
        .ok()
        .and_then(|payload| Grain::decode(payload, DecodeMode::Strict).ok());
    let mut line = Object::new();
    line.insert("content_address", grain.address.to_string());
    line.insert("blob_hex", hex::encode(&grain.blob));
    line.insert("grain", decoded.map_or(Json::Null, |grain| grain.to_json()));
    line
}

/// Returns the line of a standalone grain, with its lifecycle: that isn't part of the grain itself.
fn standalone_line(standalone: &StandaloneGrain) -> String {
    let mut line = grain_object(&standalone.grain);
    if !standalone.supersedes.is_empty() {
        let supersedes = standalone.supersedes.iter();
        line.insert(
            "supersedes",
            supersedes
                .map(|address| Json::from(address.to_string()))
                .collect::<Vec<_>>(),
        );
    }
    if let Some(time) = standalone.system_valid_to {
        line.insert("system_valid_to", time);
    }
    Json::Object(line).to_string()
}
