//! What a policy sees and changes at one state: messages, facts and knobs. The node fills these in
//! and reads them afterwards; nothing here does anything by itself.

use crate::program::BackendRef;
use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, ResponseHead};
use std::net::SocketAddr;
use std::sync::Arc;

/// Facts of the client's connection.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Number of the connection.
    pub xid: u64,
    /// The client: the peer, or what a PROXY header says.
    pub client: Option<SocketAddr>,
    /// The address the client reached, a PROXY header's word included.
    pub server: Option<SocketAddr>,
    /// The peer of the connection.
    pub remote: Option<SocketAddr>,
    /// Our end of the connection.
    pub local: Option<SocketAddr>,
    /// The listener's address as text; our end of the connection where empty.
    pub endpoint: String,
    /// The listener's name.
    pub socket: String,
    /// What is known of TLS that is spoken to the client here.
    pub tls: Option<TlsFacts>,
    /// What a PROXY header says of the client's own connection.
    pub front: Option<FrontFacts>,
    /// User, group and their numbers of the peer of a Unix socket.
    pub peer: Option<UnixPeer>,
    /// Whom the request was let in as, where it had to say.
    pub access: Option<Arc<AccessFacts>>,
    /// `client.identity` in a fetch, where the request's states set it.
    pub identity: Option<Box<[u8]>>,
}

/// What is known about the client's TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsFacts {
    /// Version, as `TLSv1.3`.
    pub version: String,
    /// Cipher suite.
    pub cipher: String,
    /// Name the client asked for.
    pub authority: String,
    /// Application protocol.
    pub alpn: String,
    /// The client's certificate, where it proves something.
    pub client_certificate: Option<CertificateFacts>,
}

/// What a PROXY header says of the client's connection, whose TLS the proxy in front has ended.
#[derive(Clone, Debug, Default)]
pub struct FrontFacts {
    /// Whether the client speaks TLS.
    pub is_tls: bool,
    /// Whether it has given a certificate in this session.
    pub has_certificate_in_session: bool,
    /// Whether it has given one on this connection.
    pub has_certificate_on_connection: bool,
    /// 0 where that was verified, or none was asked for.
    pub verify_result: u32,
    /// Version, as `TLSv1.3`.
    pub version: Option<String>,
    /// Cipher suite.
    pub cipher: Option<String>,
    /// Name the client asked for.
    pub authority: Option<String>,
    /// Application protocol.
    pub alpn: Option<String>,
    /// Common name of the client's certificate.
    pub common_name: Option<String>,
    /// Algorithm the proxy's certificate is signed with.
    pub signature_algorithm: Option<String>,
    /// Algorithm of the key in it.
    pub key_algorithm: Option<String>,
}

/// What a client's certificate says.
#[derive(Clone, Debug, Default)]
pub struct CertificateFacts {
    /// Common name of whom it is for.
    pub common_name: String,
    /// First of its DNS names and URIs.
    pub name: String,
    /// Whom it is for (RFC 4514).
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// Serial number, in hexadecimal digits.
    pub serial: String,
    /// SHA-256, in hexadecimal digits.
    pub fingerprint: String,
}

/// Whom a request was let in as.
#[derive(Clone, Debug, Default)]
pub struct AccessFacts {
    /// The name of who has the password, or whom the token is for.
    pub user: String,
    /// Whether there was a token.
    pub has_token: bool,
    /// Its own name or number.
    pub token_id: String,
    /// What it claims, by name.
    pub claims: Vec<(Box<str>, Box<str>)>,
    /// What a service says of who it is, by the field's name.
    pub said: Vec<(Box<str>, Box<str>)>,
    /// Whether it says where the request goes.
    pub has_place: bool,
}

impl AccessFacts {
    /// What the token claims under a name.
    pub fn claim(&self, name: &str) -> Option<&str> {
        self.claims.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// What a service says in a field of this name.
    pub fn said(&self, name: &str) -> Option<&str> {
        let mut all = self.said.iter();
        all.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// Who is behind a Unix socket.
#[derive(Clone, Debug, Default)]
pub struct UnixPeer {
    /// Name of the user.
    pub user: String,
    /// Name of the group.
    pub group: String,
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

/// Knobs and facts of a client's request, kept from state to state.
#[derive(Clone, Debug)]
pub struct ClientKnobs {
    /// `req.xid`
    pub xid: u64,
    /// `req.restarts`
    pub restarts: u32,
    /// `req.esi_level`
    pub esi_level: u32,
    /// `req.time`, seconds since 1970.
    pub time: f64,
    /// `req.is_hitmiss`
    pub is_hitmiss: bool,
    /// `req.is_hitpass`
    pub is_hitpass: bool,
    /// `req.media_ahead`
    pub is_ahead: bool,
    /// Whether the last fetch was for this request alone.
    pub was_passed: bool,
    /// `req.backend_hint`; `None` is the default one.
    pub backend_hint: Option<BackendRef>,
    /// `req.ttl`, seconds.
    pub ttl: Option<f64>,
    /// `req.grace`, seconds.
    pub grace: Option<f64>,
    /// `req.hash_always_miss`
    pub hash_always_miss: bool,
    /// `req.hash_ignore_busy`
    pub hash_ignore_busy: bool,
    /// `req.hash_ignore_vary`
    pub hash_ignore_vary: bool,
    /// `req.storage`
    pub storage: Option<u32>,
    /// `req.esi`
    pub esi: bool,
    /// `req.hash`
    pub hash: [u8; 32],
    /// `req.proto`, where it was set to none that there is.
    pub proto: Option<Box<str>>,
    /// `client.identity`, where it was set.
    pub identity: Option<Box<[u8]>>,
    /// `sess.timeout_idle`, seconds.
    pub timeout_idle: f64,
    /// `sess.timeout_linger`, seconds.
    pub timeout_linger: f64,
    /// `sess.send_timeout`, seconds.
    pub send_timeout: f64,
    /// `bereq.connect_timeout` in `vcl_pipe`, seconds, where a policy has set it.
    pub connect_timeout: Option<f64>,
    /// `bereq.task_deadline`, seconds, where a policy has set it.
    pub task_deadline: Option<f64>,
    /// The same where none has; 0 is no end.
    pub task_deadline_usual: f64,
    /// `sess.idle_send_timeout`, seconds.
    pub idle_send_timeout: f64,
    /// The request as it came, for `std.rollback(req)`.
    pub original: Option<Box<RequestHead>>,
    /// Fields that are sent on though `Connection` names them: the policy has set them.
    pub spared: Vec<Box<str>>,
    /// The outermost request's head and time, where this is an ESI fragment's.
    pub top: Option<Box<(RequestHead, f64)>>,
}

impl Default for ClientKnobs {
    fn default() -> Self {
        Self {
            xid: 0,
            restarts: 0,
            esi_level: 0,
            time: 0.0,
            is_hitmiss: false,
            is_hitpass: false,
            is_ahead: false,
            was_passed: false,
            backend_hint: None,
            ttl: None,
            grace: None,
            hash_always_miss: false,
            hash_ignore_busy: false,
            hash_ignore_vary: false,
            storage: None,
            esi: true,
            hash: [0; 32],
            proto: None,
            identity: None,
            timeout_idle: 5.0,
            timeout_linger: 0.05,
            send_timeout: 600.0,
            connect_timeout: None,
            task_deadline: None,
            task_deadline_usual: 0.0,
            idle_send_timeout: 60.0,
            original: None,
            spared: Vec::new(),
            top: None,
        }
    }
}

/// Knobs and facts of a fetch, kept from state to state.
#[derive(Clone, Debug, Default)]
pub struct FetchKnobs {
    /// `bereq.xid`
    pub xid: u64,
    /// `bereq.retries`
    pub retries: u32,
    /// `bereq.time`, seconds since 1970.
    pub time: f64,
    /// `bereq.is_bgfetch`
    pub is_background: bool,
    /// `bereq.media_ahead`
    pub is_ahead: bool,
    /// `bereq.is_hitmiss`
    pub is_hitmiss: bool,
    /// `bereq.is_hitpass`
    pub is_hitpass: bool,
    /// `bereq.uncacheable`
    pub uncacheable: bool,
    /// `bereq.backend`
    pub backend: BackendRef,
    /// `bereq.hash`
    pub hash: [u8; 32],
    /// `bereq.connect_timeout`, seconds.
    pub connect_timeout: Option<f64>,
    /// `bereq.first_byte_timeout`, seconds.
    pub first_byte_timeout: Option<f64>,
    /// `bereq.between_bytes_timeout`, seconds.
    pub between_bytes_timeout: Option<f64>,
    /// Set where `bereq.retry_connect` is false.
    pub connects_once: bool,
    /// Whether a body of the client's goes along that was not kept for the policy.
    pub has_body: bool,
    /// Set where the request's body is not to be sent.
    pub body_unset: bool,
    /// Set where `std.rollback(bereq)` gave up the answer that was there.
    pub gave_up: bool,
    /// The request as the fetch began with it, for `std.rollback(bereq)`.
    pub original: Option<Box<RequestHead>>,
}

/// Knobs and facts of an origin's answer, or of the page in its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// `beresp.ttl`, seconds from now.
    pub ttl: f64,
    /// Whether it has no life at all, which is told as one of -1, until a policy gives it one.
    pub has_no_life: bool,
    /// `beresp.grace`, seconds.
    pub grace: f64,
    /// `beresp.keep`, seconds.
    pub keep: f64,
    /// `beresp.age`, seconds.
    pub age: f64,
    /// `beresp.time`, seconds since 1970.
    pub time: f64,
    /// `beresp.uncacheable`
    pub uncacheable: bool,
    /// `beresp.do_esi`
    pub do_esi: bool,
    /// `beresp.do_gzip`
    pub do_gzip: bool,
    /// `beresp.do_gunzip`
    pub do_gunzip: bool,
    /// `beresp.do_stream`
    pub do_stream: bool,
    /// `beresp.was_304`
    pub was_304: bool,
    /// `beresp.media_class`: `live`, `dvr`, or nothing where no manifest names it.
    pub media_class: Option<&'static str>,
    /// `beresp.media_kind`: `manifest`, `segment`, `part`, `init`, `key`, or nothing where no manifest
    /// names it.
    pub media_kind: Option<&'static str>,
    /// `beresp.media_sequence`: the number of the segment it is, or is a part of.
    pub media_sequence: Option<u64>,
    /// `beresp.media_bitrate`: its kilobits a second.
    pub media_bitrate: Option<u64>,
    /// `beresp.backend`
    pub backend: BackendRef,
    /// Where the answer came from.
    pub backend_address: Option<SocketAddr>,
    /// `beresp.storage`
    pub storage: Option<u32>,
    /// `beresp.filters`, where it was set.
    pub filters: Option<Box<[u8]>>,
}

/// Knobs and facts of a response on its way to a client.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// `resp.time`, seconds since 1970.
    pub time: f64,
    /// `resp.is_streaming`
    pub is_streaming: bool,
    /// `resp.do_esi`
    pub do_esi: bool,
    /// Whether there are parts to be put together.
    pub has_parts: bool,
    /// Whether the body is to be unpacked for this client.
    pub may_gunzip: bool,
    /// `resp.filters`, where it was set.
    pub filters: Option<Box<[u8]>>,
    /// The response as it was made, for `std.rollback(req)`.
    pub original: Option<Box<ResponseHead>>,
}

/// A stored object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectView<'a> {
    /// Header fields.
    pub fields: &'a Fields,
    /// Status.
    pub status: u16,
    /// Reason phrase.
    pub reason: &'a str,
    /// `obj.age`, seconds.
    pub age: f64,
    /// `obj.ttl`, seconds from now.
    pub ttl: f64,
    /// `obj.grace`, seconds.
    pub grace: f64,
    /// `obj.keep`, seconds.
    pub keep: f64,
    /// `obj.time`, seconds since 1970.
    pub time: f64,
    /// `obj.hits`
    pub hits: u64,
    /// `obj.uncacheable`
    pub uncacheable: bool,
    /// `obj.can_esi`
    pub can_esi: bool,
    /// `obj.storage`
    pub storage: Option<u32>,
}

/// Everything at one state.
pub struct View<'a> {
    /// The time, seconds since 1970.
    pub now: f64,
    /// The connection.
    pub session: &'a Session,
    /// Client's side.
    pub client: Option<&'a mut ClientKnobs>,
    /// Fetch's side.
    pub fetch: Option<&'a mut FetchKnobs>,
    /// `req`
    pub req: Option<&'a mut RequestHead>,
    /// `bereq`
    pub bereq: Option<&'a mut RequestHead>,
    /// `beresp`
    pub beresp: Option<&'a mut ResponseHead>,
    /// `beresp`'s knobs.
    pub answer: Option<&'a mut Answer>,
    /// `resp`
    pub resp: Option<&'a mut ResponseHead>,
    /// `resp`'s knobs.
    pub delivery: Option<&'a mut Delivery>,
    /// `obj`
    pub object: Option<ObjectView<'a>>,
    /// The body of a synthetic response.
    pub body: Option<&'a mut Vec<u8>>,
}

impl<'a> View<'a> {
    /// A view of a connection and nothing else.
    pub fn new(now: f64, session: &'a Session) -> Self {
        Self {
            now,
            session,
            client: None,
            fetch: None,
            req: None,
            bereq: None,
            beresp: None,
            answer: None,
            resp: None,
            delivery: None,
            object: None,
            body: None,
        }
    }
}
