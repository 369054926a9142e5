//! Request heads (RFC 9112 §3, §5, §6).

use super::line::{self, Line, LineError, imitates};
use super::{Framing, Limits, scan};
use crate::error_table::error_table;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, Scheme, Version};
use freshet_http::target;
use std::borrow::Cow;

/// Bytes of a method. The longest registered one has 17.
pub(crate) const METHOD_BYTES_MAX: usize = 32;

/// Most options of `Connection`. Each is compared with all fields wherever they are passed on, and clients send
/// one to three.
const CONNECTION_OPTIONS_MAX: usize = 32;

/// Bytes of a host that is checked here; every name in the DNS is shorter.
const PLAIN_NAME_BYTES_MAX: usize = 253;

/// A request head and what it says about the connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The head. `fields` holds every line but `Host`, framing and hop-by-hop ones included.
    pub head: RequestHead,
    /// How the body that follows is framed; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client lets the connection be used again (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// Whether the client waits for a 100 before it sends the body (RFC 9110 §10.1.1); only where
    /// there is a body.
    pub expect_continue: bool,
    /// Whether the client asks for another protocol: `Upgrade`, named in `Connection` (RFC 9110
    /// §7.8), and no body that would stand between the two. Which protocols may be let through, and
    /// never `h2c`, is the caller's decision.
    pub upgrade: bool,
    /// Bytes of the buffer the head took; the body starts there.
    pub head_bytes: usize,
}

error_table! {
    /// Why a request head is refused. The connection must be closed after the answer: where the
    /// next request would start is not known.
    RequestError {
        ClientBareCarriageReturn = 400, "a CR without LF in the head";
        ClientBareLineFeed = 400, "a line ending of LF alone in the head";
        ClientConnect = 501, "CONNECT is not served here";
        ClientConnectionTooMany = 400, "more options in Connection than anybody has";
        ClientContentLengthInvalid = 400, "Content-Length is not a plain decimal number";
        ClientContentLengthRepeated = 400, "more than one Content-Length";
        ClientContentLengthWithTransferEncoding = 400, "both Content-Length and Transfer-Encoding";
        ClientExpectation = 417, "an expectation other than 100-continue";
        ClientFieldControl = 400, "a control character in a field value";
        ClientFieldFolded = 400, "a folded field line";
        ClientFieldLookalike = 400, "a field name that imitates a framing field";
        ClientFieldNameInvalid = 400, "a field name that is not a token";
        ClientFieldNameTooLong = 431, "a field name is too long";
        ClientFieldSpaceBeforeColon = 400, "whitespace between a field name and its colon";
        ClientFieldTooLong = 431, "a field line is too long";
        ClientFieldWithoutColon = 400, "a field line without a colon";
        ClientFieldsTooMany = 431, "too many field lines";
        ClientHeadTooLarge = 431, "the head is too large";
        ClientHostInvalid = 400, "Host is not a valid host and port";
        ClientHostMissing = 400, "no Host in an HTTP/1.1 request";
        ClientHostRepeated = 400, "more than one Host";
        ClientMethodInvalid = 400, "the method is not a token";
        ClientMethodLookalike = 501, "a method that some servers take for another";
        ClientMethodTooLong = 501, "the method is longer than any known one";
        ClientRequestLineEnding = 400, "the request line does not end after the version";
        ClientSchemeMisdirected = 421, "the scheme of the target is not the one of the connection";
        ClientTargetForm = 400, "the target is no path, no absolute URI and no asterisk of OPTIONS";
        ClientTargetInvalid = 400, "the target has a character that must be encoded";
        ClientTargetTooLong = 414, "the target is too long";
        ClientTraceWithBody = 400, "TRACE with a body";
        ClientTransferCodingUnknown = 501, "a transfer coding besides chunked";
        ClientTransferEncodingHttp10 = 400, "Transfer-Encoding in an HTTP/1.0 request";
        ClientTransferEncodingInvalid = 400, "Transfer-Encoding does not end in a single chunked";
        ClientVersionInvalid = 400, "the request line has no valid HTTP version";
        ClientVersionUnsupported = 505, "an HTTP version other than 1.0 and 1.1";
    }
}

impl From<LineError> for RequestError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::BareCarriageReturn => Self::ClientBareCarriageReturn,
            LineError::BareLineFeed => Self::ClientBareLineFeed,
            LineError::Folded => Self::ClientFieldFolded,
            LineError::NameInvalid => Self::ClientFieldNameInvalid,
            LineError::NameTooLong => Self::ClientFieldNameTooLong,
            LineError::NoColon => Self::ClientFieldWithoutColon,
            LineError::SpaceBeforeColon => Self::ClientFieldSpaceBeforeColon,
            LineError::ValueControl => Self::ClientFieldControl,
        }
    }
}

/// Reads the request head at the start of `buffer`, which came over a connection of `scheme`.
///
/// One empty line in front is skipped (RFC 9112 §2.2). `Ok(None)` means that the head is not
/// complete and nothing is wrong with what is there: errors and limits are found as soon as the
/// bytes that prove them have arrived, so a client that ends its lines with LF alone is told at
/// once. An incomplete head costs one walk over its bytes and allocates nothing; a complete one
/// costs four allocations.
///
/// Bytes of the target that browsers encode and others send as they are, as umlauts, are encoded.
///
/// An absolute target is split: its authority wins over `Host` (RFC 9112 §3.2.2), which must be
/// valid all the same. `authority` is lower case.
///
/// In loose heads ([`Limits::takes_loose_heads`]) folded lines are joined, lines may end with LF alone,
/// methods and targets are any visible signs (of targets only bytes above ASCII are encoded), `Host` may
/// be missing, and of versions only 1.0 and 1.1 are taken.
///
/// # Errors
/// [`RequestError`], which knows the status to answer with.
pub fn parse(
    buffer: &[u8],
    scheme: Scheme,
    limits: &Limits,
) -> Result<Option<Request>, RequestError> {
    if limits.takes_loose_heads {
        return varnish::parse(buffer, scheme, limits);
    }
    let window = &buffer[..buffer.len().min(limits.head_bytes_max)];
    // Without pipelining and bodies a read ends where the head ends, and no search is needed. The
    // place found here only says how much room the fields may take.
    let end =
        if window.ends_with(b"\r\n\r\n") { Some(window.len()) } else { scan::head_end(window) };
    let mut fields = Fields::new();
    let walk = walk(window, limits, end.map(|end| (&mut fields, end)))?;
    let (Some(walk), Some(_)) = (walk, end) else {
        if window.len() < limits.head_bytes_max {
            return Ok(None);
        }
        return Err(RequestError::ClientHeadTooLarge);
    };
    finish(walk, fields, scheme).map(Some)
}

/// The parts of a head as slices of the buffer.
struct Walk<'a> {
    method: &'a [u8],
    target: Cow<'a, str>,
    version: Version,
    marks: Marks<'a>,
    head_bytes: usize,
}

/// The fields that decide framing and routing, noted in passing.
#[derive(Default)]
struct Marks<'a> {
    host: Option<&'a [u8]>,
    content_length: Option<u64>,
    transfer_encoding: Option<&'a [u8]>,
    close: bool,
    keep_alive: bool,
    connection_upgrade: bool,
    connection_options: usize,
    upgrade: bool,
    expect: bool,
    expect_other: bool,
}

/// Walks the head and judges every byte. With `fields` and the length that the head may have, its
/// lines are collected; without, nothing is allocated.
#[inline]
fn walk<'a>(
    buffer: &'a [u8],
    limits: &Limits,
    fields: Option<(&mut Fields, usize)>,
) -> Result<Option<Walk<'a>>, RequestError> {
    let start = match buffer {
        [b'\r', b'\n', ..] => 2,
        [b'\r'] => return Ok(None),
        _ => 0,
    };
    let Some((method, target, version, mut at)) = request_line(buffer, start, limits)? else {
        return Ok(None);
    };
    let mut fields = fields.map(|(fields, head_len)| {
        *fields = Fields::with_capacity(head_len.saturating_sub(at));
        fields
    });
    let mut marks = Marks::default();
    let mut count = 0;
    loop {
        match line::read(buffer, at, false)? {
            Line::Field { name, value, next } => {
                count += 1;
                if count > limits.fields_max {
                    return Err(RequestError::ClientFieldsTooMany);
                }
                let is_host = marks.note(name, value)?;
                if let Some(fields) = &mut fields
                    && !is_host
                {
                    fields.append(name, value);
                }
                at = next;
            }
            Line::End { next } => {
                return Ok(Some(Walk { method, target, version, marks, head_bytes: next }));
            }
            Line::Incomplete => return Ok(None),
        }
    }
}

type RequestLine<'a> = (&'a [u8], Cow<'a, str>, Version, usize);

/// The request line that starts at `start`, and where the next line does.
#[inline]
fn request_line<'a>(
    buffer: &'a [u8],
    start: usize,
    limits: &Limits,
) -> Result<Option<RequestLine<'a>>, RequestError> {
    let rest = &buffer[start..];
    let method_len = scan::token_len(rest);
    if method_len > METHOD_BYTES_MAX {
        return Err(RequestError::ClientMethodTooLong);
    }
    match rest.get(method_len) {
        Some(b' ') if method_len > 0 => {}
        Some(_) => return Err(RequestError::ClientMethodInvalid),
        None => return Ok(None),
    }
    let (method, rest) = (&rest[..method_len], &rest[method_len + 1..]);
    let mut target_len = scan::target_len(rest);
    let is_loose = rest.get(target_len).is_some_and(|byte| scan::is_to_encode(*byte));
    if is_loose {
        target_len = scan::loose_target_len(rest);
    }
    if target_len > limits.target_bytes_max {
        return Err(RequestError::ClientTargetTooLong);
    }
    match rest.get(target_len) {
        Some(b' ') if target_len > 0 => {}
        Some(b'\r' | b'\n') => return Err(RequestError::ClientVersionInvalid),
        Some(_) => return Err(RequestError::ClientTargetInvalid),
        None => return Ok(None),
    }
    let (target, rest) = (&rest[..target_len], &rest[target_len + 1..]);
    let target = match is_loose {
        false => Cow::Borrowed(ascii(target)),
        true => target::encoded(target).ok_or(RequestError::ClientTargetInvalid)?,
    };
    let next = start + method_len + target_len + 2 + VERSION_LINE.len();
    if rest.starts_with(VERSION_LINE) {
        return Ok(Some((method, target, Version::Http11, next)));
    }
    Ok(other_version(rest)?.map(|version| (method, target, version, next)))
}

const VERSION_LINE: &[u8] = b"HTTP/1.1\r\n";

/// A version that is not plainly 1.1, or not complete. A higher minor version of 1 is treated as
/// 1.1 (RFC 9110 §2.5).
#[cold]
fn other_version(rest: &[u8]) -> Result<Option<Version>, RequestError> {
    for (index, want) in VERSION_LINE.iter().enumerate() {
        let Some(byte) = rest.get(index) else { return Ok(None) };
        let fits = if want.is_ascii_digit() { byte.is_ascii_digit() } else { byte == want };
        match index {
            _ if fits => {}
            9 => return Err(RequestError::ClientBareCarriageReturn),
            8 if *byte == b'\n' => return Err(RequestError::ClientBareLineFeed),
            8 => return Err(RequestError::ClientRequestLineEnding),
            _ => return Err(RequestError::ClientVersionInvalid),
        }
    }
    match (rest.get(5), rest.get(7)) {
        (Some(b'1'), Some(b'0')) => Ok(Some(Version::Http10)),
        (Some(b'1'), Some(_)) => Ok(Some(Version::Http11)),
        _ => Err(RequestError::ClientVersionUnsupported),
    }
}

impl<'a> Marks<'a> {
    /// Notes a field; true for `Host`.
    #[inline]
    fn note(&mut self, name: &[u8], value: &'a [u8]) -> Result<bool, RequestError> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                if self.host.replace(value).is_some() {
                    return Err(RequestError::ClientHostRepeated);
                }
                return Ok(true);
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                let known = value.eq_ignore_ascii_case(b"100-continue");
                self.expect |= known;
                self.expect_other |= !known;
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => self.upgrade = true,
            10 if name.eq_ignore_ascii_case(b"connection") => self.note_connection(value)?,
            14 if imitates(name, b"content-length") => self.note_length(name, value)?,
            17 if imitates(name, b"transfer-encoding") => self.note_coding(name, value)?,
            _ => {}
        }
        Ok(false)
    }

    fn note_connection(&mut self, value: &[u8]) -> Result<(), RequestError> {
        for option in value.split(|byte| *byte == b',').map(line::trim) {
            self.connection_options += 1;
            if self.connection_options > CONNECTION_OPTIONS_MAX {
                return Err(RequestError::ClientConnectionTooMany);
            }
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.connection_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
        Ok(())
    }

    fn note_length(&mut self, name: &[u8], value: &[u8]) -> Result<(), RequestError> {
        if name.contains(&b'_') {
            return Err(RequestError::ClientFieldLookalike);
        }
        let length = content_length(value).ok_or(RequestError::ClientContentLengthInvalid)?;
        if self.content_length.replace(length).is_some() {
            return Err(RequestError::ClientContentLengthRepeated);
        }
        Ok(())
    }

    fn note_coding(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), RequestError> {
        if name.contains(&b'_') {
            return Err(RequestError::ClientFieldLookalike);
        }
        if self.transfer_encoding.replace(value).is_some() {
            return Err(RequestError::ClientTransferEncodingInvalid);
        }
        Ok(())
    }

    /// RFC 9112 §6.1 and §6.3, the refusing side of every choice.
    fn framing(&self, version: Version) -> Result<Framing, RequestError> {
        let Some(coding) = self.transfer_encoding else {
            return Ok(self.content_length.map_or(Framing::None, Framing::Length));
        };
        if self.content_length.is_some() {
            return Err(RequestError::ClientContentLengthWithTransferEncoding);
        }
        if version == Version::Http10 {
            return Err(RequestError::ClientTransferEncodingHttp10);
        }
        if coding.eq_ignore_ascii_case(b"chunked") {
            return Ok(Framing::Chunked);
        }
        Err(other_coding(coding))
    }
}

/// A number without sign, list and leading zeros: every other spelling is read in two ways by
/// somebody.
fn content_length(value: &[u8]) -> Option<u64> {
    if !value.iter().all(u8::is_ascii_digit) || (value.len() > 1 && value.starts_with(b"0")) {
        return None;
    }
    str::from_utf8(value).ok()?.parse().ok()
}

/// Known syntax that ends in one `chunked` asks for a coding that is not here (501); anything else
/// has no end that can be found (400).
#[cold]
fn other_coding(coding: &[u8]) -> RequestError {
    let mut members = coding.split(|byte| *byte == b',').map(line::trim);
    let is_token = |member: &[u8]| !member.is_empty() && scan::token_len(member) == member.len();
    let is_chunked = |member: &[u8]| member.eq_ignore_ascii_case(b"chunked");
    let last_is_chunked = members.next_back().is_some_and(is_chunked);
    if last_is_chunked && members.all(|member| is_token(member) && !is_chunked(member)) {
        return RequestError::ClientTransferCodingUnknown;
    }
    RequestError::ClientTransferEncodingInvalid
}

/// Judges the head as a whole and builds the request.
#[inline]
fn finish(walk: Walk<'_>, fields: Fields, scheme: Scheme) -> Result<Request, RequestError> {
    let Walk { method, target, version, marks, head_bytes } = walk;
    let method = Method::from_name(ascii(method));
    let framing = marks.framing(version)?;
    let has_body = !matches!(framing, Framing::None | Framing::Length(0));
    let host = match marks.host {
        Some(host) => authority(host)?,
        None if version == Version::Http10 => String::new(),
        None => return Err(RequestError::ClientHostMissing),
    };
    let (authority, target) = match (&method, &*target) {
        (Method::Connect, _) => return Err(RequestError::ClientConnect),
        (Method::Other(_), _) if method.is_lookalike() => {
            return Err(RequestError::ClientMethodLookalike);
        }
        (Method::Trace, _) if has_body => return Err(RequestError::ClientTraceWithBody),
        (_, path) if path.starts_with('/') => {
            checked_path(path)?;
            (host, target.into_owned())
        }
        (Method::Options, "*") => (host, "*".to_owned()),
        (_, other) => absolute(other, &method, scheme)?,
    };
    let is_11 = version == Version::Http11;
    if is_11 && marks.expect_other {
        return Err(RequestError::ClientExpectation);
    }
    Ok(Request {
        head: RequestHead { method, scheme, authority, target, version, fields },
        framing,
        keep_alive: !marks.close && (is_11 || marks.keep_alive),
        expect_continue: is_11 && marks.expect && has_body,
        upgrade: is_11 && marks.upgrade && marks.connection_upgrade && !has_body,
        head_bytes,
    })
}

/// Host and port in the one form that every protocol brings them to.
#[inline]
fn authority(value: &[u8]) -> Result<String, RequestError> {
    if value.len() <= PLAIN_NAME_BYTES_MAX && scan::is_plain_name(value) {
        return Ok(ascii(value).to_owned());
    }
    target::parse_authority(value).map_err(|_| RequestError::ClientHostInvalid)
}

/// Methods and targets have been scanned for bytes that are all ASCII.
fn ascii(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("the scan let only ASCII through")
}

/// Browsers send `\` only behind the `?`; in a path some servers take it for `/`.
#[inline]
fn checked_path(target: &str) -> Result<&str, RequestError> {
    match target.bytes().find(|byte| matches!(byte, b'?' | b'\\')) {
        Some(b'\\') => Err(RequestError::ClientTargetInvalid),
        _ => Ok(target),
    }
}

/// Authority and path of an absolute target (RFC 9112 §3.2.2, §3.2.4).
fn absolute(
    target: &str,
    method: &Method,
    scheme: Scheme,
) -> Result<(String, String), RequestError> {
    let (name, rest) = target.split_once("://").ok_or(RequestError::ClientTargetForm)?;
    let named = match name {
        name if name.eq_ignore_ascii_case("http") => Scheme::Http,
        name if name.eq_ignore_ascii_case("https") => Scheme::Https,
        _ => return Err(RequestError::ClientTargetForm),
    };
    if named != scheme {
        return Err(RequestError::ClientSchemeMisdirected);
    }
    let authority_len = rest.find(['/', '?']).unwrap_or(rest.len());
    let (named, path) = rest.split_at(authority_len);
    let authority = authority(named.as_bytes())?;
    let path = match checked_path(path)? {
        "" if *method == Method::Options => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    Ok((authority, path))
}

mod varnish;

#[cfg(test)]
mod smuggling_tests;
#[cfg(test)]
mod tests;
