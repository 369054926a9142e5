//! Header fields of messages.

use super::{Event, Fault, Result, Run};
use crate::program::Text;
use crate::variables::Message;
use freshet_http::fields::Fields;
use freshet_http::message::RequestHead;

/// Fields of one message; more cannot be set, as with Varnish's `http_max_hdr`.
const FIELDS_MAX: usize = 256;

/// A value without the spaces it begins with. Line breaks stay, to be refused.
fn without_space(value: &[u8]) -> &[u8] {
    let start = value.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
    start.and_then(|start| value.get(start..)).unwrap_or_default()
}

impl Run<'_> {
    pub(crate) fn fields(&self, message: Message) -> Option<&Fields> {
        let view = &self.view;
        match message {
            Message::Req => view.req.as_deref().map(|head| &head.fields),
            Message::ReqTop => self.top().map(|head| &head.fields),
            Message::Bereq => view.bereq.as_deref().map(|head| &head.fields),
            Message::Beresp => view.beresp.as_deref().map(|head| &head.fields),
            Message::Resp => view.resp.as_deref().map(|head| &head.fields),
            Message::Obj => view.object.as_ref().map(|object| object.fields),
        }
    }

    fn fields_mut(&mut self, message: Message) -> Option<&mut Fields> {
        let view = &mut self.view;
        match message {
            Message::Req => view.req.as_deref_mut().map(|head| &mut head.fields),
            Message::Bereq => view.bereq.as_deref_mut().map(|head| &mut head.fields),
            Message::Beresp => view.beresp.as_deref_mut().map(|head| &mut head.fields),
            Message::Resp => view.resp.as_deref_mut().map(|head| &mut head.fields),
            Message::ReqTop | Message::Obj => None,
        }
    }

    /// The head of the outermost request.
    pub(super) fn top(&self) -> Option<&RequestHead> {
        let top = self.view.client.as_deref().and_then(|client| client.top.as_deref());
        top.map(|(head, _)| head).or(self.view.req.as_deref())
    }

    /// Whether the request is one of a page's includes.
    pub(crate) fn is_included(&self) -> bool {
        self.view.client.as_deref().is_some_and(|client| client.top.is_some())
    }

    /// The authority of a request, which stands for its `Host` field.
    fn authority(&self, message: Message) -> Option<&str> {
        let head = match message {
            Message::Req => self.view.req.as_deref(),
            Message::ReqTop => self.top(),
            Message::Bereq => self.view.bereq.as_deref(),
            _ => None,
        };
        head.map(|head| &*head.authority).filter(|authority| !authority.is_empty())
    }

    fn is_host(&self, message: Message, name: &str) -> bool {
        name.eq_ignore_ascii_case("host")
            && matches!(message, Message::Req | Message::ReqTop | Message::Bereq)
    }

    /// The value of a field.
    pub(crate) fn field_bytes(&self, message: Message, name: &str) -> Option<&[u8]> {
        if self.is_host(message, name) {
            return self.authority(message).map(str::as_bytes);
        }
        self.fields(message)?.get(name)
    }

    /// The values of all lines of a field.
    pub(crate) fn field_lines(&self, message: Message, name: &str) -> Vec<Vec<u8>> {
        if self.is_host(message, name) {
            return self.field_bytes(message, name).map(<[u8]>::to_vec).into_iter().collect();
        }
        let lines = self.fields(message).into_iter().flat_map(|fields| fields.get_all(name));
        lines.map(<[u8]>::to_vec).collect()
    }

    /// The value of a field, in the workspace.
    pub(crate) fn field(&mut self, message: Message, header: u32) -> Result<Text> {
        let program = self.program;
        let Some(name) = program.headers.get(header as usize) else { return Ok(Text::Unset) };
        self.named_field(message, name)
    }

    pub(crate) fn named_field(&mut self, message: Message, name: &str) -> Result<Text> {
        let start = self.task.work.len();
        // Taken out, so that the value can be copied into it while the message is borrowed.
        let mut work = std::mem::take(&mut self.task.work);
        let found = self.field_bytes(message, name).map(|value| work.extend_from_slice(value));
        self.task.work = work;
        if found.is_none() {
            return Ok(Text::Unset);
        }
        self.reserve(0)?;
        Ok(self.stored_since(start))
    }

    pub(crate) fn has_field(&self, message: Message, header: u32) -> bool {
        self.program
            .headers
            .get(header as usize)
            .is_some_and(|name| self.field_bytes(message, name).is_some())
    }

    pub(crate) fn set_field(&mut self, message: Message, header: u32, text: Text) -> Result<()> {
        let program = self.program;
        let Some(name) = program.headers.get(header as usize) else { return Ok(()) };
        let value = without_space(self.bytes(text)).to_vec();
        self.set_named_field(message, name, value)
    }

    /// Sets a field to a value that is checked to be fit to be sent.
    pub(crate) fn set_named_field(
        &mut self,
        message: Message,
        name: &str,
        value: Vec<u8>,
    ) -> Result<()> {
        self.check_value(name, &value)?;
        self.spend(name.len() + value.len())?;
        if self.traced {
            self.trace_removal(message, name);
            self.host.trace(Event::FieldSet { message, name, value: &value });
        }
        if self.is_host(message, name) {
            let authority = String::from_utf8_lossy(&value).into_owned();
            if let Some(head) = self.request_mut(message) {
                head.authority = authority;
            }
            return Ok(());
        }
        let Some(fields) = self.fields_mut(message) else { return Ok(()) };
        if fields.len() >= FIELDS_MAX && !fields.contains(name) {
            return Err(Fault::new(format!("too many header fields: {name} does not fit")));
        }
        fields.set(name, value);
        self.spare(message, name);
        Ok(())
    }

    /// Notes that a field which the client's `Connection` names is sent on all the same, as the policy
    /// has set it: the client named what came from itself.
    fn spare(&mut self, message: Message, name: &str) {
        if message != Message::Req {
            return;
        }
        let is_it = |token: &[u8]| token.eq_ignore_ascii_case(name.as_bytes());
        let is_named = |fields: &Fields| fields.tokens("Connection").any(is_it);
        if !self.fields(message).is_some_and(is_named) {
            return;
        }
        if let Some(client) = self.view.client.as_deref_mut()
            && !client.spared.iter().any(|known| is_it(known.as_bytes()))
        {
            client.spared.push(name.into());
        }
    }

    /// Adds a line of a field.
    pub(crate) fn append_field(
        &mut self,
        message: Message,
        name: &str,
        value: &[u8],
    ) -> Result<()> {
        if self.is_host(message, name) {
            return self.set_named_field(message, name, value.to_vec());
        }
        self.check_value(name, value)?;
        self.spend(name.len() + value.len())?;
        if self.traced {
            self.host.trace(Event::FieldSet { message, name, value });
        }
        let Some(fields) = self.fields_mut(message) else { return Ok(()) };
        if fields.len() >= FIELDS_MAX {
            return Err(Fault::new(format!("too many header fields: {name} does not fit")));
        }
        fields.append(name, value);
        Ok(())
    }

    fn check_value(&self, name: &str, value: &[u8]) -> Result<()> {
        // RFC 9110 §5.5: a line break here would let a text become another field.
        let bad = value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f);
        if bad {
            return Err(Fault::new(format!(
                "Bad header {name}: {}",
                String::from_utf8_lossy(value).escape_debug()
            )));
        }
        Ok(())
    }

    pub(crate) fn unset_field(&mut self, message: Message, header: u32) {
        let program = self.program;
        if let Some(name) = program.headers.get(header as usize) {
            self.unset_named_field(message, name);
        }
    }

    pub(crate) fn unset_named_field(&mut self, message: Message, name: &str) {
        if self.traced {
            self.trace_removal(message, name);
        }
        if self.is_host(message, name) {
            if let Some(head) = self.request_mut(message) {
                head.authority.clear();
            }
        } else if let Some(fields) = self.fields_mut(message) {
            fields.remove(name);
        }
    }

    /// Tells those who watch which lines of a field are about to go.
    fn trace_removal(&mut self, message: Message, name: &str) {
        if self.is_host(message, name) {
            let host = self.authority(message).map(str::to_owned);
            if let Some(host) = host {
                self.host.trace(Event::FieldUnset { message, name, value: host.as_bytes() });
            }
            return;
        }
        let Some(fields) = self.fields(message) else { return };
        // As they were spelled when they came.
        let lines: Vec<(String, Vec<u8>)> = fields
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(known, value)| (String::from_utf8_lossy(known).into_owned(), value.to_vec()))
            .collect();
        for (name, value) in &lines {
            self.host.trace(Event::FieldUnset { message, name, value });
        }
    }

    /// Keeps the lines of a message for which `keep` is true.
    pub(crate) fn retain_fields(
        &mut self,
        message: Message,
        keep: impl FnMut(&[u8], &[u8]) -> bool,
    ) {
        if let Some(fields) = self.fields_mut(message) {
            fields.retain(keep);
        }
    }

    pub(crate) fn request_mut(&mut self, message: Message) -> Option<&mut RequestHead> {
        match message {
            Message::Req => self.view.req.as_deref_mut(),
            Message::Bereq => self.view.bereq.as_deref_mut(),
            _ => None,
        }
    }
}
