//! Reading and writing variables.

use super::{Event, Fault, Result, Run};
use crate::program::{BackendRef, Text, Value};
use crate::types::State;
use crate::variables::{Message, Variable};
use freshet_http::message::{Method, RequestHead, Version};
use std::net::SocketAddr;

impl Run<'_> {
    pub(crate) fn variable(&mut self, variable: Variable) -> Result<Value> {
        use Variable as V;
        let ip = |address: Option<SocketAddr>| {
            Value::Ip(Some(address.map_or_else(|| [0, 0, 0, 0].into(), |address| address.ip())))
        };
        let session = self.view.session;
        Ok(match variable {
            V::Now => Value::Time(self.view.now),
            V::ServerHostname => {
                let name = self.host.hostname().to_owned();
                Value::Text(self.store(name.as_bytes())?)
            }
            V::ServerIdentity => {
                let name = self.host.identity().to_owned();
                Value::Text(self.store(name.as_bytes())?)
            }
            V::ClientIp => ip(session.client),
            V::RemoteIp => ip(session.remote.or(session.client)),
            V::LocalIp => ip(session.local.or(session.server)),
            V::ServerIp => ip(session.server),
            V::LocalEndpoint if session.endpoint.is_empty() => {
                let address = session.local.or(session.server);
                let text = address.map(|address| address.to_string()).unwrap_or_default();
                Value::Text(self.store(text.as_bytes())?)
            }
            V::LocalEndpoint => Value::Text(self.store(session.endpoint.as_bytes())?),
            V::LocalSocket => Value::Text(self.store(session.socket.as_bytes())?),
            V::SessXid => self.number(session.xid)?,
            V::ClientIdentity => self.identity()?,
            V::Req | V::Bereq | V::Beresp | V::Resp => Value::None,
            V::ReqMethod => self.request_text(Message::Req, |head| head.method.as_str())?,
            V::ReqUrl => self.request_text(Message::Req, |head| &head.target)?,
            V::ReqProto => self.request_text(Message::Req, proto)?,
            V::ReqTopMethod => self.top_text(|head| head.method.as_str())?,
            V::ReqTopUrl => self.top_text(|head| &head.target)?,
            V::ReqTopProto => self.top_text(proto)?,
            V::BereqMethod => self.request_text(Message::Bereq, |head| head.method.as_str())?,
            V::BereqUrl => self.request_text(Message::Bereq, |head| &head.target)?,
            V::BereqProto => self.request_text(Message::Bereq, proto)?,
            V::ReqHash
            | V::ReqEsiLevel
            | V::ReqRestarts
            | V::ReqXid
            | V::ReqCanGzip
            | V::ReqIsHitmiss
            | V::ReqIsHitpass
            | V::ReqTime
            | V::ReqTransport
            | V::ReqBackendHint
            | V::ReqTtl
            | V::ReqGrace
            | V::ReqHashAlwaysMiss
            | V::ReqHashIgnoreBusy
            | V::ReqHashIgnoreVary
            | V::ReqStorage
            | V::ReqEsi
            | V::ReqTopTime
            | V::SessTimeoutIdle
            | V::SessTimeoutLinger
            | V::SessSendTimeout
            | V::SessIdleSendTimeout => self.client_variable(variable)?,
            V::BereqHash
            | V::BereqIsBgfetch
            | V::BereqIsHitmiss
            | V::BereqIsHitpass
            | V::BereqRetries
            | V::BereqTime
            | V::BereqUncacheable
            | V::BereqXid
            | V::BereqBackend
            | V::BereqConnectTimeout
            | V::BereqFirstByteTimeout
            | V::BereqBetweenBytesTimeout
            | V::BereqBody => self.fetch_variable(variable)?,
            V::BerespProto => {
                self.response_text(Message::Beresp, |head| response_proto(head.version))?
            }
            V::BerespStatus => Value::Int(self.status(Message::Beresp)),
            V::BerespReason => self.response_text(Message::Beresp, |head| head.reason_phrase())?,
            V::RespProto => {
                self.response_text(Message::Resp, |head| response_proto(head.version))?
            }
            V::RespStatus => Value::Int(self.status(Message::Resp)),
            V::RespReason => self.response_text(Message::Resp, |head| head.reason_phrase())?,
            V::BerespTtl
            | V::BerespGrace
            | V::BerespKeep
            | V::BerespAge
            | V::BerespTime
            | V::BerespUncacheable
            | V::BerespDoEsi
            | V::BerespDoGzip
            | V::BerespDoGunzip
            | V::BerespDoStream
            | V::BerespWas304
            | V::BerespBackend
            | V::BerespBackendName
            | V::BerespBackendIp
            | V::BerespStorage
            | V::BerespStorageHint
            | V::BerespFilters
            | V::BerespBody => self.answer_variable(variable)?,
            V::ObjAge
            | V::ObjTtl
            | V::ObjGrace
            | V::ObjKeep
            | V::ObjHits
            | V::ObjTime
            | V::ObjStorage
            | V::ObjCanEsi
            | V::ObjStatus
            | V::ObjReason
            | V::ObjProto
            | V::ObjUncacheable => self.object_variable(variable)?,
            V::RespTime | V::RespIsStreaming | V::RespDoEsi | V::RespFilters | V::RespBody => {
                self.delivery_variable(variable)?
            }
        })
    }

    fn number(&mut self, number: u64) -> Result<Value> {
        let text = self.write(|out| out.extend_from_slice(number.to_string().as_bytes()))?;
        Ok(Value::Text(text))
    }

    fn identity(&mut self) -> Result<Value> {
        let set = self.view.client.as_deref().and_then(|client| client.identity.clone());
        match set {
            Some(identity) => Ok(Value::Text(self.store(&identity)?)),
            None => {
                let ip = self.view.session.client.map(|address| address.ip());
                let text = self.write(|out| super::write_value(Value::Ip(ip), out))?;
                Ok(Value::Text(text))
            }
        }
    }

    fn request_text(&mut self, message: Message, part: fn(&RequestHead) -> &str) -> Result<Value> {
        let mut work = std::mem::take(&mut self.task.work);
        let start = work.len();
        let head = match message {
            Message::Req => self.view.req.as_deref(),
            _ => self.view.bereq.as_deref(),
        };
        if let Some(head) = head {
            work.extend_from_slice(part(head).as_bytes());
        }
        self.task.work = work;
        self.reserve(0)?;
        Ok(Value::Text(self.stored_since(start)))
    }

    fn top_text(&mut self, part: fn(&RequestHead) -> &str) -> Result<Value> {
        let text = self.top().map(|head| part(head).to_owned()).unwrap_or_default();
        Ok(Value::Text(self.store(text.as_bytes())?))
    }

    fn response_text(
        &mut self,
        message: Message,
        part: fn(&freshet_http::message::ResponseHead) -> &str,
    ) -> Result<Value> {
        let mut work = std::mem::take(&mut self.task.work);
        let start = work.len();
        let head = match message {
            Message::Beresp => self.view.beresp.as_deref(),
            _ => self.view.resp.as_deref(),
        };
        if let Some(head) = head {
            work.extend_from_slice(part(head).as_bytes());
        }
        self.task.work = work;
        self.reserve(0)?;
        Ok(Value::Text(self.stored_since(start)))
    }

    fn status(&self, message: Message) -> i64 {
        let head = match message {
            Message::Beresp => self.view.beresp.as_deref(),
            _ => self.view.resp.as_deref(),
        };
        head.map_or(0, |head| i64::from(head.status))
    }

    fn client_variable(&mut self, variable: Variable) -> Result<Value> {
        use Variable as V;
        let default_backend = self.program.default_backend;
        let Some(client) = self.view.client.as_deref() else { return Ok(Value::None) };
        Ok(match variable {
            V::ReqHash => {
                let hash = client.hash;
                Value::Blob(self.store(&hash)?)
            }
            V::ReqEsiLevel => Value::Int(client.esi_level.into()),
            V::ReqRestarts => Value::Int(client.restarts.into()),
            V::ReqXid => {
                let xid = client.xid;
                self.number(xid)?
            }
            V::ReqCanGzip => Value::Bool(client.can_gzip),
            V::ReqIsHitmiss => Value::Bool(client.is_hitmiss),
            V::ReqIsHitpass => Value::Bool(client.is_hitpass),
            V::ReqTime => Value::Time(client.time),
            V::ReqTopTime => {
                Value::Time(client.top.as_deref().map_or(client.time, |(_, time)| *time))
            }
            V::ReqTransport => {
                let version = self.view.req.as_deref().map(|head| head.version);
                let text = match version {
                    Some(Version::Http2) => "H2",
                    Some(Version::Http3) => "H3",
                    _ => "HTTP/1",
                };
                Value::Text(self.store(text.as_bytes())?)
            }
            V::ReqBackendHint => Value::Backend(client.backend_hint.unwrap_or(default_backend)),
            V::ReqTtl => Value::Duration(client.ttl.unwrap_or(-1.0)),
            V::ReqGrace => Value::Duration(client.grace.unwrap_or(-1.0)),
            V::ReqHashAlwaysMiss => Value::Bool(client.hash_always_miss),
            V::ReqHashIgnoreBusy => Value::Bool(client.hash_ignore_busy),
            V::ReqHashIgnoreVary => Value::Bool(client.hash_ignore_vary),
            V::ReqStorage => Value::Stevedore(client.storage),
            V::ReqEsi => Value::Bool(client.esi),
            V::SessTimeoutIdle => Value::Duration(client.timeout_idle),
            V::SessTimeoutLinger => Value::Duration(client.timeout_linger),
            V::SessSendTimeout => Value::Duration(client.send_timeout),
            V::SessIdleSendTimeout => Value::Duration(client.idle_send_timeout),
            _ => Value::None,
        })
    }

    fn fetch_variable(&mut self, variable: Variable) -> Result<Value> {
        use Variable as V;
        let backend = self.current_backend();
        let Some(fetch) = self.view.fetch.as_deref() else { return self.pipe_variable(variable) };
        let declared = match backend {
            BackendRef::Backend(index) => self.program.backends.get(index as usize),
            _ => None,
        };
        Ok(match variable {
            V::BereqHash => {
                let hash = fetch.hash;
                Value::Blob(self.store(&hash)?)
            }
            V::BereqIsBgfetch => Value::Bool(fetch.is_background),
            V::BereqIsHitmiss => Value::Bool(fetch.is_hitmiss),
            V::BereqIsHitpass => Value::Bool(fetch.is_hitpass),
            V::BereqRetries => Value::Int(fetch.retries.into()),
            V::BereqTime => Value::Time(fetch.time),
            V::BereqUncacheable => Value::Bool(fetch.uncacheable),
            V::BereqXid => {
                let xid = fetch.xid;
                self.number(xid)?
            }
            V::BereqBackend => Value::Backend(backend),
            V::BereqConnectTimeout => Value::Duration(
                fetch
                    .connect_timeout
                    .or_else(|| declared?.connect_timeout)
                    .unwrap_or_else(|| self.policy.timeouts().connect),
            ),
            V::BereqFirstByteTimeout => Value::Duration(
                fetch
                    .first_byte_timeout
                    .or_else(|| declared?.first_byte_timeout)
                    .unwrap_or_else(|| self.policy.timeouts().first_byte),
            ),
            V::BereqBetweenBytesTimeout => Value::Duration(
                fetch
                    .between_bytes_timeout
                    .or_else(|| declared?.between_bytes_timeout)
                    .unwrap_or_else(|| self.policy.timeouts().between_bytes),
            ),
            _ => Value::None,
        })
    }

    /// A fetch's variable in `vcl_pipe`, where the client's side sends the request.
    fn pipe_variable(&mut self, variable: Variable) -> Result<Value> {
        Ok(match variable {
            Variable::BereqBackend => Value::Backend(self.current_backend()),
            Variable::BereqHash => self.client_variable(Variable::ReqHash)?,
            Variable::BereqTime => self.client_variable(Variable::ReqTime)?,
            Variable::BereqXid => self.client_variable(Variable::ReqXid)?,
            Variable::BereqConnectTimeout => Value::Duration(self.policy.timeouts().connect),
            _ => Value::None,
        })
    }

    /// The backend of the fetch, or of the client's request where there is no fetch.
    pub(crate) fn current_backend(&self) -> BackendRef {
        match (&self.view.fetch, &self.view.client) {
            (Some(fetch), _) => fetch.backend,
            (None, Some(client)) => client.backend_hint.unwrap_or(self.program.default_backend),
            (None, None) => self.program.default_backend,
        }
    }

    fn answer_variable(&mut self, variable: Variable) -> Result<Value> {
        use Variable as V;
        let program = self.program;
        let Some(answer) = self.view.answer.as_deref() else { return Ok(Value::None) };
        Ok(match variable {
            V::BerespTtl => Value::Duration(answer.ttl),
            V::BerespGrace => Value::Duration(answer.grace),
            V::BerespKeep => Value::Duration(answer.keep),
            V::BerespAge => Value::Duration(answer.age),
            V::BerespTime => Value::Time(answer.time),
            V::BerespUncacheable => Value::Bool(answer.uncacheable),
            V::BerespDoEsi => Value::Bool(answer.do_esi),
            V::BerespDoGzip => Value::Bool(answer.do_gzip),
            V::BerespDoGunzip => Value::Bool(answer.do_gunzip),
            V::BerespDoStream => Value::Bool(answer.do_stream),
            V::BerespWas304 => Value::Bool(answer.was_304),
            V::BerespBackend => Value::Backend(answer.backend),
            V::BerespBackendName => {
                let name = program.backend_name(answer.backend);
                Value::Text(self.store(name.as_bytes())?)
            }
            V::BerespBackendIp => Value::Ip(answer.backend_address.map(|address| address.ip())),
            V::BerespStorage => Value::Stevedore(answer.storage),
            V::BerespStorageHint => {
                let name = answer.storage.and_then(|index| program.storages.get(index as usize));
                Value::Text(self.store(name.map_or(&[][..], |name| name.as_bytes()))?)
            }
            V::BerespFilters => {
                let set = answer.filters.clone();
                let computed = || {
                    let mut names = Vec::new();
                    let encoded = self.field_bytes(Message::Beresp, "content-encoding");
                    let is_gzip = encoded.is_some_and(|value| value.eq_ignore_ascii_case(b"gzip"));
                    if answer.do_gunzip && is_gzip {
                        names.push("gunzip");
                    }
                    if answer.do_esi {
                        names.push(if is_gzip && !answer.do_gunzip { "esi_gzip" } else { "esi" });
                    }
                    if answer.do_gzip && !is_gzip {
                        names.push("gzip");
                    }
                    names.join(" ").into_bytes().into()
                };
                let text: Box<[u8]> = set.unwrap_or_else(computed);
                Value::Text(self.store(&text)?)
            }
            _ => Value::None,
        })
    }

    fn object_variable(&mut self, variable: Variable) -> Result<Value> {
        use Variable as V;
        let Some(object) = self.view.object else {
            // A response that was not kept has no object; what it says is what a pass' has.
            return Ok(match variable {
                V::ObjHits => Value::Int(0),
                V::ObjUncacheable => Value::Bool(true),
                V::ObjCanEsi => Value::Bool(false),
                V::ObjStorage => Value::Stevedore(None),
                V::ObjTime => Value::Time(self.view.now),
                _ => Value::Duration(0.0),
            });
        };
        Ok(match variable {
            V::ObjAge => Value::Duration(object.age),
            V::ObjTtl => Value::Duration(object.ttl),
            V::ObjGrace => Value::Duration(object.grace),
            V::ObjKeep => Value::Duration(object.keep),
            V::ObjHits => Value::Int(i64::try_from(object.hits).unwrap_or(i64::MAX)),
            V::ObjTime => Value::Time(object.time),
            V::ObjStorage => Value::Stevedore(object.storage),
            V::ObjCanEsi => Value::Bool(object.can_esi),
            V::ObjStatus => Value::Int(object.status.into()),
            V::ObjReason => Value::Text(self.store(object.reason.as_bytes())?),
            V::ObjProto => Value::Text(self.store(b"HTTP/1.1")?),
            V::ObjUncacheable => Value::Bool(object.uncacheable),
            _ => Value::None,
        })
    }

    fn delivery_variable(&mut self, variable: Variable) -> Result<Value> {
        use Variable as V;
        let Some(delivery) = self.view.delivery.as_deref() else { return Ok(Value::None) };
        Ok(match variable {
            V::RespTime => Value::Time(delivery.time),
            V::RespIsStreaming => Value::Bool(delivery.is_streaming),
            V::RespDoEsi => Value::Bool(delivery.do_esi),
            V::RespFilters => {
                let filters = delivery.filters.clone().unwrap_or_default();
                Value::Text(self.store(&filters)?)
            }
            _ => Value::None,
        })
    }

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
                (V::ReqEsi, Value::Bool(truth)) => client.esi = truth,
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
            return Err(Fault::new(format!("Setting {name} to an empty string")));
        }
        if url.bytes().any(|byte| byte <= 0x20 || byte == 0x7f) {
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
            return Err(Fault::new(format!("{name}: {status} is no status code")));
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

fn proto(head: &RequestHead) -> &str {
    match head.version {
        Version::Http2 => "HTTP/2.0",
        version => version.as_str(),
    }
}

fn response_proto(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}
