//! The chunked transfer coding (RFC 9112 §7.1).
//!
//! [`Decoder`] finds the content in received bytes without copying it; [`Encoder`] writes what goes
//! between pieces of content.

mod extension;

use super::line::{self, Line, LineError};
use crate::error_table::error_table;
use crate::head::is_forbidden_in_trailers;
use extension::Extension;
use freshet_http::fields::Fields;
use std::ops::Range;

/// Hex digits of a chunk size: sixteen fill 64 bits.
const SIZE_DIGITS_MAX: u32 = 16;

/// Bytes of chunk extensions in a whole body. Nobody uses them, every one costs work per byte, and
/// without a sum a sender could put a kilobyte of them before each byte of content.
const EXTENSION_BYTES_MAX: u32 = 16 * 1024;

/// Bytes of a trailer section.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// Fields of a trailer section.
const TRAILER_FIELDS_MAX: usize = 64;

error_table! {
    /// Why a chunked body is refused. The status is for a body from a client; one from an origin is
    /// a 502. The connection must be closed: where the body ends is not known.
    ChunkError {
        BareCarriageReturn = 400, "a CR without LF between chunks";
        BareLineFeed = 400, "a line ending of LF alone between chunks";
        DataTooLong = 400, "a chunk that does not end after its size";
        ExtensionInvalid = 400, "a malformed chunk extension";
        ExtensionsTooLarge = 400, "the chunk extensions are too large";
        SizeInvalid = 400, "a chunk size that is not a hexadecimal number";
        SizeTooLarge = 400, "a chunk size of more than 16 digits";
        TrailerForbidden = 400, "a framing or routing field in the trailer section";
        TrailerInvalid = 400, "a malformed trailer field";
        TrailersTooLarge = 431, "the trailer section is too large";
    }
}

/// One step of [`Decoder::decode`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Progress {
    /// Bytes of the input that are dealt with, the data included. The rest, if any, belongs to the
    /// next call, or when `done` to the next message.
    pub consumed: usize,
    /// Where in the input there is content; empty where there was none to find.
    pub data: Range<usize>,
    /// The body is complete, trailers included.
    pub done: bool,
}

/// Takes the chunks of one body apart. Holds no content; a body without trailers costs no
/// allocation.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    state: State,
    /// Whether a server sent it, of which more is borne.
    is_response: bool,
    /// Size of the chunk: while it is read, then the bytes still to come.
    remaining: u64,
    extension_bytes: u32,
    trailer_text: Vec<u8>,
    trailers: Fields,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    /// Digits read so far.
    Size(u32),
    /// Behind the size and blanks.
    Padding,
    Extension(Extension),
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    Trailer,
    EndLineFeed,
    Done,
    #[default]
    Start,
}

impl Decoder {
    /// A decoder at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder of what a server answers. Some pad each size with blanks to a fixed width, as Apache 1.3
    /// did, and some say a field of the head in the trailer section, where it is left out; from a client that
    /// is more likely somebody's attempt to be read in two ways.
    pub fn of_response() -> Self {
        Self { is_response: true, ..Self::default() }
    }

    /// Goes on in the body with `input`, the bytes behind those consumed before.
    ///
    /// Returns at the first content it finds, all of it that the input has, so call again with the
    /// rest until `done` or nothing is left. The input may be cut anywhere, and an error is told at
    /// the first byte that proves it.
    ///
    /// # Errors
    /// [`ChunkError`]; the decoder must not be used again.
    pub fn decode(&mut self, input: &[u8]) -> Result<Progress, ChunkError> {
        let mut at = 0;
        while self.state != State::Done {
            let rest = &input[at..];
            let Some(byte) = rest.first() else { break };
            if self.state == State::Data {
                let available = u64::try_from(rest.len()).unwrap_or(u64::MAX);
                let taken = self.remaining.min(available);
                self.remaining -= taken;
                if self.remaining == 0 {
                    self.state = State::DataReturn;
                }
                let end = at + usize::try_from(taken).expect("no more than the input has");
                return Ok(Progress { consumed: end, data: at..end, done: false });
            }
            self.state = self.step(*byte)?;
            at += 1;
        }
        Ok(Progress { consumed: at, data: at..at, done: self.state == State::Done })
    }

    /// Whether the whole body has been seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The trailer fields; empty until the body is done. They are not merged into the head: RFC
    /// 9110 §6.5.1 wants their meaning known for that.
    pub fn trailers(&self) -> &Fields {
        &self.trailers
    }

    /// Takes the trailer fields out.
    pub fn take_trailers(&mut self) -> Fields {
        std::mem::take(&mut self.trailers)
    }

    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        match (self.state, byte) {
            (State::Start, _) => {
                self.remaining = 0;
                self.size(byte, 0)
            }
            (State::Size(digits), _) => self.size(byte, digits),
            (State::Padding, b'\r') => Ok(State::SizeLineFeed),
            (State::Padding, _) => self.padding(byte),
            (State::Extension(extension), _) => {
                self.count_extension()?;
                match byte {
                    b'\n' => Err(ChunkError::BareLineFeed),
                    b'\r' if extension.may_end() => Ok(State::SizeLineFeed),
                    _ => Ok(State::Extension(extension.step(byte)?)),
                }
            }
            (State::SizeLineFeed, b'\n') if self.remaining == 0 => Ok(State::TrailerStart),
            (State::SizeLineFeed, b'\n') => Ok(State::Data),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataReturn, b'\n') => Err(ChunkError::BareLineFeed),
            (State::DataReturn, _) => Err(ChunkError::DataTooLong),
            (State::DataLineFeed, b'\n') => Ok(State::Start),
            (State::TrailerStart, b'\r') => Ok(State::EndLineFeed),
            (State::TrailerStart | State::Trailer, _) => self.trailer(byte),
            (State::EndLineFeed, b'\n') => Ok(State::Done),
            (State::SizeLineFeed | State::DataLineFeed | State::EndLineFeed, _) => {
                Err(ChunkError::BareCarriageReturn)
            }
            (State::Data | State::Done, _) => Ok(self.state),
        }
    }

    fn size(&mut self, byte: u8, digits: u32) -> Result<State, ChunkError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if digits > 0 => return Ok(State::SizeLineFeed),
            b'\n' if digits > 0 => return Err(ChunkError::BareLineFeed),
            b' ' | b'\t' | b';' if digits > 0 => return self.padding(byte),
            _ => return Err(ChunkError::SizeInvalid),
        };
        if digits == SIZE_DIGITS_MAX {
            return Err(ChunkError::SizeTooLarge);
        }
        self.remaining = (self.remaining << 4) | u64::from(digit);
        Ok(State::Size(digits + 1))
    }

    /// What comes between a size and its first extension.
    fn padding(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.count_extension()?;
        match byte {
            b' ' | b'\t' if self.is_response => Ok(State::Padding),
            b'\n' => Err(ChunkError::BareLineFeed),
            _ => Ok(State::Extension(Extension::Before.step(byte)?)),
        }
    }

    fn count_extension(&mut self) -> Result<(), ChunkError> {
        self.extension_bytes += 1;
        let has_room = self.extension_bytes <= EXTENSION_BYTES_MAX;
        if has_room { Ok(()) } else { Err(ChunkError::ExtensionsTooLarge) }
    }

    /// Collects the trailer section, and reads it when its empty line is there.
    fn trailer(&mut self, byte: u8) -> Result<State, ChunkError> {
        let after_return = self.trailer_text.ends_with(b"\r");
        match byte {
            b'\n' if !after_return => return Err(ChunkError::BareLineFeed),
            byte if after_return && byte != b'\n' => return Err(ChunkError::BareCarriageReturn),
            _ => {}
        }
        if self.trailer_text.len() == TRAILER_BYTES_MAX {
            return Err(ChunkError::TrailersTooLarge);
        }
        self.trailer_text.push(byte);
        if !self.trailer_text.ends_with(b"\r\n\r\n") {
            return Ok(State::Trailer);
        }
        let text = std::mem::take(&mut self.trailer_text);
        self.trailers = trailer_fields(&text, self.is_response)?;
        Ok(State::Done)
    }
}

/// The fields of a trailer section, without those that are forbidden where they are left out.
fn trailer_fields(text: &[u8], leaves_out: bool) -> Result<Fields, ChunkError> {
    let mut fields = Fields::new();
    let mut at = 0;
    while let Line::Field { name, value, next } = line::read(text, at, false)? {
        if fields.len() == TRAILER_FIELDS_MAX {
            return Err(ChunkError::TrailersTooLarge);
        }
        match is_forbidden_in_trailers(name) {
            true if leaves_out => {}
            true => return Err(ChunkError::TrailerForbidden),
            false => fields.append(name, value),
        }
        at = next;
    }
    Ok(fields)
}

impl From<LineError> for ChunkError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::BareCarriageReturn => Self::BareCarriageReturn,
            LineError::BareLineFeed => Self::BareLineFeed,
            LineError::Folded
            | LineError::NameInvalid
            | LineError::NameTooLong
            | LineError::NoColon
            | LineError::SpaceBeforeColon
            | LineError::ValueControl => Self::TrailerInvalid,
        }
    }
}

/// Writes what goes around the pieces of a chunked body. The content itself is not copied: send
/// what a call appended, then the piece.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder {
    /// A piece was announced and the line ending behind it not written yet.
    open: bool,
}

impl Encoder {
    /// An encoder at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends what goes before a piece of `len` bytes: the end of the piece before, and the size
    /// line. For `len` 0, which would end the body, nothing is appended.
    pub fn write_chunk_head(&mut self, len: usize, out: &mut Vec<u8>) {
        if len == 0 {
            return;
        }
        self.close_chunk(out);
        write_hex(len, out);
        out.extend_from_slice(b"\r\n");
        self.open = true;
    }

    /// Appends the end of the piece before now instead of with the next one, for receivers that
    /// hold a piece back until its chunk is complete.
    pub fn close_chunk(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.open) {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Appends the end of the body, with `trailers` where there are some.
    pub fn write_end(&mut self, trailers: Option<&Fields>, out: &mut Vec<u8>) {
        self.close_chunk(out);
        out.extend_from_slice(b"0\r\n");
        if let Some(trailers) = trailers {
            trailers.write_h1(out);
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn write_hex(number: usize, out: &mut Vec<u8>) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        let digit = (number >> (place * 4)) & 0xf;
        out.push(b"0123456789abcdef"[digit]);
    }
}

#[cfg(test)]
mod tests;
