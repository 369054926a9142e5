//! One field line (RFC 9112 §5), the same for requests, responses and trailers.

use super::scan;

/// Bytes of a field name. The longest registered one has 43; this keeps names far below the 64 KiB
/// that a list of fields can hold even where heads are allowed to be larger.
const NAME_BYTES_MAX: usize = 1024;

/// What stands at a place in a head.
pub(super) enum Line<'a> {
    /// The buffer ends before the line does; nothing wrong so far.
    Incomplete,
    /// The empty line that ends the head; `next` is where the body starts.
    End { next: usize },
    /// A field, its value without surrounding whitespace; `next` is where the next line starts.
    Field { name: &'a [u8], value: &'a [u8], next: usize },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LineError {
    BareCarriageReturn,
    BareLineFeed,
    Folded,
    NameInvalid,
    NameTooLong,
    NoColon,
    SpaceBeforeColon,
    ValueControl,
}

/// Reads the line that starts at `at`, which is at most `buffer.len()`. In a response whitespace
/// between name and colon is left out instead of refused (RFC 9112 §5.1), and a line may end with
/// LF alone (§2.2): what an origin means by its head is for nobody else to read.
#[inline]
pub(super) fn read(buffer: &[u8], at: usize, is_response: bool) -> Result<Line<'_>, LineError> {
    let line = &buffer[at..];
    let name_len = scan::token_len(line);
    if name_len > NAME_BYTES_MAX {
        return Err(LineError::NameTooLong);
    }
    let name = &line[..name_len];
    let mut colon = name_len;
    match line.get(name_len) {
        Some(b':') if name_len > 0 => {}
        None => return Ok(Line::Incomplete),
        Some(b'\n') if name_len == 0 && is_response => return Ok(Line::End { next: at + 1 }),
        Some(_) if name_len == 0 => return without_name(line, at),
        Some(b' ' | b'\t') if is_response => {
            colon += line[colon..].iter().take_while(|byte| is_blank(**byte)).count();
            match line.get(colon) {
                Some(b':') => {}
                None => return Ok(Line::Incomplete),
                Some(_) => return Err(LineError::NameInvalid),
            }
        }
        Some(byte) => return Err(after_name(*byte)),
    }
    let value_at = colon + 1;
    let value_len = scan::value_len(&line[value_at..]);
    let value = trim(&line[value_at..value_at + value_len]);
    let end = &line[value_at + value_len..];
    let end = if is_response { response_line_end(end)? } else { line_end(end)? };
    match end {
        Some(end) => Ok(Line::Field { name, value, next: at + value_at + value_len + end }),
        None => Ok(Line::Incomplete),
    }
}

/// Reads the CR LF at the start of `bytes`: its length, or `None` where the buffer ends first.
#[inline]
pub(super) fn line_end(bytes: &[u8]) -> Result<Option<usize>, LineError> {
    match bytes {
        [b'\r', b'\n', ..] => Ok(Some(2)),
        [] | [b'\r'] => Ok(None),
        [b'\r', ..] => Err(LineError::BareCarriageReturn),
        [b'\n', ..] => Err(LineError::BareLineFeed),
        [..] => Err(LineError::ValueControl),
    }
}

/// As [`line_end`], where LF alone is one as well.
#[inline]
pub(super) fn response_line_end(bytes: &[u8]) -> Result<Option<usize>, LineError> {
    if bytes.first() == Some(&b'\n') { Ok(Some(1)) } else { line_end(bytes) }
}

/// Without the spaces and tabs at both ends.
#[inline]
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cold]
fn after_name(byte: u8) -> LineError {
    match byte {
        b' ' | b'\t' => LineError::SpaceBeforeColon,
        b'\r' | b'\n' => LineError::NoColon,
        _ => LineError::NameInvalid,
    }
}

/// A line that does not start with a name: the end of the head, or an error.
fn without_name(line: &[u8], at: usize) -> Result<Line<'_>, LineError> {
    match line.first() {
        Some(b'\r' | b'\n') => match line_end(line)? {
            Some(end) => Ok(Line::End { next: at + end }),
            None => Ok(Line::Incomplete),
        },
        Some(byte) if is_blank(*byte) => Err(LineError::Folded),
        _ => Err(LineError::NameInvalid),
    }
}

/// Whether `name` is `want`, or `want` with `_` in place of `-`, which applications behind gateways
/// like CGI cannot tell from it. Both are of one length.
#[inline]
pub(crate) fn imitates(name: &[u8], want: &[u8]) -> bool {
    let same = |(byte, want): (&u8, &u8)| {
        byte.to_ascii_lowercase() == *want || (*byte == b'_' && *want == b'-')
    };
    name.iter().zip(want).all(same)
}
