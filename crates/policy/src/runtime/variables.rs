//! Reading variables: what the rows of the table do that is more than to take one value.

use super::view::{Answer, ObjectView};
use super::{Fault, Result, Run};
use crate::policy::Timeouts;
use crate::program::{Backend, BackendRef, Text, Value};
use crate::variables::{Message, Variable};
use freshet_http::message::{RequestHead, ResponseHead, Version};

impl Run<'_> {
    pub(crate) fn variable(&mut self, variable: Variable) -> Result<Value> {
        match variable.definition().get {
            Some(get) => get(self),
            None => Ok(Value::None),
        }
    }

    /// A copy of bytes that are not the workspace's own, as a text.
    pub(crate) fn stored(&mut self, bytes: &[u8]) -> Result<Value> {
        self.store(bytes).map(Value::Text)
    }

    pub(crate) fn number(&mut self, number: u64) -> Result<Value> {
        let text = self.write(|out| out.extend_from_slice(number.to_string().as_bytes()))?;
        Ok(Value::Text(text))
    }

    pub(crate) fn server_hostname(&mut self) -> Result<Value> {
        let name = self.host.hostname().to_owned();
        self.stored(name.as_bytes())
    }

    pub(crate) fn server_identity(&mut self) -> Result<Value> {
        let name = self.host.identity().to_owned();
        self.stored(name.as_bytes())
    }

    pub(crate) fn local_endpoint(&mut self) -> Result<Value> {
        let session = self.view.session;
        if !session.endpoint.is_empty() {
            return self.stored(session.endpoint.as_bytes());
        }
        let address = session.local.or(session.server);
        let text = address.map(|address| address.to_string()).unwrap_or_default();
        self.stored(text.as_bytes())
    }

    pub(crate) fn client_identity(&mut self) -> Result<Value> {
        let session = self.view.session;
        let set = match self.view.client.as_deref() {
            Some(client) => client.identity.clone(),
            None => session.identity.clone(),
        };
        match set {
            Some(identity) => self.stored(&identity),
            None => {
                let ip = session.client.map(|address| address.ip());
                let ip = ip.unwrap_or_else(|| [0, 0, 0, 0].into());
                let text = self.write(|out| super::write_value(Value::Ip(Some(ip), 0), out))?;
                Ok(Value::Text(text))
            }
        }
    }

    pub(crate) fn request_text(
        &mut self,
        message: Message,
        part: fn(&RequestHead) -> &str,
    ) -> Result<Value> {
        let start = self.task.work.len();
        let head = match message {
            Message::Req => self.view.req.as_deref(),
            _ => self.view.bereq.as_deref(),
        };
        if let Some(head) = head {
            self.task.work.extend_from_slice(part(head).as_bytes());
        }
        self.reserve(0)?;
        Ok(Value::Text(self.stored_since(start)))
    }

    pub(crate) fn req_proto(&mut self) -> Result<Value> {
        let set = self.view.client.as_deref().and_then(|client| client.proto.clone());
        match set {
            Some(text) => self.stored(text.as_bytes()),
            None => self.request_text(Message::Req, proto),
        }
    }

    /// What the client's player says of itself; nothing where it does not.
    pub(crate) fn player_says(&mut self, key: &str) -> Result<Value> {
        let mut said = Vec::new();
        let head = self.view.req.as_deref();
        let host = &mut *self.host;
        if !head.is_some_and(|head| host.player_says(head, key, &mut said)) {
            return Ok(Value::None);
        }
        self.stored(&said)
    }

    /// What a manifest says of what is asked for; nothing where none is known that names it.
    pub(crate) fn manifest_says(&mut self, key: &str) -> Result<Value> {
        let mut said = Vec::new();
        let head = self.view.req.as_deref();
        let host = &mut *self.host;
        if !head.is_some_and(|head| host.manifest_says(head, key, &mut said)) {
            return Ok(Value::None);
        }
        self.stored(&said)
    }

    pub(crate) fn req_transport(&mut self) -> Result<Value> {
        let is_include = self.view.client.as_ref().is_some_and(|client| client.esi_level > 0);
        let version = self.view.req.as_deref().map(|head| head.version);
        self.stored(match version {
            _ if is_include => b"ESI_INCLUDE",
            Some(Version::Http2) => b"HTTP/2",
            Some(Version::Http3) => b"HTTP/3",
            _ => b"HTTP/1",
        })
    }

    pub(crate) fn top_text(&mut self, part: fn(&RequestHead) -> &str) -> Result<Value> {
        let text = self.top().map(|head| part(head).to_owned()).unwrap_or_default();
        self.stored(text.as_bytes())
    }

    /// Bytes of what was hashed; none before anything was.
    pub(crate) fn hash(&mut self, hash: Option<[u8; 32]>) -> Result<Value> {
        Ok(Value::Blob(self.store(&hash.unwrap_or_default())?))
    }

    pub(crate) fn bereq_hash(&mut self) -> Result<Value> {
        let of_fetch = self.view.fetch.as_ref().map(|fetch| fetch.hash);
        // In `vcl_pipe` the client's side sends the request.
        self.hash(of_fetch.or_else(|| self.view.client.as_ref().map(|client| client.hash)))
    }

    pub(crate) fn bereq_time(&mut self) -> Result<Value> {
        let of_fetch = self.view.fetch.as_ref().map(|fetch| fetch.time);
        let time = of_fetch.or_else(|| self.view.client.as_ref().map(|client| client.time));
        Ok(Value::Time(time.unwrap_or(self.view.now)))
    }

    pub(crate) fn bereq_xid(&mut self) -> Result<Value> {
        let of_fetch = self.view.fetch.as_ref().map(|fetch| fetch.xid);
        let xid = of_fetch.or_else(|| self.view.client.as_ref().map(|client| client.xid));
        self.number(xid.unwrap_or(0))
    }

    /// What the policy has set `bereq.connect_timeout` to: in `vcl_pipe` the client's side connects.
    pub(crate) fn connect_timeout(&mut self) -> Option<&mut Option<f64>> {
        match (self.view.fetch.as_deref_mut(), self.view.client.as_deref_mut()) {
            (Some(fetch), _) => Some(&mut fetch.connect_timeout),
            (None, client) => client.map(|client| &mut client.connect_timeout),
        }
    }

    /// Sets `bereq.connect_timeout`, or leaves it to what holds where a policy says nothing.
    pub(crate) fn set_connect_timeout(&mut self, seconds: Option<f64>) {
        if let Some(set) = self.connect_timeout() {
            *set = seconds.filter(|seconds| *seconds > 0.0);
        }
    }

    /// One of a fetch's timeouts: as the policy set it, else as its backend has it, else as all
    /// have it.
    pub(crate) fn timeout(
        &mut self,
        set: Option<f64>,
        declared: fn(&Backend) -> Option<f64>,
        usual: fn(Timeouts) -> f64,
    ) -> Result<Value> {
        let backend = match self.current_backend() {
            BackendRef::Backend(index) => self.program.backends.get(index as usize),
            _ => None,
        };
        let seconds = set.or_else(|| backend.and_then(declared));
        Ok(Value::Duration(seconds.unwrap_or_else(|| usual(self.policy.timeouts()))))
    }

    /// The name of a backend, made ones included.
    pub(crate) fn backend_name(&mut self, backend: BackendRef) -> Result<Text> {
        if let BackendRef::Made(number) = backend
            && let Some(made) = self.host.made_backend(number)
        {
            return self.store(made.name.as_bytes());
        }
        let program = self.program;
        self.store(program.backend_name(backend).as_bytes())
    }

    /// `req.backend_hint`, or the default backend where none was chosen.
    pub(crate) fn backend_hint(&self) -> BackendRef {
        let chosen = self.view.client.as_ref().and_then(|client| client.backend_hint);
        chosen.unwrap_or(self.program.default_backend)
    }

    /// The backend of the fetch, or of the client's request where there is no fetch.
    pub(crate) fn current_backend(&self) -> BackendRef {
        match &self.view.fetch {
            Some(fetch) => fetch.backend,
            None => self.backend_hint(),
        }
    }

    fn response(&self, message: Message) -> Option<&ResponseHead> {
        match message {
            Message::Beresp => self.view.beresp.as_deref(),
            _ => self.view.resp.as_deref(),
        }
    }

    pub(crate) fn response_text(
        &mut self,
        message: Message,
        part: fn(&ResponseHead) -> &str,
    ) -> Result<Value> {
        let text = self.response(message).map(|head| part(head).to_owned()).unwrap_or_default();
        self.stored(text.as_bytes())
    }

    pub(crate) fn response_proto(&mut self, message: Message) -> Result<Value> {
        self.response_text(message, |head| match head.version {
            Version::Http10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        })
    }

    pub(crate) fn status(&self, message: Message) -> i64 {
        self.response(message).map_or(0, |head| head.status.into())
    }

    /// One of what decides a response's filters, unless these were set already.
    pub(crate) fn filter_knob(&mut self, name: &str, knob: fn(&Answer) -> bool) -> Result<Value> {
        let Some(answer) = self.view.answer.as_deref() else { return Ok(Value::None) };
        filters_not_fixed(answer, name)?;
        Ok(Value::Bool(knob(answer)))
    }

    pub(crate) fn beresp_backend_name(&mut self) -> Result<Value> {
        let backend = self.view.answer.as_ref().map_or(BackendRef::None, |answer| answer.backend);
        self.backend_name(backend).map(Value::Text)
    }

    pub(crate) fn beresp_storage(&self) -> Option<u32> {
        let answer = self.view.answer.as_deref()?;
        answer.storage.or_else(|| self.program.storage_of(answer.uncacheable))
    }

    pub(crate) fn beresp_storage_hint(&mut self) -> Result<Value> {
        let program = self.program;
        let name = self.beresp_storage().and_then(|index| program.storages.get(index as usize));
        let name = name.map(|name| format!("storage.{name}")).unwrap_or_default();
        self.stored(name.as_bytes())
    }

    /// A word about the presentation an answer belongs to; nothing where it belongs to none.
    pub(crate) fn beresp_media(
        &mut self,
        word: fn(&Answer) -> Option<&'static str>,
    ) -> Result<Value> {
        match self.view.answer.as_deref().and_then(word) {
            Some(word) => self.stored(word.as_bytes()),
            None => Ok(Value::None),
        }
    }

    /// A number of the presentation an answer belongs to; nothing where it has none.
    pub(crate) fn beresp_media_number(&mut self, of: fn(&Answer) -> Option<u64>) -> Result<Value> {
        match self.view.answer.as_deref().and_then(of) {
            Some(number) => self.stored(number.to_string().as_bytes()),
            None => Ok(Value::None),
        }
    }

    pub(crate) fn beresp_filters(&mut self) -> Result<Value> {
        let Some(answer) = self.view.answer.as_deref() else { return Ok(Value::None) };
        if let Some(set) = answer.filters.clone() {
            return self.stored(&set);
        }
        // Nothing is done to what is not there.
        let is_empty = self.field_bytes(Message::Beresp, "content-length") == Some(b"0");
        if is_empty || matches!(self.status(Message::Beresp), 204 | 304) {
            return self.list_of_filters(&[]);
        }
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
        self.list_of_filters(&names)
    }

    /// Names of filters, each with a space before it, as Varnish has them.
    fn list_of_filters(&mut self, names: &[&str]) -> Result<Value> {
        let text: String = names.iter().flat_map(|name| [" ", name]).collect();
        self.stored(text.as_bytes())
    }

    /// A fact of the object. A response that was not kept has none, and `otherwise` is what a
    /// pass' has.
    pub(crate) fn object<T>(&self, otherwise: T, fact: fn(&ObjectView<'_>) -> T) -> T {
        self.view.object.as_ref().map_or(otherwise, fact)
    }

    pub(crate) fn obj_storage(&mut self) -> Result<Value> {
        let chosen = self.object(None, |object| object.storage);
        let is_transient = self.object(true, |object| object.uncacheable);
        Ok(Value::Stevedore(chosen.or_else(|| self.program.storage_of(is_transient))))
    }

    pub(crate) fn resp_do_esi(&mut self) -> Result<Value> {
        let Some(delivery) = self.view.delivery.as_deref() else { return Ok(Value::None) };
        if delivery.filters.is_some() {
            return Err(resp_filters_fixed());
        }
        Ok(Value::Bool(delivery.do_esi))
    }

    pub(crate) fn resp_filters(&mut self) -> Result<Value> {
        let Some(delivery) = self.view.delivery.as_deref() else { return Ok(Value::None) };
        if let Some(set) = delivery.filters.clone() {
            return self.stored(&set);
        }
        let wants_range = self.view.req.as_deref().is_some_and(|request| {
            request.fields.contains("range") && self.status(Message::Resp) == 200
        });
        let has_parts = delivery.do_esi && delivery.has_parts;
        let names = [(has_parts, "esi"), (delivery.may_gunzip, "gunzip"), (wants_range, "range")];
        let names: Vec<_> =
            names.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| *name).collect();
        self.list_of_filters(&names)
    }
}

/// What decides the filters has no meaning once these were set.
pub(super) fn filters_not_fixed(answer: &Answer, name: &str) -> Result<()> {
    match answer.filters {
        None => Ok(()),
        Some(_) => {
            Err(Fault::new(format!("beresp.filters are already fixed, beresp.{name} is undefined")))
        }
    }
}

pub(super) fn resp_filters_fixed() -> Fault {
    Fault::new("resp.filters are already fixed, resp.do_esi is undefined")
}

/// The protocol of a request, as policies see it.
pub(crate) fn proto(head: &RequestHead) -> &str {
    match head.version {
        Version::Http2 => "HTTP/2.0",
        version => version.as_str(),
    }
}
