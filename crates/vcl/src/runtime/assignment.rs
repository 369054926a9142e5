//! Writing variables: what a policy sets is checked to be fit to be sent, or taken over as a knob.

use super::{Event, Fault, Result, Run};
use crate::program::{Text, Value};
use crate::types::State;
use crate::variables::{Message, Variable};
use freshet_http::message::{Method, Version};

impl Run<'_> {
    pub(crate) fn set_variable(&mut self, variable: Variable, value: Value) -> Result<()> {
        use Variable as V;
        match (variable, value) {
            (V::ReqMethod | V::BereqMethod, Value::Text(text)) => self.set_method(variable, text),
            (V::ReqUrl | V::BereqUrl, Value::Text(text)) => self.set_url(variable, text),
            (V::ReqProto | V::BereqProto | V::RespProto | V::BerespProto, Value::Text(text)) => {
                let text = self.string(text).into_owned();
                self.set_proto(variable, &text);
                Ok(())
            }
            (V::RespStatus | V::BerespStatus, Value::Int(status)) => {
                self.set_status(variable, status)
            }
            (V::RespReason | V::BerespReason, Value::Text(text)) => self.set_reason(variable, text),
            (V::RespBody | V::BerespBody, value) => {
                if let Some(body) = &mut self.view.body {
                    body.clear();
                }
                self.append_body(value)
            }
            (V::ClientIdentity, Value::Text(text)) => {
                let bytes: Box<[u8]> = self.bytes(text).into();
                self.spend(bytes.len())?;
                if let Some(client) = &mut self.view.client {
                    client.identity = Some(bytes);
                }
                Ok(())
            }
            (V::BerespStorageHint, Value::Text(text)) => {
                let name = self.string(text).into_owned();
                let found = self.program.storages.iter().position(|known| *known == name);
                if let Some(answer) = &mut self.view.answer {
                    answer.storage = found.and_then(|index| u32::try_from(index).ok());
                }
                Ok(())
            }
            (V::BerespFilters, Value::Text(text)) => {
                let bytes = self.bytes(text).into();
                if let Some(answer) = &mut self.view.answer {
                    answer.filters = Some(bytes);
                }
                Ok(())
            }
            (V::RespFilters, Value::Text(text)) => {
                let bytes = self.bytes(text).into();
                if let Some(delivery) = &mut self.view.delivery {
                    delivery.filters = Some(bytes);
                }
                Ok(())
            }
            (variable, value) => self.set_knob(variable, value),
        }
    }

    fn set_knob(&mut self, variable: Variable, value: Value) -> Result<()> {
        use Variable as V;
        // Lifetimes cannot be negative but for `beresp.ttl`, where that means stale.
        let span = |seconds: f64| seconds.max(0.0);
        let in_error = self.state == State::BackendError;
        let view = &mut self.view;
        if let Some(client) = view.client.as_deref_mut() {
            match (variable, value) {
                (V::ReqBackendHint, Value::Backend(backend)) => {
                    client.backend_hint = Some(backend);
                }
                (V::ReqTtl, Value::Duration(seconds)) => client.ttl = Some(seconds),
                (V::ReqGrace, Value::Duration(seconds)) => client.grace = Some(seconds),
                (V::ReqHashAlwaysMiss, Value::Bool(truth)) => client.hash_always_miss = truth,
                (V::ReqHashIgnoreBusy, Value::Bool(truth)) => client.hash_ignore_busy = truth,
                (V::ReqHashIgnoreVary, Value::Bool(truth)) => client.hash_ignore_vary = truth,
                (V::ReqStorage, Value::Stevedore(storage)) => client.storage = storage,
                // Only the page a client asked for can do without.
                (V::ReqEsi, Value::Bool(truth)) if client.esi_level == 0 => client.esi = truth,
                (V::ReqEsi, Value::Bool(_)) => {}
                (V::SessTimeoutIdle, Value::Duration(t)) => client.timeout_idle = span(t),
                (V::SessTimeoutLinger, Value::Duration(t)) => client.timeout_linger = span(t),
                (V::SessSendTimeout, Value::Duration(t)) => client.send_timeout = span(t),
                (V::SessIdleSendTimeout, Value::Duration(t)) => {
                    client.idle_send_timeout = span(t);
                }
                (V::BereqBackend, Value::Backend(backend)) if view.fetch.is_none() => {
                    client.backend_hint = Some(backend);
                }
                _ => {}
            }
        }
        if let Some(fetch) = view.fetch.as_deref_mut() {
            match (variable, value) {
                (V::BereqBackend, Value::Backend(backend)) => fetch.backend = backend,
                (V::BereqConnectTimeout, Value::Duration(t)) => {
                    fetch.connect_timeout = Some(span(t));
                }
                (V::BereqFirstByteTimeout, Value::Duration(t)) => {
                    fetch.first_byte_timeout = Some(span(t));
                }
                (V::BereqBetweenBytesTimeout, Value::Duration(t)) => {
                    fetch.between_bytes_timeout = Some(span(t));
                }
                _ => {}
            }
        }
        if let Some(answer) = view.answer.as_deref_mut() {
            match (variable, value) {
                (V::BerespTtl, Value::Duration(seconds)) => answer.ttl = seconds,
                (V::BerespGrace, Value::Duration(seconds)) => answer.grace = span(seconds),
                (V::BerespKeep, Value::Duration(seconds)) => answer.keep = span(seconds),
                (V::BerespUncacheable, Value::Bool(truth)) => {
                    if answer.uncacheable && !truth && !in_error {
                        return Err(Fault::new(
                            "beresp.uncacheable can only be set to true: what is passed is not \
                             kept",
                        ));
                    }
                    answer.uncacheable = truth;
                }
                (V::BerespDoEsi, Value::Bool(truth)) => answer.do_esi = truth,
                (V::BerespDoGzip, Value::Bool(truth)) => answer.do_gzip = truth,
                (V::BerespDoGunzip, Value::Bool(truth)) => answer.do_gunzip = truth,
                (V::BerespDoStream, Value::Bool(truth)) => answer.do_stream = truth,
                (V::BerespStorage, Value::Stevedore(storage)) => answer.storage = storage,
                _ => {}
            }
        }
        if let (Some(delivery), V::RespDoEsi, Value::Bool(truth)) =
            (view.delivery.as_deref_mut(), variable, value)
        {
            delivery.do_esi = truth;
        }
        Ok(())
    }

    fn set_method(&mut self, variable: Variable, text: Text) -> Result<()> {
        let name = self.string(text).into_owned();
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(Fault::new(format!("'{name}' is no method")));
        }
        self.spend(name.len())?;
        let message = request_of(variable);
        self.trace_line(message, "method", name.as_bytes());
        if let Some(head) = self.request_mut(message) {
            head.method = Method::from_name(&name);
        }
        Ok(())
    }

    fn set_url(&mut self, variable: Variable, text: Text) -> Result<()> {
        let url = self.string(text).into_owned();
        if url.is_empty() {
            let name = variable.definition().name;
            return Err(Fault::new(format!("Setting {name} to empty string")));
        }
        if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(Fault::new(format!("Bad URL: {}", url.escape_debug())));
        }
        self.spend(url.len())?;
        let message = request_of(variable);
        self.trace_line(message, "url", url.as_bytes());
        if let Some(head) = self.request_mut(message) {
            head.target = url;
        }
        Ok(())
    }

    fn set_proto(&mut self, variable: Variable, text: &str) {
        let version = match text {
            "HTTP/1.0" => Version::Http10,
            _ => Version::Http11,
        };
        let message = match variable {
            Variable::RespProto => Message::Resp,
            Variable::BerespProto => Message::Beresp,
            other => request_of(other),
        };
        self.trace_line(message, "proto", text.as_bytes());
        if let (Message::Req, Some(client)) = (message, self.view.client.as_deref_mut()) {
            client.proto = Some(text.into()).filter(|_| text != version.as_str());
        }
        match message {
            Message::Resp => {
                if let Some(head) = &mut self.view.resp {
                    head.version = version;
                }
            }
            Message::Beresp => {
                if let Some(head) = &mut self.view.beresp {
                    head.version = version;
                }
            }
            other => {
                if let Some(head) = self.request_mut(other) {
                    head.version = version;
                }
            }
        }
    }

    fn set_status(&mut self, variable: Variable, status: i64) -> Result<()> {
        let number = u16::try_from(status).ok().filter(|status| status % 1000 >= 100);
        let Some(number) = number else {
            let name = variable.definition().name;
            return Err(Fault::new(match status {
                ..0 => format!("{name} ({status}) is negative"),
                65_536.. => format!("{name} ({status}) > 65535"),
                _ => format!("illegal {name} ({status}) (..0##)"),
            }));
        };
        let message = response_of(variable);
        self.trace_line(message, "status", status.to_string().as_bytes());
        if let Some(head) = self.response_mut(message) {
            head.status = number;
            head.reason = None;
        }
        Ok(())
    }

    fn set_reason(&mut self, variable: Variable, text: Text) -> Result<()> {
        let reason = self.string(text).into_owned();
        if reason.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(Fault::new(format!("Bad reason: {}", reason.escape_debug())));
        }
        self.spend(reason.len())?;
        let message = response_of(variable);
        self.trace_line(message, "reason", reason.as_bytes());
        if let Some(head) = self.response_mut(message) {
            head.reason = Some(reason.into());
        }
        Ok(())
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

fn request_of(variable: Variable) -> Message {
    match variable {
        Variable::BereqMethod | Variable::BereqUrl | Variable::BereqProto => Message::Bereq,
        _ => Message::Req,
    }
}

fn response_of(variable: Variable) -> Message {
    match variable {
        Variable::BerespStatus | Variable::BerespReason => Message::Beresp,
        _ => Message::Resp,
    }
}
