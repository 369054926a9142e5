//! Response heads (RFC 9112 §4, §5, §6).

use super::line::{self, Line, LineError};
use super::{Framing, Limits, scan};
use crate::error_table::error_table;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, ResponseHead, Version, reason_phrase};

/// A response head and what it says about the connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Response {
    /// The head, framing and hop-by-hop fields included, repaired where RFC 9112 says so: folded
    /// lines are joined, a list of equal lengths is one length, and a `Content-Length` or
    /// `Transfer-Encoding` that does not count is gone.
    pub head: ResponseHead,
    /// How the body that follows is framed. [`Framing::None`] for an interim response, after which
    /// another head follows, and for 101, after which another protocol does.
    pub framing: Framing,
    /// Whether the connection may be used for another request once the body has been read. False
    /// also where the framing had to be repaired, so that a misreading cannot reach another client.
    pub keep_alive: bool,
    /// Bytes of the buffer the head took; the body starts there.
    pub head_bytes: usize,
}

error_table! {
    /// Why a response head is refused. The connection must be closed.
    ResponseError {
        OriginBareCarriageReturn = 502, "a CR without LF in the response head";
        OriginBareLineFeed = 502, "a line ending of LF alone in the response head";
        OriginContentLengthConflict = 502, "different Content-Length values in the response";
        OriginContentLengthInvalid = 502, "Content-Length of the response is not a number";
        OriginContentLengthWithTransferEncoding = 502, "both Content-Length and Transfer-Encoding in the response";
        OriginFieldControl = 502, "a control character in a response field";
        OriginFieldFolded = 502, "whitespace before the first response field";
        OriginFieldTooLong = 502, "a response field line is too long";
        OriginFieldNameInvalid = 502, "a response field name that is not a token";
        OriginFieldNameTooLong = 502, "a response field name is too long";
        OriginFieldWithoutColon = 502, "a response field line without a colon";
        OriginFieldsTooMany = 502, "too many response field lines";
        OriginHeadTooLarge = 502, "the response head is too large";
        OriginReasonInvalid = 502, "a control character in the reason phrase";
        OriginStatusInvalid = 502, "the status code is not three digits from 100 to 999";
        OriginTransferCodingUnsupported = 502, "a transfer coding of the response is not supported";
        OriginTransferEncodingHttp10 = 502, "Transfer-Encoding in an HTTP/1.0 response";
        OriginTransferEncodingInvalid = 502, "Transfer-Encoding of the response is not a list of codings";
        OriginVersionInvalid = 502, "the response does not start with an HTTP/1 version";
    }
}

impl From<LineError> for ResponseError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::BareCarriageReturn => Self::OriginBareCarriageReturn,
            LineError::BareLineFeed => Self::OriginBareLineFeed,
            LineError::Folded => Self::OriginFieldFolded,
            LineError::NameInvalid | LineError::SpaceBeforeColon => Self::OriginFieldNameInvalid,
            LineError::NameTooLong => Self::OriginFieldNameTooLong,
            LineError::NoColon => Self::OriginFieldWithoutColon,
            LineError::ValueControl => Self::OriginFieldControl,
        }
    }
}

/// Reads the response head at the start of `buffer`, the answer to a request of `request_method`.
///
/// `Ok(None)` means that the head is not complete and nothing is wrong with what is there. Interim
/// responses (1xx) are read like others; the caller goes on behind them.
///
/// # Errors
/// [`ResponseError`], to be answered with 502.
pub fn parse(
    buffer: &[u8],
    request_method: &Method,
    limits: &Limits,
) -> Result<Option<Response>, ResponseError> {
    let window = &buffer[..buffer.len().min(limits.head_bytes_max)];
    let end = scan::head_end(window);
    let mut fields = Fields::new();
    let mut walked = walk(window, limits, end.map(|end| (&mut fields, end)))?;
    if let (Some(found), None) = (&walked, end) {
        // Its lines end with LF alone.
        let end = found.head_bytes;
        walked = walk(window, limits, Some((&mut fields, end)))?;
    }
    let Some(walk) = walked else {
        if window.len() < limits.head_bytes_max {
            return Ok(None);
        }
        return Err(ResponseError::OriginHeadTooLarge);
    };
    finish(walk, fields, request_method, limits).map(Some)
}

struct Walk<'a> {
    version: Version,
    status: u16,
    reason: &'a [u8],
    marks: Marks,
    head_bytes: usize,
}

/// The fields that decide framing, noted in passing.
#[derive(Default)]
struct Marks {
    content_length: Option<u64>,
    /// `Content-Length` was not one plain number on one line.
    length_repaired: bool,
    transfer_encoding: bool,
    close: bool,
    keep_alive: bool,
}

/// Walks the head and judges every byte. With `fields` and the length that the head may have, its
/// lines are collected; without, nothing but folded lines is allocated.
fn walk<'a>(
    buffer: &'a [u8],
    limits: &Limits,
    fields: Option<(&mut Fields, usize)>,
) -> Result<Option<Walk<'a>>, ResponseError> {
    let Some((version, status, reason, mut at)) = status_line(buffer)? else { return Ok(None) };
    let mut fields = fields.map(|(fields, head_len)| {
        *fields = Fields::with_capacity(head_len.saturating_sub(at));
        fields
    });
    let mut marks = Marks::default();
    let mut count = 0;
    loop {
        match line::read(buffer, at, true)? {
            Line::Field { name, value, next } => {
                let start = at;
                count += 1;
                if count > limits.fields_max {
                    return Err(ResponseError::OriginFieldsTooMany);
                }
                let joined;
                let mut value = value;
                at = next;
                if matches!(buffer.get(at), Some(b' ' | b'\t')) {
                    match unfold(buffer, at, value)? {
                        Some((text, next)) => (joined, at) = (text, next),
                        None => return Ok(None),
                    }
                    value = &joined;
                }
                if buffer[start..at].trim_ascii_end().len() > limits.line_bytes_max {
                    return Err(ResponseError::OriginFieldTooLong);
                }
                marks.note(name, value)?;
                if let Some(fields) = &mut fields {
                    fields.append(name, value);
                }
            }
            Line::End { next } => {
                return Ok(Some(Walk { version, status, reason, marks, head_bytes: next }));
            }
            Line::Incomplete => return Ok(None),
        }
    }
}

/// `first` with the folded lines at `at` joined to it, a space for each sign between them (RFC 9112
/// §5.2), and where the next field starts.
#[cold]
fn unfold(
    buffer: &[u8],
    mut at: usize,
    first: &[u8],
) -> Result<Option<(Vec<u8>, usize)>, ResponseError> {
    let mut joined = first.to_vec();
    // The end of the line before.
    let mut gap = if buffer[..at].ends_with(b"\r\n") { 2 } else { 1 };
    while matches!(buffer.get(at), Some(b' ' | b'\t')) {
        let len = scan::value_len(&buffer[at..]);
        let text = &buffer[at..at + len];
        let part = line::trim(text);
        let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        gap += blanks;
        if !joined.is_empty() && !part.is_empty() {
            joined.extend(std::iter::repeat_n(b' ', gap));
            gap = 0;
        }
        joined.extend_from_slice(part);
        match line::response_line_end(&buffer[at + len..])? {
            Some(end) => {
                at += len + end;
                gap += end;
            }
            None => return Ok(None),
        }
    }
    Ok(Some((joined, at)))
}

type StatusLine<'a> = (Version, u16, &'a [u8], usize);

/// The status line, and where the next line starts. The space before an empty reason phrase may be
/// missing.
fn status_line(buffer: &[u8]) -> Result<Option<StatusLine<'_>>, ResponseError> {
    for (index, want) in b"HTTP/1.d ".iter().enumerate() {
        let Some(byte) = buffer.get(index) else { return Ok(None) };
        let fits = if *want == b'd' { byte.is_ascii_digit() } else { byte == want };
        if !fits {
            return Err(ResponseError::OriginVersionInvalid);
        }
    }
    let version = if buffer[7] == b'0' { Version::Http10 } else { Version::Http11 };
    let mut status = 0;
    for index in 9..12 {
        match buffer.get(index) {
            Some(byte) if byte.is_ascii_digit() => status = status * 10 + u16::from(byte - b'0'),
            Some(_) => return Err(ResponseError::OriginStatusInvalid),
            None => return Ok(None),
        }
    }
    if status < 100 {
        return Err(ResponseError::OriginStatusInvalid);
    }
    let rest = &buffer[12..];
    let reason_len = match rest.first() {
        Some(b' ') => scan::value_len(rest),
        Some(b'\r' | b'\n') => 0,
        Some(_) => return Err(ResponseError::OriginStatusInvalid),
        None => return Ok(None),
    };
    let end = line::response_line_end(&rest[reason_len..]).map_err(|error| match error {
        LineError::ValueControl => ResponseError::OriginReasonInvalid,
        error => error.into(),
    })?;
    let reason = line::trim(&rest[..reason_len]);
    Ok(end.map(|end| (version, status, reason, 12 + reason_len + end)))
}

impl Marks {
    fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), ResponseError> {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|byte| *byte == b',').map(line::trim) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => self.note_length(value)?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding = true,
            _ => {}
        }
        Ok(())
    }

    /// Equal lengths, on one line or several, count as one (RFC 9110 §8.6).
    fn note_length(&mut self, value: &[u8]) -> Result<(), ResponseError> {
        for member in value.split(|byte| *byte == b',').map(line::trim) {
            let digits = Some(member).filter(|text| text.iter().all(u8::is_ascii_digit));
            let length = digits
                .and_then(|digits| str::from_utf8(digits).ok()?.parse::<u64>().ok())
                .ok_or(ResponseError::OriginContentLengthInvalid)?;
            match self.content_length.replace(length) {
                Some(before) if before != length => {
                    return Err(ResponseError::OriginContentLengthConflict);
                }
                Some(_) => self.length_repaired = true,
                None => self.length_repaired |= member.len() > 1 && member.starts_with(b"0"),
            }
        }
        Ok(())
    }
}

/// Judges the head as a whole and builds the response (RFC 9112 §6.3).
fn finish(
    walk: Walk<'_>,
    mut fields: Fields,
    request_method: &Method,
    limits: &Limits,
) -> Result<Response, ResponseError> {
    let Walk { version, status, reason, marks, head_bytes } = walk;
    if marks.length_repaired
        && let Some(length) = marks.content_length
    {
        fields.set("Content-Length", length.to_string());
    }
    let wants_reuse = !marks.close && (version != Version::Http10 || marks.keep_alive);
    let never_has_body = status < 200 || status == 204;
    let (framing, framing_is_sound) = if never_has_body || status == 304 {
        // Framing fields in a 204 or 1xx are forbidden; an origin that sends them may send the
        // body as well, in front of its next response.
        let claims_body = marks.transfer_encoding || marks.content_length.is_some_and(|n| n > 0);
        (Framing::None, !(never_has_body && claims_body))
    } else if *request_method == Method::Head {
        (Framing::None, true)
    } else if marks.transfer_encoding {
        coded_framing(&mut fields, &marks, version, limits)?
    } else {
        match marks.content_length {
            Some(length) => (Framing::Length(length), true),
            None => (Framing::UntilClose, false),
        }
    };
    let reason = str::from_utf8(reason).ok();
    let reason = reason.filter(|text| !text.is_empty() && *text != reason_phrase(status));
    Ok(Response {
        head: ResponseHead { status, reason: reason.map(Into::into), version, fields },
        framing,
        keep_alive: wants_reuse && framing_is_sound,
        head_bytes,
    })
}

/// What the `Transfer-Encoding` of a response comes to.
enum Coding {
    Chunked,
    Identity,
    Unknown,
}

/// The one coding that all lines of `Transfer-Encoding` name.
fn coding(fields: &Fields) -> Result<Coding, ResponseError> {
    let mut coding = None;
    for member in fields.tokens("transfer-encoding") {
        let name = member.split(|byte| *byte == b';').next().map_or(member, line::trim);
        if name.is_empty() || scan::token_len(name) != name.len() {
            return Err(ResponseError::OriginTransferEncodingInvalid);
        }
        if coding.is_some() {
            // Two codings would have to be taken off one after the other; and a second `chunked`
            // is forbidden (RFC 9112 §6.1).
            return Err(ResponseError::OriginTransferCodingUnsupported);
        }
        coding = Some(match name.to_ascii_lowercase().as_slice() {
            b"chunked" if name.len() == member.len() => Coding::Chunked,
            b"chunked" => return Err(ResponseError::OriginTransferEncodingInvalid),
            b"identity" => Coding::Identity,
            // The body would be passed on as something else than its fields say.
            b"gzip" | b"x-gzip" | b"compress" | b"x-compress" | b"deflate" => {
                return Err(ResponseError::OriginTransferCodingUnsupported);
            }
            _ => Coding::Unknown,
        });
    }
    coding.ok_or(ResponseError::OriginTransferEncodingInvalid)
}

/// Framing by `Transfer-Encoding`, which wins over `Content-Length` (RFC 9112 §6.1), and whether it
/// is sound enough to use the connection again. Fields that do not count are removed.
fn coded_framing(
    fields: &mut Fields,
    marks: &Marks,
    version: Version,
    limits: &Limits,
) -> Result<(Framing, bool), ResponseError> {
    let strict = limits.strict_transfer_coding;
    let has_length = marks.content_length.is_some();
    if strict && has_length {
        return Err(ResponseError::OriginContentLengthWithTransferEncoding);
    }
    if strict && version == Version::Http10 {
        return Err(ResponseError::OriginTransferEncodingHttp10);
    }
    let framing = match coding(fields)? {
        Coding::Chunked => Framing::Chunked,
        _ if strict => return Err(ResponseError::OriginTransferCodingUnsupported),
        // RFC 2616 had `identity` for "no coding", and old origins still say it.
        Coding::Identity => marks.content_length.map_or(Framing::UntilClose, Framing::Length),
        Coding::Unknown if limits.refuses_unknown_codings => {
            return Err(ResponseError::OriginTransferCodingUnsupported);
        }
        Coding::Unknown => Framing::UntilClose,
    };
    if framing != Framing::Chunked {
        fields.remove("transfer-encoding");
    }
    if !matches!(framing, Framing::Length(_)) {
        fields.remove("content-length");
    }
    let sound = framing == Framing::Chunked && !has_length && version != Version::Http10;
    Ok((framing, sound))
}

#[cfg(test)]
mod tests;
