//! Writing heads (RFC 9112 §3, §4).
//!
//! The writer owns the fields that belong to the connection: it leaves out what the list has of
//! them and says what is true here. Everything else is copied as it is, so it must have come from
//! a parser or have been checked: nothing is escaped.

use super::Framing;
use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, ResponseHead, Version};

/// Room for a start line and the fields the writer adds.
const START_BYTES: usize = 160;

/// Appends the head of a request to an origin, as HTTP/1.1 that keeps the connection.
///
/// `Host` is the authority and comes first (RFC 9110 §7.2). An `Upgrade` or `TE` field in the list
/// is named in `Connection` (RFC 9110 §7.8, §10.1.4); remove them where they are not meant. A
/// `close` in `Connection` is kept.
///
/// # Panics
/// With [`Framing::UntilClose`]: a request has an end (RFC 9112 §6.3).
pub fn request_head(head: &RequestHead, framing: Framing, out: &mut Vec<u8>) {
    assert_ne!(framing, Framing::UntilClose, "a request body cannot end with the connection");
    let text_bytes = head.fields.heap_bytes() + head.target.len() + head.authority.len();
    out.reserve(text_bytes + START_BYTES);
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(head.authority.as_bytes());
    out.extend_from_slice(b"\r\n");
    let seen = copy_fields(&head.fields, true, out);
    write_framing(framing, out);
    if closes(&head.fields) {
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        return;
    }
    match (seen.upgrade, seen.te) {
        (true, true) => out.extend_from_slice(b"Connection: Upgrade, TE\r\n"),
        (true, false) => out.extend_from_slice(b"Connection: Upgrade\r\n"),
        (false, true) => out.extend_from_slice(b"Connection: TE\r\n"),
        (false, false) => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether `Connection` asks for the connection to be closed afterwards.
pub fn closes(fields: &Fields) -> bool {
    fields.get_all("connection").any(|value| {
        let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        options.any(|option| option.eq_ignore_ascii_case(b"close"))
    })
}

/// Appends the head of a response to a client that speaks `version`. The status line always says
/// HTTP/1.1, which is what this server speaks (RFC 9110 §6.2); `version` decides whether keeping
/// the connection must be said aloud.
///
/// [`Framing::Length`] says the length also where no body follows, in answers to HEAD and in 304;
/// [`Framing::None`] says nothing, so an empty body of other responses is `Length(0)`. 1xx and 204
/// never carry a length or coding (RFC 9110 §8.6). With [`Framing::UntilClose`] the connection
/// closes whatever `keep_alive` says. A 101 names its `Upgrade` field in `Connection`.
///
/// # Panics
/// With [`Framing::Chunked`] for an HTTP/1.0 client, which would take the chunks for content.
pub fn response_head(
    head: &ResponseHead,
    framing: Framing,
    keep_alive: bool,
    version: Version,
    out: &mut Vec<u8>,
) {
    let is_10 = version == Version::Http10;
    assert!(!(is_10 && framing == Framing::Chunked), "HTTP/1.0 has no chunks");
    out.reserve(head.fields.heap_bytes() + START_BYTES);
    out.extend_from_slice(b"HTTP/1.1 ");
    write_status(head.status, out);
    out.push(b' ');
    out.extend_from_slice(head.reason_phrase().as_bytes());
    out.extend_from_slice(b"\r\n");
    let seen = copy_fields(&head.fields, false, out);
    let is_interim = head.status < 200;
    if !is_interim && head.status != 204 {
        write_framing(framing, out);
    }
    let keeps = keep_alive && framing != Framing::UntilClose;
    match (is_interim, keeps) {
        (true, _) if head.status == 101 && seen.upgrade => {
            out.extend_from_slice(b"Connection: Upgrade\r\n");
        }
        (true, _) => {}
        (false, false) => out.extend_from_slice(b"Connection: close\r\n"),
        (false, true) if is_10 => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (false, true) => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// Fields whose presence has to be said in `Connection`.
#[derive(Default)]
struct Seen {
    upgrade: bool,
    te: bool,
}

/// Copies all lines but those the writer owns.
fn copy_fields(fields: &Fields, is_request: bool, out: &mut Vec<u8>) -> Seen {
    let mut seen = Seen::default();
    for (name, value) in fields.iter() {
        let owned = match name.len() {
            2 => {
                seen.te |= name.eq_ignore_ascii_case(b"te");
                false
            }
            4 => is_request && name.eq_ignore_ascii_case(b"host"),
            7 => {
                seen.upgrade |= name.eq_ignore_ascii_case(b"upgrade");
                false
            }
            10 => {
                name.eq_ignore_ascii_case(b"connection") || name.eq_ignore_ascii_case(b"keep-alive")
            }
            14 => name.eq_ignore_ascii_case(b"content-length"),
            16 => name.eq_ignore_ascii_case(b"proxy-connection"),
            17 => name.eq_ignore_ascii_case(b"transfer-encoding"),
            _ => false,
        };
        if !owned {
            debug_assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    seen
}

fn write_framing(framing: Framing, out: &mut Vec<u8>) {
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            write_decimal(length, out);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::None | Framing::UntilClose => {}
    }
}

fn write_status(status: u16, out: &mut Vec<u8>) {
    let digit = |power: u16| b'0' + u8::try_from(status / power % 10).expect("a digit");
    out.extend_from_slice(&[digit(100), digit(10), digit(1)]);
}

/// Appends `number` in decimal; the formatter of the standard library takes several times as long.
fn write_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests;
