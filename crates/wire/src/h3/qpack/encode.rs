//! Fields into compressed fields.

use super::statics;
use super::table::{ENTRY_OVERHEAD_BYTES, Table, hash};
use crate::h2::hpack::{HpackError, huffman, integer};
use std::collections::VecDeque;

/// Heads under way that refer to the table, beyond which others do not: what they refer to has to stay.
pub const SECTIONS_MAX: usize = 256;
/// Fields of which it is remembered that they were said once.
const SAID_ONCE_MAX: usize = 32;
/// Entries of which the peer has not said that they came, beyond which no more are told: some peers never
/// say so, and what they are told is of no use.
const UNHEARD_MAX: u64 = 16;
/// A field that has more of the table would keep others out of it.
const SHARE_OF_TABLE: usize = 4;
/// Names of fields that are others in each response.
const PASSING: [&[u8]; 4] = [b"age", b"date", b"content-length", b":status"];

/// Writes the heads of a connection, with a table at the peer that is filled from here.
///
/// A field is told in advance when it is said for the second time. Heads refer only to what the peer has
/// said that it has, so that none of them ever waits there.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// How many entries the largest table has that the peer takes.
    entries_max: u64,
    /// How many entries are known to be there.
    acknowledged: u64,
    /// Heads under way that refer to entries.
    sections: VecDeque<Section>,
    said_once: VecDeque<u64>,
    /// What is to be said on our stream for it.
    said: Vec<u8>,
}

/// A head under way: the stream, the lowest entry that it refers to, and how many it needs.
#[derive(Clone, Copy, Debug)]
struct Section {
    stream: u64,
    lowest: u64,
    required: u64,
}

/// A head that is being written.
#[derive(Debug)]
pub struct Draft {
    stream: u64,
    /// What numbers of entries count down from.
    base: u64,
    lowest: u64,
    required: u64,
    fields: Vec<u8>,
}

impl Encoder {
    /// One for a peer that takes a table of at most `peer_bytes_max`, of which `bytes_max` are used.
    pub fn new(peer_bytes_max: u64, bytes_max: usize) -> Self {
        let mut encoder = Self {
            table: Table::default(),
            entries_max: peer_bytes_max / ENTRY_OVERHEAD_BYTES as u64,
            acknowledged: 0,
            sections: VecDeque::new(),
            said_once: VecDeque::new(),
            said: Vec::new(),
        };
        let bytes = usize::try_from(peer_bytes_max).unwrap_or(usize::MAX).min(bytes_max);
        encoder.table.set_capacity(bytes);
        if bytes > 0 {
            integer::write(0x20, 5, bytes, &mut encoder.said);
        }
        encoder
    }

    /// Begins the head of a stream.
    pub fn begin(&self, stream: u64) -> Draft {
        let has_room = self.sections.len() < SECTIONS_MAX;
        let base = if has_room { self.acknowledged } else { 0 };
        Draft { stream, base, lowest: u64::MAX, required: 0, fields: Vec::with_capacity(256) }
    }

    /// Appends a field. Its name has to be in lower case. One that `is_secret` shall not be in any table
    /// on the way.
    pub fn field(&mut self, draft: &mut Draft, name: &[u8], value: &[u8], is_secret: bool) {
        let known = statics::find(name, value);
        let is_whole = known.is_some_and(|(_, is_whole)| is_whole);
        if is_secret || is_whole || PASSING.contains(&name) {
            return encode_known(known, (name, value), is_secret, &mut draft.fields);
        }
        if let Some(number) = self.table.find(name, value, draft.base) {
            draft.lowest = draft.lowest.min(number);
            draft.required = draft.required.max(number + 1);
            let index = (draft.base - number - 1) as usize;
            return integer::write(0x80, 6, index, &mut draft.fields);
        }
        encode_known(known, (name, value), false, &mut draft.fields);
        if self.is_said_again(hash(name, value)) {
            self.tell(name, value, draft.lowest);
        }
    }

    /// Ends a head, and says what it is: its beginning and the rest.
    pub fn finish(&mut self, draft: Draft) -> (Vec<u8>, Vec<u8>) {
        let Draft { stream, base, lowest, required, fields } = draft;
        let mut prefix = Vec::with_capacity(8);
        if required == 0 {
            begin(&mut prefix);
        } else {
            let encoded = required % (2 * self.entries_max) + 1;
            integer::write(0, 8, encoded as usize, &mut prefix);
            integer::write(0, 7, (base - required) as usize, &mut prefix);
            self.sections.push_back(Section { stream, lowest, required });
        }
        (prefix, fields)
    }

    /// Takes what came on the peer's stream for it and says how many bytes are done; the rest is the
    /// beginning of more.
    ///
    /// # Errors
    /// [`HpackError`]; the connection has to end with QPACK_DECODER_STREAM_ERROR.
    pub fn instructions(&mut self, input: &[u8]) -> Result<usize, HpackError> {
        let mut rest = input;
        while let Some(first) = rest.first() {
            let bits = match first {
                0x80.. => 7,
                _ => 6,
            };
            let (number, after) = match large_number(rest, bits) {
                Err(HpackError::ClientTruncated) => break,
                read => read?,
            };
            match first {
                0x80.. => self.arrived(number)?,
                0x40..0x80 => self.sections.retain(|section| section.stream != number),
                _ => {
                    let more = self.acknowledged.saturating_add(number);
                    if number == 0 || more > self.table.inserted() {
                        return Err(HpackError::ClientIndex);
                    }
                    self.acknowledged = more;
                }
            }
            rest = after;
        }
        Ok(input.len() - rest.len())
    }

    /// Whether there is anything to be said to the peer.
    pub fn has_said(&self) -> bool {
        !self.said.is_empty()
    }

    /// What is to be said to the peer.
    pub fn take_said(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.said)
    }

    /// The first head of a stream that is under way was read.
    fn arrived(&mut self, stream: u64) -> Result<(), HpackError> {
        let at = self.sections.iter().position(|section| section.stream == stream);
        let section = at.and_then(|at| self.sections.remove(at)).ok_or(HpackError::ClientIndex)?;
        self.acknowledged = self.acknowledged.max(section.required);
        Ok(())
    }

    /// Whether a field was said before, as far as is remembered.
    fn is_said_again(&mut self, hash: u64) -> bool {
        if let Some(at) = self.said_once.iter().position(|other| *other == hash) {
            self.said_once.remove(at);
            return true;
        }
        if self.said_once.len() == SAID_ONCE_MAX {
            self.said_once.pop_front();
        }
        self.said_once.push_back(hash);
        false
    }

    /// Tells the peer a field for later, where there is room without taking what is on its way, or may be
    /// referred to (RFC 9204 §2.1.1). `lowest` is the same of the head that is being written.
    fn tell(&mut self, name: &[u8], value: &[u8], lowest: u64) {
        let bytes = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        let is_there = self.table.find(name, value, u64::MAX).is_some();
        let is_unheard = self.table.inserted() - self.acknowledged >= UNHEARD_MAX;
        if is_there || is_unheard || bytes > self.table.capacity_bytes() / SHARE_OF_TABLE {
            return;
        }
        let referred = self.sections.iter().map(|section| section.lowest).min();
        let end = self.acknowledged.min(lowest).min(referred.unwrap_or(u64::MAX));
        while self.table.room() < bytes {
            if self.table.first() >= end {
                return;
            }
            self.table.forget_first();
        }
        match statics::find(name, value) {
            Some((index, _)) => integer::write(0xc0, 6, index, &mut self.said),
            None => write_text(0x40, 5, name, &mut self.said),
        }
        write_text(0, 7, value, &mut self.said);
        let is_in = self.table.insert(name, value);
        debug_assert!(is_in, "there is room for it");
    }
}

/// Reads a number that may be that of any stream.
fn large_number(input: &[u8], prefix_bits: u32) -> Result<(u64, &[u8]), HpackError> {
    let (first, mut rest) = input.split_first().ok_or(HpackError::ClientTruncated)?;
    let mask = (1_u64 << prefix_bits) - 1;
    let mut number = u64::from(*first) & mask;
    if number < mask {
        return Ok((number, rest));
    }
    // Eight bytes of seven bits and the prefix: all that a stream's number has.
    for shift in (0..=56).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(HpackError::ClientTruncated)?;
        rest = after;
        number = number.saturating_add(u64::from(byte & 0x7f) << shift);
        if byte & 0x80 == 0 {
            return Ok((number, rest));
        }
    }
    Err(HpackError::ClientInteger)
}

/// Begins the fields of one head that refers to no table but the one that everybody knows.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends a field. Its name has to be in lower case. One that `is_secret` shall not be in any table
/// on the way.
pub fn encode(name: &[u8], value: &[u8], is_secret: bool, out: &mut Vec<u8>) {
    encode_known(statics::find(name, value), (name, value), is_secret, out);
}

/// The same of a field of which this is known to everybody.
fn encode_known(
    known: Option<(usize, bool)>,
    (name, value): (&[u8], &[u8]),
    is_secret: bool,
    out: &mut Vec<u8>,
) {
    let secret = if is_secret { 0x20 } else { 0 };
    match known {
        Some((index, true)) if !is_secret => return integer::write(0xc0, 6, index, out),
        Some((index, _)) => integer::write(0x50 | secret, 4, index, out),
        None => write_text(0x20 | if is_secret { 0x10 } else { 0 }, 3, name, out),
    }
    write_text(0, 7, value, out);
}

/// Appends text, packed where that is shorter (RFC 9204 §4.1.2).
fn write_text(pattern: u8, prefix_bits: u32, text: &[u8], out: &mut Vec<u8>) {
    let packed = huffman::encoded_bytes(text);
    if packed < text.len() {
        integer::write(pattern | 1 << prefix_bits, prefix_bits, packed, out);
        huffman::encode(text, out);
    } else {
        integer::write(pattern, prefix_bits, text.len(), out);
        out.extend_from_slice(text);
    }
}
