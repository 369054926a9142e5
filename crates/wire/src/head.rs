//! Fields of HEADERS frames into heads of requests, of HTTP/2 (RFC 9113 §8) and HTTP/3 (RFC 9114
//! §4.3), which have the same rules.

use crate::h1::Limits;
use crate::h1::line::imitates;
use crate::h1::request::METHOD_BYTES_MAX;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, Scheme, Version};
use freshet_http::priority::Priority;
use freshet_http::target;

/// What a field counts besides its text (RFC 9113 §6.5.2).
pub(crate) const FIELD_OVERHEAD_BYTES: usize = 32;

/// Fields that HTTP/2 forbids, because they are about a connection (RFC 9113 §8.2.2).
const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"];

/// A request without its body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// Its head.
    pub head: RequestHead,
    /// Length of the body, where the client told it.
    pub length: Option<u64>,
    /// Whether no body follows.
    pub ends: bool,
    /// Bytes of its frames' payloads.
    pub head_bytes: usize,
    /// Bytes of its fields with what each costs besides (RFC 9113 §6.5.2). The fields a client
    /// refers to by number are here and not in `head_bytes`.
    pub list_bytes: usize,
    /// What it says about the order of responses.
    pub(crate) priority: Priority,
}

/// What a head that is refused says of its request, as far as that was read: empty where it says nothing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Said {
    /// The method.
    pub method: String,
    /// `:authority`.
    pub authority: String,
    /// The path, its first 1,024 bytes.
    pub path: String,
}

/// Bytes of a path that are told of a request that is refused.
const PATH_SAID_BYTES_MAX: usize = 1024;

/// Why a request is not served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wrong {
    /// Not a request: the stream is reset (RFC 9113 §8.1.1).
    Malformed,
    /// The same, of one that announces a body and is over.
    MissingBody,
    /// A request over a limit, or one that HTTP/1 would answer so.
    Status(u16),
}

/// A head of which the fields come one by one. Fields over the limits are not kept.
pub(crate) struct HeadBuilder<'a> {
    limits: &'a Limits,
    is_trailers: bool,
    fields: Fields,
    method: Option<Method>,
    has_scheme: bool,
    authority: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
    cookies: Vec<u8>,
    length: Option<u64>,
    has_regular: bool,
    list_bytes: usize,
    count: usize,
    is_malformed: bool,
    status: Option<u16>,
}

impl<'a> HeadBuilder<'a> {
    /// For a request's head, or for its trailers.
    pub(crate) fn new(limits: &'a Limits, is_trailers: bool) -> Self {
        Self {
            limits,
            is_trailers,
            fields: Fields::new(),
            method: None,
            has_scheme: false,
            authority: None,
            path: None,
            host: None,
            cookies: Vec::new(),
            length: None,
            has_regular: false,
            list_bytes: 0,
            count: 0,
            is_malformed: false,
            status: None,
        }
    }

    /// Takes the next field.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        // Counted before any of it is kept.
        self.list_bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if self.list_bytes > self.limits.head_bytes_max {
            self.status = Some(431);
        }
        if self.is_malformed || self.status.is_some() {
            return;
        }
        let taken = match name.strip_prefix(b":") {
            Some(pseudo) => self.pseudo(pseudo, value),
            None => self.regular(name, value),
        };
        self.is_malformed = taken.is_none();
    }

    /// A pseudo-header field; `None` when it may not be there.
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        if self.is_trailers || (self.has_regular && self.is_strict()) {
            return None;
        }
        match name {
            b"method" if self.method.is_none() => {
                let is_token = !value.is_empty() && value.iter().all(|byte| is_token(*byte));
                let name = std::str::from_utf8(value).ok().filter(|_| is_token)?;
                if name.len() > METHOD_BYTES_MAX && self.is_strict() {
                    self.status = Some(501);
                }
                self.method = Some(Method::from_name(name));
            }
            b"scheme" if !self.has_scheme => {
                self.has_scheme = true;
                // Those in front of a node say either, whichever way they come. Of another it has nothing.
                let is_known =
                    [&b"http"[..], b"https"].iter().any(|one| value.eq_ignore_ascii_case(one));
                if !is_known && self.is_strict() {
                    self.status = Some(421);
                }
            }
            b"authority" if self.authority.is_none() => self.authority = Some(value.to_vec()),
            b"path" if self.path.is_none() => {
                if value.len() > self.limits.target_bytes_max {
                    self.status = Some(414);
                    self.path = Some(value[..value.len().min(PATH_SAID_BYTES_MAX)].to_vec());
                    return Some(());
                }
                self.path = Some(value.to_vec());
            }
            _ => return None,
        }
        Some(())
    }

    /// An ordinary field; `None` when it may not be there.
    fn regular(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        self.has_regular = true;
        // What a cookie is split into is one field, and counts by its bytes.
        let is_crumb = name == b"cookie" && !self.cookies.is_empty();
        self.count += usize::from(!is_crumb);
        if self.count > self.limits.fields_max {
            self.status = Some(431);
            return Some(());
        }
        if !is_name(name) || !is_value(value, self.is_strict()) {
            return None;
        }
        match name {
            _ if CONNECTION_FIELDS.contains(&name) => return None,
            _ if self.is_strict() && is_framing_lookalike(name) => return None,
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => return None,
            _ if self.is_trailers && is_forbidden_in_trailers(name) => return None,
            // Of trailers nothing is kept: no origin is sent any.
            _ if self.is_trailers => {}
            b"host" if self.host.is_some() && !self.is_strict() => {
                self.status = self.status.or(Some(400));
            }
            b"host" if self.host.is_some() => return None,
            b"host" => self.host = Some(value.to_vec()),
            // Split for compression on the way, one field for everybody else (RFC 9113 §8.2.3).
            b"cookie" => {
                if !self.cookies.is_empty() {
                    self.cookies.extend_from_slice(b"; ");
                }
                self.cookies.extend_from_slice(value);
            }
            b"content-length" => {
                let length = length(value)?;
                if self.length.is_some_and(|other| other != length) {
                    return None;
                }
                if self.length.replace(length).is_none() {
                    self.fields.append(name, value);
                }
            }
            _ => self.fields.append(name, value),
        }
        Some(())
    }

    fn is_strict(&self) -> bool {
        !self.limits.takes_loose_heads
    }

    /// Trailers are over.
    pub(crate) fn finish_trailers(self) -> Result<(), Wrong> {
        // Those over the limit are dropped like all others.
        if self.is_malformed { Err(Wrong::Malformed) } else { Ok(()) }
    }

    /// What it says, for the log.
    pub(crate) fn said(&self) -> Said {
        let text = |bytes: Option<&Vec<u8>>| {
            let bytes =
                bytes.map_or(&[][..], |bytes| &bytes[..bytes.len().min(PATH_SAID_BYTES_MAX)]);
            String::from_utf8_lossy(bytes).into_owned()
        };
        Said {
            method: self.method.as_ref().map_or(String::new(), |method| method.as_str().to_owned()),
            authority: text(self.authority.as_ref().or(self.host.as_ref())),
            path: text(self.path.as_ref()),
        }
    }

    /// The request, of which the fields took `head_bytes` on the wire. `ends` says that no body
    /// follows.
    pub(crate) fn finish(
        &mut self,
        version: Version,
        scheme: Scheme,
        ends: bool,
        head_bytes: usize,
    ) -> Result<Request, Wrong> {
        if self.is_malformed {
            return Err(Wrong::Malformed);
        }
        if let Some(status) = self.status {
            return Err(Wrong::Status(status));
        }
        let method = self.method.clone().ok_or(Wrong::Malformed)?;
        if self.is_strict() && method.is_lookalike() {
            return Err(Wrong::Status(501));
        }
        let target = self.target(&method)?;
        let authority = self.authority()?;
        if ends && self.length.is_some_and(|length| length > 0) {
            return Err(Wrong::MissingBody);
        }
        if !self.cookies.is_empty() {
            self.fields.append("cookie", &self.cookies);
        }
        let priority = self.fields.get("priority").map(Priority::parse).unwrap_or_default();
        let fields = std::mem::take(&mut self.fields);
        let head = RequestHead { method, scheme, authority, target, version, fields };
        let list_bytes = self.list_bytes;
        Ok(Request { head, length: self.length, ends, head_bytes, list_bytes, priority })
    }

    /// `:path`; CONNECT has neither it nor a scheme (RFC 9113 §8.5).
    fn target(&self, method: &Method) -> Result<String, Wrong> {
        let path = self.path.as_deref();
        if *method == Method::Connect && self.is_strict() {
            let is_connect = path.is_none() && !self.has_scheme && self.authority.is_some();
            return if is_connect { Ok("/".into()) } else { Err(Wrong::Malformed) };
        }
        if self.is_strict() && !self.has_scheme {
            return Err(Wrong::Malformed);
        }
        let path = path.ok_or(Wrong::Malformed)?;
        let is_of_server = path == b"*" && *method == Method::Options;
        let is_rooted = path.first() == Some(&b'/') || is_of_server;
        let is_taken = |byte: u8| !matches!(byte, b'#' | b' ');
        if !is_rooted || !path.iter().all(|byte| is_taken(*byte)) {
            return Err(Wrong::Malformed);
        }
        let encoded = target::encoded(path).ok_or(Wrong::Malformed)?;
        // In a path some servers take it for `/`.
        let is_misread = encoded.bytes().find(|byte| matches!(byte, b'?' | b'\\')) == Some(b'\\');
        if is_misread && self.is_strict() {
            return Err(Wrong::Status(400));
        }
        Ok(encoded.into_owned())
    }

    /// `:authority`, or `Host` without it; both must agree where both are there (RFC 9113 §8.3.1).
    fn authority(&self) -> Result<String, Wrong> {
        let authority = match (self.authority.as_deref(), self.host.as_deref()) {
            (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
                return Err(if self.is_strict() { Wrong::Malformed } else { Wrong::Status(400) });
            }
            (Some(authority), _) => authority,
            (None, Some(host)) => host,
            (None, None) if self.is_strict() => return Err(Wrong::Status(400)),
            (None, None) => return Ok(String::new()),
        };
        match target::parse_authority(authority) {
            Ok(authority) => Ok(authority),
            // Not a request at all where there are control signs (RFC 9113 §8.2.1).
            Err(_) if authority.iter().any(|byte| !byte.is_ascii_graphic()) => {
                Err(Wrong::Malformed)
            }
            Err(_) => Err(Wrong::Status(400)),
        }
    }
}

/// Whether a field may be sent, as RFC 9113 §8.2.1 has it.
pub(crate) fn is_field(name: &[u8], value: &[u8]) -> bool {
    is_name(name) && is_value(value, true)
}

/// Whether a name is a token in lower case.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= usize::from(u16::MAX)
        && name.iter().all(|byte| is_token(*byte) && !byte.is_ascii_uppercase())
}

/// Whether a value has only what a value may; a strict one no space at its ends.
fn is_value(value: &[u8], is_strict: bool) -> bool {
    let is_control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !value.iter().any(|byte| is_control(*byte))
        && !(is_strict && (is_space(value.first()) || is_space(value.last())))
}

/// Whether a field is about a connection and has no place in HTTP/2 and HTTP/3.
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    CONNECTION_FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Fields that a sender must not put into trailers (RFC 9110 §6.5.1) and that only make sense there as an attempt to
/// have somebody merge them. Others that do not belong there are harmless while nobody merges.
pub(crate) fn is_forbidden_in_trailers(name: &[u8]) -> bool {
    let forbidden: [&[u8]; 4] = [b"content-length", b"host", b"transfer-encoding", b"connection"];
    forbidden.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// A `content-length`: digits.
pub(crate) fn length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

/// RFC 9110 §5.6.2
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether gateways behind an origin may take it for what frames a message in HTTP/1: which the node
/// says itself there.
fn is_framing_lookalike(name: &[u8]) -> bool {
    name.contains(&b'_')
        && match name.len() {
            14 => imitates(name, b"content-length"),
            17 => imitates(name, b"transfer-encoding"),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_over_http_1() {
        let path = |path: &str| {
            let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "a")];
            let read = strict(&[&fields[..], &[(":path", path)]].concat());
            read.map(|request| request.head.target)
        };
        assert_eq!(path("/b\u{fc}cher?\"").as_deref(), Ok("/b%C3%BCcher?%22"));
        assert_eq!(path("/a?b\\c|d").as_deref(), Ok("/a?b\\c|d"));
        assert_eq!(path("/a\\..\\b"), Err(Wrong::Status(400)));
        for malformed in ["/a b", "/a#b", "/a\tb", "/\u{fc}\u{7f}"] {
            assert_eq!(path(malformed), Err(Wrong::Malformed), "{malformed}");
        }
    }

    #[test]
    fn methods_and_schemes_are_bounded_as_over_http_1() {
        let with = |method: &str, scheme: &str| {
            strict(&[(":method", method), (":scheme", scheme), GET[2], GET[3]]).map(|_| ())
        };
        assert_eq!(with(&"A".repeat(METHOD_BYTES_MAX), "HTTP"), Ok(()));
        assert_eq!(with(&"A".repeat(METHOD_BYTES_MAX + 1), "http"), Err(Wrong::Status(501)));
        for other in ["ftp", "", "httpss"] {
            assert_eq!(with("GET", other), Err(Wrong::Status(421)), "{other}");
        }
    }

    #[test]
    fn what_imitates_framing_is_refused_as_over_http_1() {
        for name in ["transfer_encoding", "content_length"] {
            assert_eq!(strict(&and(&[(name, "5")])), Err(Wrong::Malformed), "{name}");
        }
        assert!(strict(&and(&[("content_lengths", "5"), ("content_type", "a")])).is_ok());
    }

    fn read(limits: &Limits, fields: &[(&str, &str)]) -> Result<Request, Wrong> {
        let mut builder = HeadBuilder::new(limits, false);
        for (name, value) in fields {
            builder.field(name.as_bytes(), value.as_bytes());
        }
        builder.finish(Version::Http2, Scheme::Https, true, 0)
    }

    fn strict(fields: &[(&str, &str)]) -> Result<Request, Wrong> {
        read(&Limits::default(), fields)
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "A.test")];

    fn and(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&GET[..], more].concat()
    }

    #[test]
    fn a_request_is_brought_to_the_form_of_all() {
        let fields =
            and(&[("accept", "*/*"), ("cookie", "a=1"), ("cookie", "b=2"), ("priority", "u=1")]);
        let request = strict(&fields).expect("it is well formed");
        assert_eq!((request.head.method, request.head.scheme), (Method::Get, Scheme::Https));
        assert_eq!((&*request.head.authority, &*request.head.target), ("a.test", "/a?b"));
        assert_eq!(request.head.fields.get("cookie"), Some(&b"a=1; b=2"[..]));
        assert_eq!(request.head.fields.len(), 3);
        assert_eq!(request.priority, Priority { urgency: 1, incremental: false });
    }

    #[test]
    fn what_is_not_a_request_is_malformed() {
        for more in [
            (":method", "GET"),
            (":status", "200"),
            (":bla", "x"),
            ("", "x"),
            ("Upper", "x"),
            ("a b", "x"),
            ("a", "x\ny"),
            ("a", " x"),
            ("a", "x\t"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("content-length", "+1"),
            ("content-length", ""),
            ("host", "b.test"),
        ] {
            assert_eq!(strict(&and(&[more])), Err(Wrong::Malformed), "{more:?}");
        }
        assert_eq!(
            strict(&and(&[("content-length", "0"), ("content-length", "1")])),
            Err(Wrong::Malformed)
        );
        assert_eq!(strict(&and(&[("content-length", "1")])), Err(Wrong::MissingBody));
        let loose = Limits { takes_loose_heads: true, ..Limits::default() };
        for hosts in [&[("host", "b.test")][..], &[("host", "a.test"), ("host", "a.test")]] {
            assert_eq!(read(&loose, &and(hosts)), Err(Wrong::Status(400)), "{hosts:?}");
        }
        for path in ["", "a", "http://a/", "/a b", "/a#b", "/\u{7f}"] {
            let fields = [GET[0], GET[1], (":path", path), GET[3]];
            assert_eq!(strict(&fields), Err(Wrong::Malformed), "{path}");
        }
        for missing in &GET[..3] {
            let fields: Vec<_> = GET.into_iter().filter(|field| field != missing).collect();
            assert_eq!(strict(&fields), Err(Wrong::Malformed), "without {missing:?}");
        }
    }

    #[test]
    fn limits_have_a_status_and_keep_nothing() {
        let limits = Limits {
            head_bytes_max: 1000,
            fields_max: 3,
            target_bytes_max: 10,
            ..Limits::default()
        };
        let long = [GET[0], GET[1], (":path", "/0123456789"), GET[3]];
        assert_eq!(read(&limits, &long), Err(Wrong::Status(414)));
        assert_eq!(read(&limits, &and(&[("a", "1"); 4])), Err(Wrong::Status(431)));
        let large = "x".repeat(900);
        let mut builder = HeadBuilder::new(&limits, false);
        for _ in 0..1000 {
            builder.field(b"a", large.as_bytes());
        }
        assert!(builder.fields.heap_bytes() < 2000);
        assert_eq!(builder.finish(Version::Http2, Scheme::Http, true, 0), Err(Wrong::Status(431)));
        assert_eq!(strict(&GET[..3]), Err(Wrong::Status(400)));
        assert_eq!(
            strict(&[GET[0], GET[1], GET[2], (":authority", "a@b")]),
            Err(Wrong::Status(400))
        );
    }

    #[test]
    fn a_cookie_in_crumbs_is_one_field_and_counts_by_its_bytes() {
        let limits = Limits { fields_max: 3, ..Limits::default() };
        let crumbs = [("cookie", "a=1"); 200];
        let request = read(&limits, &and(&crumbs)).expect("200 crumbs have 8,200 bytes");
        assert_eq!(request.head.fields.get("cookie").map(<[u8]>::len), Some(200 * 5 - 2));
        let large = [("cookie", "a=1"); 1000];
        assert_eq!(read(&limits, &and(&large)), Err(Wrong::Status(431)));
    }

    #[test]
    fn varnish_takes_what_clients_of_varnish_send() {
        let limits = Limits { takes_loose_heads: true, ..Limits::default() };
        let fields = [("foo", "bar"), (":path", "/"), (":method", "GET")];
        let request = read(&limits, &fields).expect("Varnish takes it");
        assert_eq!((&*request.head.authority, &*request.head.target), ("", "/"));
        assert_eq!(strict(&fields), Err(Wrong::Malformed));
    }

    #[test]
    fn connect_has_an_authority_alone() {
        assert!(strict(&[(":method", "CONNECT"), (":authority", "a.test:443")]).is_ok());
        assert_eq!(strict(&[(":method", "CONNECT"), GET[2], GET[3]]), Err(Wrong::Malformed));
    }

    #[test]
    fn trailers_have_no_pseudo_header_fields() {
        let limits = Limits::default();
        let malformed = Err(Wrong::Malformed);
        for (name, want) in [
            ("x-sum", Ok(())),
            (":path", malformed),
            ("content-length", malformed),
            ("host", malformed),
        ] {
            let mut builder = HeadBuilder::new(&limits, true);
            builder.field(name.as_bytes(), b"/");
            assert_eq!(builder.finish_trailers(), want);
        }
    }
}
