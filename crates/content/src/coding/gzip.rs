//! gzip (RFC 1952) around deflate (RFC 1951), a piece at a time.

use super::Recode;
use crate::chain::{CodingError, PIECE_BYTES, Step};
use crc32fast::Hasher;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The header of what is packed here: deflate, no name, no time, an unknown system.
pub const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// How hard is tried. Texts of pages become some 1 % larger than at 9, in a third of the time.
pub const LEVEL: u32 = 6;

const FLAG_SUM: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
const FLAGS_RESERVED: u8 = 0b1110_0000;

/// The end of a gzip stream: sum and length of what was packed.
pub fn trailer(sum: &Hasher, bytes: u64) -> [u8; 8] {
    let mut out = [0; 8];
    let (first, second) = out.split_at_mut(4);
    first.copy_from_slice(&sum.clone().finalize().to_le_bytes());
    // The length is kept modulo 2^32.
    #[allow(clippy::cast_possible_truncation, reason = "RFC 1952 §2.3.1: ISIZE is modulo 2^32")]
    second.copy_from_slice(&(bytes as u32).to_le_bytes());
    out
}

/// Puts gzip on.
pub struct Gzip {
    raw: Compress,
    sum: Hasher,
    bytes: u64,
    has_begun: bool,
    /// Whether something went in since the last flush.
    is_dirty: bool,
}

impl Default for Gzip {
    fn default() -> Self {
        Self::new(LEVEL)
    }
}

impl Gzip {
    /// Packs as hard as this, 1 to 9.
    pub fn new(level: u32) -> Self {
        Self {
            raw: Compress::new(Compression::new(level), false),
            sum: Hasher::new(),
            bytes: 0,
            has_begun: false,
            is_dirty: false,
        }
    }
}

impl Recode for Gzip {
    fn packs(&self) -> bool {
        true
    }

    fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend_from_slice(&HEADER);
        }
        let flush = if is_last { FlushCompress::Finish } else { FlushCompress::None };
        let (consumed, status) = deflate(&mut self.raw, input, flush, out)?;
        let taken = input.get(..consumed).unwrap_or(&[]);
        self.sum.update(taken);
        self.bytes += taken.len() as u64;
        self.is_dirty |= consumed > 0;
        let ended = status == Status::StreamEnd;
        if ended {
            out.extend_from_slice(&trailer(&self.sum, self.bytes));
        }
        Ok(Step { consumed, ended, ..Step::default() })
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        if std::mem::take(&mut self.is_dirty) {
            flush(&mut self.raw, FlushCompress::Sync, out)?;
        }
        Ok(())
    }
}

/// Packs some of `input`; how much, and how it stands.
pub fn deflate(
    raw: &mut Compress,
    input: &[u8],
    flush: FlushCompress,
    out: &mut Vec<u8>,
) -> Result<(usize, Status), CodingError> {
    out.reserve(PIECE_BYTES);
    let before = raw.total_in();
    let status = raw.compress_vec(input, out, flush).map_err(|_| CodingError::Data)?;
    Ok((usize::try_from(raw.total_in() - before).unwrap_or(0), status))
}

/// Ends a block, so that all that went in can be unpacked from what came out.
pub fn flush(raw: &mut Compress, how: FlushCompress, out: &mut Vec<u8>) -> Result<(), CodingError> {
    loop {
        out.reserve(PIECE_BYTES);
        raw.compress_vec(&[], out, how).map_err(|_| CodingError::Data)?;
        // Room that was left over means that all is out.
        if out.len() < out.capacity() {
            return Ok(());
        }
    }
}

/// Where in the header the next byte belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    Fixed(u8),
    ExtraLength(u8),
    Extra(u16),
    Name,
    Comment,
    HeaderSum(u8),
    Data,
    Trailer(u8),
    End,
    Padding,
}

/// Takes gzip off. What is put together of several streams is one body (RFC 1952 §2.2), and zeros behind it
/// are padding, as for gzip itself; whatever else follows is refused.
pub struct Gunzip {
    raw: Decompress,
    at: At,
    flags: u8,
    extra_bytes: u16,
    trailer: [u8; 8],
    sum: Hasher,
    bytes: u64,
    is_full: bool,
}

impl Default for Gunzip {
    fn default() -> Self {
        Self {
            raw: Decompress::new(false),
            at: At::Fixed(0),
            flags: 0,
            extra_bytes: 0,
            trailer: [0; 8],
            sum: Hasher::new(),
            bytes: 0,
            is_full: false,
        }
    }
}

impl Recode for Gunzip {
    fn is_full(&self) -> bool {
        self.is_full
    }

    fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        let mut consumed = 0;
        while self.at != At::Data {
            let Some(byte) = input.get(consumed) else { break };
            self.frame_byte(*byte)?;
            consumed += 1;
        }
        let mut rest = input.get(consumed..).unwrap_or(&[]);
        if self.at == At::Data && (!rest.is_empty() || self.is_full) {
            let taken = self.inflate(rest, out)?;
            consumed += taken;
            rest = rest.get(taken..).unwrap_or(&[]);
        }
        if is_last && rest.is_empty() && !self.is_full {
            return match self.at {
                At::End | At::Padding | At::Fixed(0) => {
                    Ok(Step { consumed, ended: true, ..Step::default() })
                }
                _ => Err(CodingError::Truncated),
            };
        }
        Ok(Step { consumed, ended: false, ..Step::default() })
    }
}

impl Gunzip {
    fn inflate(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, CodingError> {
        let (before, start) = (self.raw.total_in(), out.len());
        // As much as it holds, and no more than is asked for here.
        out.resize(start + PIECE_BYTES, 0);
        let room = out.get_mut(start..).unwrap_or(&mut []);
        let total = self.raw.total_out();
        let status = self
            .raw
            .decompress(input, room, FlushDecompress::None)
            .map_err(|_| CodingError::Data)?;
        let produced = usize::try_from(self.raw.total_out() - total).unwrap_or(0);
        out.truncate(start + produced);
        self.sum.update(out.get(start..).unwrap_or(&[]));
        self.bytes += produced as u64;
        self.is_full = produced == PIECE_BYTES && status != Status::StreamEnd;
        if status == Status::StreamEnd {
            self.at = At::Trailer(0);
        }
        Ok(usize::try_from(self.raw.total_in() - before).unwrap_or(0))
    }

    /// A byte of the header or of the trailer.
    fn frame_byte(&mut self, byte: u8) -> Result<(), CodingError> {
        self.at = match self.at {
            At::Fixed(place) => {
                let is_right = match place {
                    0..=2 => HEADER.get(usize::from(place)) == Some(&byte),
                    3 => byte & FLAGS_RESERVED == 0,
                    _ => true,
                };
                if !is_right {
                    return Err(CodingError::Header);
                }
                if place == 3 {
                    self.flags = byte;
                }
                if place < 9 { At::Fixed(place + 1) } else { self.after_fixed() }
            }
            At::ExtraLength(0) => {
                self.extra_bytes = byte.into();
                At::ExtraLength(1)
            }
            At::ExtraLength(_) => match self.extra_bytes | u16::from(byte) << 8 {
                0 => self.after_extra(),
                bytes => At::Extra(bytes),
            },
            At::Extra(1) => self.after_extra(),
            At::Extra(left) => At::Extra(left - 1),
            At::Name if byte == 0 => self.after_name(),
            At::Name => At::Name,
            At::Comment if byte == 0 => self.after_comment(),
            At::Comment => At::Comment,
            At::HeaderSum(0) => At::HeaderSum(1),
            At::HeaderSum(_) => At::Data,
            At::Trailer(place) => {
                if let Some(slot) = self.trailer.get_mut(usize::from(place)) {
                    *slot = byte;
                }
                if place < 7 {
                    At::Trailer(place + 1)
                } else if self.trailer == trailer(&self.sum, self.bytes) {
                    At::End
                } else {
                    return Err(CodingError::Sum);
                }
            }
            At::End if byte == HEADER[0] => {
                self.raw.reset(false);
                (self.sum, self.bytes) = (Hasher::new(), 0);
                At::Fixed(1)
            }
            At::End | At::Padding if byte == 0 => At::Padding,
            At::Data | At::End | At::Padding => return Err(CodingError::Junk),
        };
        Ok(())
    }

    fn after_fixed(&self) -> At {
        if self.flags & FLAG_EXTRA != 0 { At::ExtraLength(0) } else { self.after_extra() }
    }

    fn after_extra(&self) -> At {
        if self.flags & FLAG_NAME != 0 { At::Name } else { self.after_name() }
    }

    fn after_name(&self) -> At {
        if self.flags & FLAG_COMMENT != 0 { At::Comment } else { self.after_comment() }
    }

    fn after_comment(&self) -> At {
        if self.flags & FLAG_SUM != 0 { At::HeaderSum(0) } else { At::Data }
    }
}
