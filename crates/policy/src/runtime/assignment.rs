//! Writing variables: what a policy sets is checked to be fit to be sent, or taken over as a knob.

use super::variables::{filters_not_fixed, resp_filters_fixed};
use super::view::Answer;
use super::{Event, Fault, Result, Run, status_code, status_phrase};
use crate::program::{Text, Value};
use crate::types::State;
use crate::variables::{Message, Variable};
use freshet_http::fields::is_token_byte;
use freshet_http::message::{Method, Version};

impl Run<'_> {
    pub(crate) fn set_variable(&mut self, variable: Variable, value: Value) -> Result<()> {
        match variable.definition().set {
            Some(set) => set(self, value),
            None => Ok(()),
        }
    }

    /// A text that becomes part of a message's first line, which may not be empty.
    fn line(&mut self, value: Value, message: Message, line: &'static str) -> Result<String> {
        let Value::Text(text) = value else { return Ok(String::new()) };
        let text = self.string(text).into_owned();
        if text.is_empty() {
            let message = message.name();
            return Err(Fault::new(format!("Setting {message}.{line} to empty string")));
        }
        self.spend(text.len())?;
        Ok(text)
    }

    pub(crate) fn set_method(&mut self, message: Message, value: Value) -> Result<()> {
        let name = self.line(value, message, "method")?;
        if !name.bytes().all(is_token_byte) {
            return Err(Fault::new(format!("'{name}' is no method")));
        }
        self.trace_line(message, "method", name.as_bytes());
        if let Some(head) = self.request_mut(message) {
            head.method = Method::from_name(&name);
        }
        Ok(())
    }

    pub(crate) fn set_url(&mut self, message: Message, value: Value) -> Result<()> {
        let url = self.line(value, message, "url")?;
        if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(Fault::new(format!("Bad URL: {}", url.escape_debug())));
        }
        self.trace_line(message, "url", url.as_bytes());
        if let Some(head) = self.request_mut(message) {
            head.target = url;
        }
        Ok(())
    }

    pub(crate) fn set_proto(&mut self, message: Message, value: Value) -> Result<()> {
        let text = self.line(value, message, "proto")?;
        let version = match &*text {
            "HTTP/1.0" => Version::Http10,
            _ => Version::Http11,
        };
        self.trace_line(message, "proto", text.as_bytes());
        if let (Message::Req, Some(client)) = (message, self.view.client.as_deref_mut()) {
            let is_known = text == version.as_str();
            client.proto = (!is_known).then(|| text.into());
        }
        if let Some(head) = self.request_mut(message) {
            head.version = version;
        } else if let Some(head) = self.response_mut(message) {
            head.version = version;
        }
        Ok(())
    }

    pub(crate) fn set_status(&mut self, message: Message, value: Value) -> Result<()> {
        let Value::Int(status) = value else { return Ok(()) };
        let name = message.name();
        let number = status_code(status, |why| match why {
            "" => format!("illegal {name}.status ({status}) (..0##)"),
            why => format!("{name}.status ({status}) {why}"),
        })?;
        self.trace_line(message, "status", status.to_string().as_bytes());
        if let Some(head) = self.response_mut(message) {
            head.status = number;
            head.reason = status_phrase(number % 1000).map(Into::into);
        }
        Ok(())
    }

    pub(crate) fn set_reason(&mut self, message: Message, value: Value) -> Result<()> {
        let reason = self.line(value, message, "reason")?;
        if reason.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(Fault::new(format!("Bad reason: {}", reason.escape_debug())));
        }
        self.trace_line(message, "reason", reason.as_bytes());
        if let Some(head) = self.response_mut(message) {
            head.reason = Some(reason.into());
        }
        Ok(())
    }

    pub(crate) fn set_client_identity(&mut self, value: Value) -> Result<()> {
        let Value::Text(text) = value else { return Ok(()) };
        let bytes: Box<[u8]> = self.bytes(text).into();
        self.spend(bytes.len())?;
        if let Some(client) = &mut self.view.client {
            client.identity = Some(bytes);
        }
        Ok(())
    }

    /// Only the page a client asked for can do without what it includes.
    pub(crate) fn set_req_esi(&mut self, value: Value) -> Result<()> {
        if let (Some(client), Value::Bool(truth)) = (self.view.client.as_deref_mut(), value)
            && client.esi_level == 0
        {
            client.esi = truth;
        }
        Ok(())
    }

    pub(crate) fn set_bereq_backend(&mut self, value: Value) -> Result<()> {
        let Value::Backend(backend) = value else { return Ok(()) };
        if let Some(fetch) = &mut self.view.fetch {
            fetch.backend = backend;
        } else if let Some(client) = &mut self.view.client {
            // In `vcl_pipe` the client's side sends the request.
            client.backend_hint = Some(backend);
        }
        Ok(())
    }

    pub(crate) fn unset_bereq_body(&mut self) {
        if let Some(fetch) = &mut self.view.fetch {
            fetch.body_unset = true;
            if std::mem::take(&mut fetch.has_body) {
                self.unset_named_field(Message::Bereq, "Content-Length");
            }
        }
    }

    pub(crate) fn set_lifetime(&mut self, value: Value, set: fn(&mut Answer, f64)) -> Result<()> {
        if let (Some(answer), Value::Duration(seconds)) = (self.view.answer.as_deref_mut(), value) {
            set(answer, seconds);
        }
        self.trace_lifetime();
        Ok(())
    }

    pub(crate) fn set_uncacheable(&mut self, value: Value) -> Result<()> {
        let (Some(answer), Value::Bool(truth)) = (self.view.answer.as_deref_mut(), value) else {
            return Ok(());
        };
        if truth || self.state == State::BackendError {
            answer.uncacheable = truth;
            if let Some(fetch) = self.view.fetch.as_deref_mut().filter(|_| truth) {
                // The fetch is one of what is not kept from here on, also when it is tried again.
                fetch.uncacheable = true;
            }
        } else if answer.uncacheable && self.traced {
            // What is passed is not kept.
            self.host.trace(Event::Error("Ignoring attempt to reset beresp.uncacheable"));
        }
        self.trace_lifetime();
        Ok(())
    }

    pub(crate) fn trace_lifetime(&mut self) {
        if let (Some(answer), true) = (self.view.answer.as_deref(), self.traced) {
            let origin = self.view.now - answer.age;
            self.host.trace(Event::Lifetime { answer, origin });
        }
    }

    /// Tells of a pass for so long; where nothing is fetched yet, that means nothing.
    pub(crate) fn trace_pass(&mut self, seconds: f64) {
        if let Some(answer) = self.view.answer.as_deref() {
            let origin = self.view.now - answer.age;
            self.host.trace(Event::HitForPass { seconds, origin });
        }
    }

    pub(crate) fn set_filter_knob(
        &mut self,
        name: &str,
        value: Value,
        knob: fn(&mut Answer) -> &mut bool,
    ) -> Result<()> {
        if let (Some(answer), Value::Bool(truth)) = (self.view.answer.as_deref_mut(), value) {
            filters_not_fixed(answer, name)?;
            *knob(answer) = truth;
        }
        Ok(())
    }

    /// Takes a storage by its name, where there is one.
    pub(crate) fn set_storage_hint(&mut self, value: Value) -> Result<()> {
        let Value::Text(text) = value else { return Ok(()) };
        let text = self.string(text);
        let name = text.strip_prefix("storage.").unwrap_or(&text);
        let found = self.program.storages.iter().position(|known| *known == *name);
        let found = found.and_then(|index| u32::try_from(index).ok());
        if let (Some(answer), Some(storage)) = (&mut self.view.answer, found) {
            answer.storage = Some(storage);
        }
        Ok(())
    }

    pub(crate) fn set_beresp_filters(&mut self, value: Value) -> Result<()> {
        let Value::Text(text) = value else { return Ok(()) };
        let bytes = self.bytes(text).into();
        if let Some(answer) = &mut self.view.answer {
            answer.filters = Some(bytes);
        }
        Ok(())
    }

    pub(crate) fn set_resp_do_esi(&mut self, value: Value) -> Result<()> {
        if let (Some(delivery), Value::Bool(truth)) = (self.view.delivery.as_deref_mut(), value) {
            if delivery.filters.is_some() {
                return Err(resp_filters_fixed());
            }
            delivery.do_esi = truth;
        }
        Ok(())
    }

    pub(crate) fn set_resp_filters(&mut self, value: Value) -> Result<()> {
        let Value::Text(text) = value else { return Ok(()) };
        let bytes = self.bytes(text).into();
        if let Some(delivery) = &mut self.view.delivery {
            delivery.filters = Some(bytes);
        }
        Ok(())
    }

    pub(crate) fn set_body(&mut self, value: Value) -> Result<()> {
        if let Some(body) = &mut self.view.body {
            body.clear();
        }
        self.append_body(value)
    }

    fn response_mut(
        &mut self,
        message: Message,
    ) -> Option<&mut freshet_http::message::ResponseHead> {
        match message {
            Message::Beresp => self.view.beresp.as_deref_mut(),
            _ => self.view.resp.as_deref_mut(),
        }
    }

    fn trace_line(&mut self, message: Message, line: &'static str, value: &[u8]) {
        if self.traced {
            self.host.trace(Event::LineSet { message, line, value });
        }
    }

    /// Adds a text or blob to a synthetic body.
    pub(crate) fn append_body(&mut self, value: Value) -> Result<()> {
        let text = match value {
            Value::Text(text) | Value::Blob(text) => text,
            _ => Text::Unset,
        };
        let mut body = self.view.body.take();
        let result = match &mut body {
            Some(body) => {
                let bytes = self.bytes(text);
                if body.len() + bytes.len() > super::SYNTHETIC_BYTES_MAX {
                    Err(Fault::new("a synthetic body is larger than 4 MiB"))
                } else {
                    body.extend_from_slice(bytes);
                    Ok(())
                }
            }
            None => Ok(()),
        };
        self.view.body = body;
        result
    }
}
