//! Request heads as Varnish reads them.
//!
//! The same fields decide framing, by the same rules, as in the strict reading; only the shape of
//! lines is taken more freely. What is read freely is written strictly: no folded line and no
//! control sign leaves this parser.

use super::{Framing, Limits, Marks, Request, RequestError, authority};
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, Scheme, Version};
use freshet_http::target;
use std::borrow::Cow;

/// Empty lines in front of a request that are skipped.
const EMPTY_BYTES_MAX: usize = 64;

pub(super) fn parse(
    buffer: &[u8],
    scheme: Scheme,
    limits: &Limits,
) -> Result<Option<Request>, RequestError> {
    let start = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    if start > EMPTY_BYTES_MAX {
        return Err(RequestError::ClientMethodInvalid);
    }
    let window = &buffer[..buffer.len().min(start + limits.head_bytes_max)];
    let text = &window[start..];
    let Some(len) = head_len(text) else {
        if window.len() < start + limits.head_bytes_max {
            return Ok(None);
        }
        return Err(RequestError::ClientHeadTooLarge);
    };
    let mut lines = Lines { text: &text[..len], at: 0 };
    let first = lines.next().unwrap_or_default();
    let (method, target, version) = request_line(&first)?;
    let mut fields = Fields::new();
    let rest: Vec<Vec<u8>> = lines.filter(|line| !line.is_empty()).collect();
    if rest.len() > limits.fields_max {
        return Err(RequestError::ClientFieldsTooMany);
    }
    let mut marks = Marks::default();
    for line in &rest {
        if line.len() > limits.line_bytes_max {
            return Err(RequestError::ClientFieldTooLong);
        }
        let (name, value) = field(line)?;
        if !marks.note(name, value)? {
            fields.append(name, value);
        }
    }
    finish((method, &target, version), &marks, fields, (scheme, start + len), limits).map(Some)
}

/// Bytes of the head up to behind its empty line.
fn head_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].iter().position(|byte| *byte == b'\n')? + 1;
        match &text[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

/// The lines of a head without their ends; what is folded is one line, its ends turned to spaces.
struct Lines<'a> {
    text: &'a [u8],
    at: usize,
}

impl Iterator for Lines<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            self.at += len + 1;
            let part = &rest[..len];
            line.extend_from_slice(part.strip_suffix(b"\r").unwrap_or(part));
            let folded = matches!(self.text.get(self.at), Some(b' ' | b'\t'));
            if !folded || line.is_empty() {
                return Some(line);
            }
            let ends = 1 + usize::from(part.ends_with(b"\r"));
            line.extend(std::iter::repeat_n(b' ', ends));
        }
    }
}

fn request_line(line: &[u8]) -> Result<(&str, Cow<'_, str>, Version), RequestError> {
    let visible = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_graphic);
    let mut parts = line.split(|byte| *byte == b' ').filter(|part| !part.is_empty());
    let method =
        parts.next().filter(|part| visible(part)).ok_or(RequestError::ClientMethodInvalid)?;
    let target = parts.next().filter(|part| !part.is_empty());
    let target =
        target.and_then(target::with_ascii_only).ok_or(RequestError::ClientTargetInvalid)?;
    let version = match (parts.next(), parts.next()) {
        (Some(b"HTTP/1.0"), None) => Version::Http10,
        (Some(b"HTTP/1.1"), None) => Version::Http11,
        _ => return Err(RequestError::ClientVersionInvalid),
    };
    Ok((super::ascii(method), target, version))
}

fn field(line: &[u8]) -> Result<(&[u8], &[u8]), RequestError> {
    let colon = line.iter().position(|byte| *byte == b':');
    let colon = colon.ok_or(RequestError::ClientFieldWithoutColon)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || super::scan::token_len(name) != name.len() {
        return Err(RequestError::ClientFieldNameInvalid);
    }
    if value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
        return Err(RequestError::ClientFieldControl);
    }
    Ok((name, super::line::trim(value)))
}

fn finish(
    (method, target, version): (&str, &str, Version),
    marks: &Marks<'_>,
    fields: Fields,
    (scheme, head_bytes): (Scheme, usize),
    limits: &Limits,
) -> Result<Request, RequestError> {
    let framing = marks.framing(version)?;
    // Nobody means more, and others read it as a negative number.
    if matches!(framing, Framing::Length(length) if length > i64::MAX as u64) {
        return Err(RequestError::ClientContentLengthInvalid);
    }
    let has_body = !matches!(framing, Framing::None | Framing::Length(0));
    // HTTP/1.0 has no other way to say that there is a body.
    if version == Version::Http10 && framing == Framing::None && matches!(method, "POST" | "PUT") {
        return Err(RequestError::ClientContentLengthInvalid);
    }
    let is_11 = version == Version::Http11;
    if is_11 && marks.expect_other {
        return Err(RequestError::ClientExpectation);
    }
    let host = marks.host.map_or(Ok(String::new()), authority)?;
    let (host, target) = match target.split_once("://") {
        Some((name, rest))
            if name.eq_ignore_ascii_case("http")
                || (limits.splits_https && name.eq_ignore_ascii_case("https")) =>
        {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let path = &rest[end..];
            let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
            (authority(&rest.as_bytes()[..end])?, path)
        }
        _ => (host, target.to_owned()),
    };
    Ok(Request {
        head: RequestHead {
            method: Method::from_name(method),
            scheme,
            authority: host,
            target,
            version,
            fields,
        },
        framing,
        keep_alive: !marks.close && (is_11 || marks.keep_alive),
        expect_continue: is_11 && marks.expect && has_body,
        upgrade: is_11 && marks.upgrade && marks.connection_upgrade && !has_body,
        head_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Request>, RequestError> {
        let limits = Limits { takes_loose_heads: true, ..Limits::default() };
        super::super::parse(text.as_bytes(), Scheme::Http, &limits)
    }

    #[test]
    fn lines_are_taken_freely_and_framing_is_not() {
        let read_one = |text: &str| read(text).expect("no mistake").expect("complete");
        let one = read_one("\r\n\r\n:x here HTTP/1.1\nHost: a.b\nA: 1\n 2\n\nrest");
        assert_eq!((one.head.method.as_str(), &*one.head.target), (":x", "here"));
        assert_eq!(one.head.fields.get_str("a"), Some("1  2"));
        assert_eq!(one.head_bytes, "\r\n\r\n:x here HTTP/1.1\nHost: a.b\nA: 1\n 2\n\n".len());
        let one = read_one("GET http://A.b/c HTTP/1.1\r\nHost: d\r\n\r\n");
        assert_eq!((&*one.head.authority, &*one.head.target), ("a.b", "/c"));
        assert_eq!(read_one("GET / HTTP/1.1\r\n\r\n").head.authority, "");
        // Bytes above ASCII in a target, which are one spelling in keys and at origins.
        for (sent, target, host) in [
            (&b"/caf\xc3\xa9?\"q\"=\xfc"[..], "/caf%C3%A9?\"q\"=%FC", "a"),
            (b"http://b/\xe4", "/%E4", "b"),
            (b"\xff", "%FF", "a"),
        ] {
            let text = [b"GET ", sent, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            let limits = Limits { takes_loose_heads: true, ..Limits::default() };
            let one = super::super::parse(&text, Scheme::Http, &limits);
            let head = one.expect("no mistake").expect("complete").head;
            assert_eq!((&*head.target, &*head.authority), (target, host));
        }
        for (text, error) in [
            ("G\u{e4} / HTTP/1.1\r\n\r\n", RequestError::ClientMethodInvalid),
            ("GET /\u{e4}\x7f HTTP/1.1\r\n\r\n", RequestError::ClientTargetInvalid),
            ("GET http://\u{e4}/ HTTP/1.1\r\n\r\n", RequestError::ClientHostInvalid),
            ("GET / HTTP/1.2\r\n\r\n", RequestError::ClientVersionInvalid),
            ("GET /\r\n\r\n", RequestError::ClientVersionInvalid),
            ("POST / HTTP/1.0\r\n\r\n", RequestError::ClientContentLengthInvalid),
            ("GET / HTTP/1.1\r\nA\r\n\r\n", RequestError::ClientFieldWithoutColon),
            ("GET / HTTP/1.1\r\nA : 1\r\n\r\n", RequestError::ClientFieldNameInvalid),
            ("GET / HTTP/1.1\r\nA: \x01\r\n\r\n", RequestError::ClientFieldControl),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                RequestError::ClientContentLengthWithTransferEncoding,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n\r\n",
                RequestError::ClientContentLengthInvalid,
            ),
        ] {
            assert_eq!(read(text).err(), Some(error), "{text:?}");
        }
        assert_eq!(read("GET / HTTP/1.1\r\nA: 1\r\n"), Ok(None));
    }
}
