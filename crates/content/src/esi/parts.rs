//! How a page with edge side includes is kept: parts, one after another, each with a short head.
//!
//! ```text
//! head:   kind 1 byte | bytes that follow, u32 | bytes of text they stand for, u32 | its CRC-32, u32
//! kinds:  T text      M markup, only for those who get the page as it came      I an include
//! ```
//!
//! Numbers are little endian. A run of text or markup may be several parts. Under gzip, what follows
//! is deflate without a last block, ending at a byte, and no run refers back beyond its beginning:
//! any selection of whole runs is a deflate stream, with the sums of its parts put together.
//! An include is followed by one byte (1: the page goes on without it), the length of its host
//! (u16), host, and target.

use super::parse::Include;
use crate::chain::{CodingError, PIECE_BYTES, Step};
use crate::coding::gzip::{HEADER, trailer};
use crc32fast::Hasher;

/// Bytes of a part's head.
pub const HEAD_BYTES: usize = 13;
/// Bytes after a part's head. A part is written at the latest when this much text has come, and
/// deflate adds a few bytes to what it cannot pack.
const PART_BYTES_MAX: u32 = 4 * PIECE_BYTES as u32;
/// A last, empty block of deflate (RFC 1951 §3.2.6).
pub const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// What a part is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// What clients get.
    Text,
    /// What is for caches only.
    Markup,
    /// Where another response comes in.
    Include,
}

/// A part's head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Bytes that follow, as they are kept.
    pub bytes: u32,
    /// Bytes of the text in it, without gzip.
    pub text_bytes: u32,
    /// CRC-32 of that text.
    pub sum: u32,
}

impl Head {
    /// As it is written.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(match self.kind {
            Kind::Text => b'T',
            Kind::Markup => b'M',
            Kind::Include => b'I',
        });
        for number in [self.bytes, self.text_bytes, self.sum] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Reads one back.
    ///
    /// # Errors
    /// [`CodingError::Parts`].
    pub fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Self, CodingError> {
        let [kind, rest @ ..] = bytes;
        let kind = match kind {
            b'T' => Kind::Text,
            b'M' => Kind::Markup,
            b'I' => Kind::Include,
            _ => return Err(CodingError::Parts),
        };
        let mut numbers = rest.chunks_exact(4).map(|chunk| {
            chunk.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte))
        });
        let mut number = || numbers.next().unwrap_or(0);
        let head = Self { kind, bytes: number(), text_bytes: number(), sum: number() };
        if head.bytes > PART_BYTES_MAX { Err(CodingError::Parts) } else { Ok(head) }
    }

    /// The sum of its text, to be combined with others.
    pub fn hasher(&self) -> Hasher {
        Hasher::new_with_initial_len(self.sum, self.text_bytes.into())
    }
}

/// Writes an include.
pub fn write_include(include: &Include, out: &mut Vec<u8>) {
    let host_bytes = u16::try_from(include.host.len()).unwrap_or(u16::MAX);
    let host = include.host.get(..usize::from(host_bytes)).unwrap_or(&[]);
    let bytes = 3 + host.len() + include.target.len();
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    Head { kind: Kind::Include, bytes, text_bytes: 0, sum: 0 }.write(out);
    out.push(include.may_fail.into());
    out.extend_from_slice(&host_bytes.to_le_bytes());
    out.extend_from_slice(host);
    out.extend_from_slice(&include.target);
}

/// Reads what follows the head of an include.
///
/// # Errors
/// [`CodingError::Parts`].
pub fn read_include(bytes: &[u8]) -> Result<Include, CodingError> {
    let [may_fail, low, high, rest @ ..] = bytes else { return Err(CodingError::Parts) };
    let host_bytes = usize::from(u16::from_le_bytes([*low, *high]));
    let (host, target) = rest.split_at_checked(host_bytes).ok_or(CodingError::Parts)?;
    Ok(Include { host: host.into(), target: target.into(), may_fail: *may_fail == 1 })
}

/// Makes of parts the page as it came, under gzip if its parts are.
pub struct RawJoiner {
    is_packed: bool,
    has_begun: bool,
    head: Vec<u8>,
    current: Option<Head>,
    left: usize,
    sum: Hasher,
    text_bytes: u64,
}

impl RawJoiner {
    /// A joiner of parts that are under gzip, or are not.
    pub fn new(is_packed: bool) -> Self {
        Self {
            is_packed,
            has_begun: false,
            head: Vec::with_capacity(HEAD_BYTES),
            current: None,
            left: 0,
            sum: Hasher::new(),
            text_bytes: 0,
        }
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        if self.is_packed && !std::mem::replace(&mut self.has_begun, true) {
            out.extend_from_slice(&HEADER);
        }
        let start = out.len();
        let mut rest = input;
        while !rest.is_empty() && out.len() - start < PIECE_BYTES {
            if let Some(head) = self.current {
                let (piece, after) = rest.split_at(self.left.min(rest.len()));
                if head.kind != Kind::Include {
                    out.extend_from_slice(piece);
                }
                self.left -= piece.len();
                rest = after;
                if self.left == 0 {
                    self.current = None;
                }
                continue;
            }
            let (piece, after) = rest.split_at((HEAD_BYTES - self.head.len()).min(rest.len()));
            self.head.extend_from_slice(piece);
            rest = after;
            if let Ok(bytes) = <&[u8; HEAD_BYTES]>::try_from(self.head.as_slice()) {
                let head = Head::read(bytes)?;
                self.head.clear();
                self.left = head.bytes as usize;
                self.current = Some(head).filter(|_| self.left > 0);
                self.sum.combine(&head.hasher());
                self.text_bytes += u64::from(head.text_bytes);
            }
        }
        let consumed = input.len() - rest.len();
        let ended = is_last && rest.is_empty();
        if ended {
            if self.current.is_some() || !self.head.is_empty() {
                return Err(CodingError::Parts);
            }
            if self.is_packed {
                out.extend_from_slice(&LAST_BLOCK);
                out.extend_from_slice(&trailer(&self.sum, self.text_bytes));
            }
        }
        Ok(Step { consumed, ended, ..Step::default() })
    }
}
