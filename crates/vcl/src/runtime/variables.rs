//! Reading variables.

use super::{Result, Run};
use crate::program::{BackendRef, Value};
use crate::variables::{Message, Variable};
use freshet_http::message::{RequestHead, Version};
use std::net::SocketAddr;

impl Run<'_> {
    pub(crate) fn variable(&mut self, variable: Variable) -> Result<Value> {
        use Variable as V;
        let ip = |address: Option<SocketAddr>| {
            let address = address.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
            Value::Ip(Some(address.ip()), address.port())
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
            V::ReqProto => {
                let set = self.view.client.as_deref().and_then(|client| client.proto.clone());
                match set {
                    Some(text) => Value::Text(self.store(text.as_bytes())?),
                    None => self.request_text(Message::Req, proto)?,
                }
            }
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
        let session = self.view.session;
        let set = match self.view.client.as_deref() {
            Some(client) => client.identity.clone(),
            None => session.identity.clone(),
        };
        match set {
            Some(identity) => Ok(Value::Text(self.store(&identity)?)),
            None => {
                let ip = self.view.session.client.map(|address| address.ip());
                let ip = ip.unwrap_or_else(|| [0, 0, 0, 0].into());
                let text = self.write(|out| super::write_value(Value::Ip(Some(ip), 0), out))?;
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
            V::BerespBackendIp => answer
                .backend_address
                .map_or(Value::Ip(None, 0), |a| Value::Ip(Some(a.ip()), a.port())),
            V::BerespStorage => {
                let chosen = answer.storage.or_else(|| program.storage_of(answer.uncacheable));
                Value::Stevedore(chosen)
            }
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
                    let gzips = answer.do_gzip && encoded.is_none();
                    let gunzips = answer.do_gunzip && is_gzip;
                    if gunzips || (is_gzip && answer.do_esi) {
                        names.push("gunzip");
                    }
                    match (answer.do_esi, gzips, is_gzip && !gunzips) {
                        (true, true, _) | (true, _, true) => names.push("esi_gzip"),
                        (true, false, false) => names.push("esi"),
                        (false, true, _) => names.push("gzip"),
                        (false, false, true) => names.push("testgunzip"),
                        (false, false, false) => {}
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
                V::ObjStorage => Value::Stevedore(self.program.storage_of(true)),
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
            V::ObjStorage => {
                let storage = object.storage;
                Value::Stevedore(storage.or_else(|| self.program.storage_of(object.uncacheable)))
            }
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
                let set = delivery.filters.clone();
                let (esi, gunzip) = (delivery.do_esi, delivery.may_gunzip);
                let wants_range = self.view.req.as_deref().is_some_and(|request| {
                    request.fields.contains("range")
                        && self.view.resp.as_deref().is_some_and(|resp| resp.status == 200)
                });
                let text: Box<[u8]> = set.unwrap_or_else(|| {
                    let names = [(esi, "esi"), (gunzip, "gunzip"), (wants_range, "range")];
                    let names: Vec<_> =
                        names.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| *name).collect();
                    names.join(" ").into_bytes().into()
                });
                Value::Text(self.store(&text)?)
            }
            _ => Value::None,
        })
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
