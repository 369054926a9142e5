//! Compressed fields into fields.

use super::statics::STATIC;
use super::table::{ENTRY_OVERHEAD_BYTES, Table};
use crate::h2::hpack::{HpackError, integer, text};

/// Why a head is not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unread {
    /// It refers to fields that did not come yet.
    Waits,
    /// It cannot be read: the connection has to end with QPACK_DECOMPRESSION_FAILED.
    Wrong(HpackError),
}

impl From<HpackError> for Unread {
    fn from(error: HpackError) -> Self {
        Self::Wrong(error)
    }
}

/// Reads the heads of a connection, with a table that the peer fills.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    bytes_max: usize,
    /// How many entries the peer knows to be here.
    acknowledged: u64,
    /// What is to be said on our stream for it.
    said: Vec<u8>,
}

impl Decoder {
    /// One that lets the peer fill a table of at most `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self { table: Table::default(), bytes_max, acknowledged: 0, said: Vec::new() }
    }

    /// Takes what came on the peer's stream for it and says how many bytes are done, and how many
    /// instructions that were; the rest is the beginning of another one.
    ///
    /// # Errors
    /// [`HpackError`]; the connection has to end with QPACK_ENCODER_STREAM_ERROR.
    pub fn instructions(&mut self, input: &[u8]) -> Result<(usize, usize), HpackError> {
        let (mut rest, mut count) = (input, 0);
        let mut text = (Vec::new(), Vec::new());
        loop {
            match self.instruction(rest, &mut text) {
                Ok(after) => rest = after,
                Err(HpackError::ClientTruncated) => return Ok((input.len() - rest.len(), count)),
                Err(error) => return Err(error),
            }
            count += 1;
        }
    }

    fn instruction<'a>(
        &mut self,
        input: &'a [u8],
        (name, value): &mut (Vec<u8>, Vec<u8>),
    ) -> Result<&'a [u8], HpackError> {
        name.clear();
        value.clear();
        let first = *input.first().ok_or(HpackError::ClientTruncated)?;
        let rest = match first {
            0x80.. => {
                let (index, rest) = integer::read(input, 6)?;
                let known = if first & 0x40 != 0 {
                    STATIC.get(index).map(|(name, _)| name.as_bytes())
                } else {
                    self.newest(index)
                        .and_then(|number| self.table.field(number))
                        .map(|field| field.0)
                };
                let known = known.ok_or(HpackError::ClientIndex)?;
                let rest = self.bounded_text(rest, 7, value)?;
                name.extend_from_slice(known);
                rest
            }
            0x40..0x80 => {
                let rest = self.bounded_text(input, 5, name)?;
                self.bounded_text(rest, 7, value)?
            }
            0x20..0x40 => {
                let (bytes, rest) = integer::read(input, 5)?;
                if bytes > self.bytes_max {
                    return Err(HpackError::ClientTableSize);
                }
                self.table.set_capacity(bytes);
                return Ok(rest);
            }
            _ => {
                let (index, rest) = integer::read(input, 5)?;
                let number = self.newest(index).ok_or(HpackError::ClientIndex)?;
                let is_kept = self.table.field(number).is_some();
                return match self.table.duplicate(number) {
                    true => Ok(rest),
                    false if is_kept => Err(HpackError::ClientTableSize),
                    false => Err(HpackError::ClientIndex),
                };
            }
        };
        if self.table.insert(name, value) { Ok(rest) } else { Err(HpackError::ClientTableSize) }
    }

    /// Text that could be in the table: of what is longer nobody waits for the end.
    fn bounded_text<'a>(
        &self,
        input: &'a [u8],
        prefix_bits: u32,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], HpackError> {
        let (len, _) = integer::read(input, prefix_bits)?;
        // A byte may be packed into up to 30 bits.
        if len > 4 * self.table.capacity_bytes() {
            return Err(HpackError::ClientTableSize);
        }
        text(input, prefix_bits, out)
    }

    /// The number of the entry that so many came after.
    fn newest(&self, index: usize) -> Option<u64> {
        self.table.inserted().checked_sub(index as u64 + 1)
    }

    /// Reads all fields of one head and gives each to `field`, which must bound what it keeps. Returns how
    /// many entries the table must have had for it: where that is not 0, the head has to be
    /// [acknowledged](Self::acknowledge) once it is done.
    ///
    /// # Errors
    /// [`Unread`]; no field was given where it [waits](Unread::Waits).
    pub fn decode(&self, block: &[u8], field: impl FnMut(&[u8], &[u8])) -> Result<u64, Unread> {
        read(&self.table, self.bytes_max / ENTRY_OVERHEAD_BYTES, block, field)
    }

    /// The head of a stream was read, which needed so many entries.
    pub fn acknowledge(&mut self, stream: u64, required: u64) {
        if required > 0 {
            integer::write(0x80, 7, stream as usize, &mut self.said);
            self.acknowledged = self.acknowledged.max(required);
        }
    }

    /// A stream is over before all heads of it were read.
    pub fn cancel(&mut self, stream: u64) {
        integer::write(0x40, 6, stream as usize, &mut self.said);
    }

    /// Whether the peer has told anything.
    pub fn is_filled(&self) -> bool {
        self.table.inserted() > 0
    }

    /// Whether there is anything to be said to the peer.
    pub fn has_said(&self) -> bool {
        !self.said.is_empty() || self.table.inserted() > self.acknowledged
    }

    /// What is to be said to the peer.
    pub fn take_said(&mut self) -> Vec<u8> {
        let more = self.table.inserted() - self.acknowledged;
        if more > 0 {
            integer::write(0, 6, more as usize, &mut self.said);
            self.acknowledged = self.table.inserted();
        }
        std::mem::take(&mut self.said)
    }
}

/// Reads the fields of one head that refers to no table but the one that everybody knows.
///
/// # Errors
/// [`HpackError`]; the connection has to end with QPACK_DECOMPRESSION_FAILED.
pub fn decode(block: &[u8], field: impl FnMut(&[u8], &[u8])) -> Result<(), HpackError> {
    match read(&Table::default(), 0, block, field) {
        Ok(_) => Ok(()),
        Err(Unread::Wrong(error)) => Err(error),
        Err(Unread::Waits) => Err(HpackError::ClientIndex),
    }
}

/// `entries_max` is how many entries the largest table has.
fn read(
    table: &Table,
    entries_max: usize,
    block: &[u8],
    mut field: impl FnMut(&[u8], &[u8]),
) -> Result<u64, Unread> {
    let missing = HpackError::ClientIndex;
    let (encoded, rest) = integer::read(block, 8)?;
    let required = expand(encoded as u64, entries_max as u64, table.inserted()).ok_or(missing)?;
    let is_below = rest.first().is_some_and(|first| first & 0x80 != 0);
    let (delta, mut rest) = integer::read(rest, 7)?;
    let delta = delta as u64;
    let base = match is_below {
        false => required + delta,
        true => required.checked_sub(delta + 1).ok_or(missing)?,
    };
    if required > table.inserted() {
        return Err(Unread::Waits);
    }
    // What it refers to has to be among what it says that it needs (§2.2.3).
    let told = |number: Option<u64>| {
        let number = number.filter(|number| *number < required);
        number.and_then(|number| table.field(number)).ok_or(missing)
    };
    let before = |index: usize| base.checked_sub(index as u64 + 1);
    let behind = |index: usize| base.checked_add(index as u64);
    let (mut name, mut value) = (Vec::new(), Vec::new());
    while let Some(first) = rest.first() {
        let known = match first {
            0xc0.. => {
                let (index, after) = integer::read(rest, 6)?;
                let (name, value) = STATIC.get(index).ok_or(missing)?;
                field(name.as_bytes(), value.as_bytes());
                rest = after;
                continue;
            }
            0x80..0xc0 | 0x10..0x20 => {
                let is_before = *first >= 0x80;
                let (index, after) = integer::read(rest, if is_before { 6 } else { 4 })?;
                let (name, value) = told(if is_before { before(index) } else { behind(index) })?;
                field(name, value);
                rest = after;
                continue;
            }
            0x50..0x60 | 0x70..0x80 => {
                let (index, after) = integer::read(rest, 4)?;
                rest = after;
                STATIC.get(index).ok_or(missing)?.0.as_bytes()
            }
            0x40..0x80 => {
                let (index, after) = integer::read(rest, 4)?;
                rest = after;
                told(before(index))?.0
            }
            0x20..0x40 => {
                name.clear();
                rest = text(rest, 3, &mut name)?;
                &name[..]
            }
            _ => {
                let (index, after) = integer::read(rest, 3)?;
                rest = after;
                told(behind(index))?.0
            }
        };
        value.clear();
        rest = text(rest, 7, &mut value)?;
        field(known, &value);
    }
    Ok(required)
}

/// How many entries a head needs, of which it says the rest by twice the largest table (RFC 9204
/// §4.5.1.1); `None` where it cannot be.
fn expand(encoded: u64, entries_max: u64, inserted: u64) -> Option<u64> {
    if encoded == 0 {
        return Some(0);
    }
    let full = 2 * entries_max;
    if encoded > full {
        return None;
    }
    let most = inserted + entries_max;
    let required = most / full * full + encoded - 1;
    let required = if required > most { required.checked_sub(full)? } else { required };
    Some(required).filter(|required| *required > 0)
}
