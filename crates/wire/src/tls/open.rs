//! Records into plaintext.

use super::alert::description;
use super::handshake::{Message, Messages};
use super::key::{Protection, additional_data_12};
use super::{
    AlertLevel, ContentType, EMPTY_RECORDS_MAX, FRAGMENT_BYTES_MAX, HEADER_BYTES, KEY_UPDATES_MAX,
    KeyError, PLAINTEXT_BYTES_MAX, RENEGOTIATIONS_MAX, TAG_BYTES, TrafficKey, Version, Violation,
    WARNINGS_MAX,
};
use aws_lc_rs::aead::{Aad, Nonce};
use std::fmt;
use std::ops::Range;

/// One record that was opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Opened {
    /// Bytes of the input it took.
    pub record_bytes: usize,
    /// What it said.
    pub event: Event,
}

/// What a record says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// Plaintext, at this place in the input. Never empty.
    Data(Range<usize>),
    /// Nothing for the layer above: an empty record, part of a message, a warning.
    Nothing,
    /// The next record is under the peer's next key: call [`Opener::change_key`] first. With
    /// `answer` the peer wants our keys changed as well.
    KeyUpdate {
        /// Whether the peer asks for a key update in return.
        answer: bool,
    },
    /// The peer would like to renegotiate (TLS 1.2). It is told that this is not done, by a warning
    /// [`NO_RENEGOTIATION`](description::NO_RENEGOTIATION).
    Renegotiation,
    /// The peer has nothing more to say. What follows does not count.
    CloseNotify,
}

/// Opens one direction of a connection.
pub struct Opener {
    protection: Protection,
    sequence: u64,
    messages: Messages,
    empty_records: u8,
    key_updates: u8,
    warnings: u8,
    renegotiations: u8,
}

impl Opener {
    /// Starts with the record number `sequence`.
    ///
    /// # Errors
    /// [`KeyError::Refused`].
    pub fn new(version: Version, key: &TrafficKey, sequence: u64) -> Result<Self, KeyError> {
        Ok(Self {
            protection: Protection::new(version, key)?,
            sequence,
            messages: Messages::default(),
            empty_records: 0,
            key_updates: 0,
            warnings: 0,
            renegotiations: 0,
        })
    }

    /// Bytes of the record at the start of `input`, header included, as soon as that is there.
    ///
    /// # Errors
    /// A header that cannot begin a record here.
    pub fn record_bytes(&self, input: &[u8]) -> Result<Option<usize>, Violation> {
        let Some(&[outer, _, _, length_high, length_low]) = input.first_chunk() else {
            return Ok(None);
        };
        let expected = match (self.protection.version, ContentType::from_byte(outer)) {
            (_, Some(ContentType::ApplicationData)) => true,
            // Under TLS 1.3 the outside shows no other type (RFC 8446 §5.2).
            (Version::Tls13, _) => false,
            (Version::Tls12, content) => {
                matches!(content, Some(ContentType::Alert | ContentType::Handshake))
            }
        };
        if !expected {
            return Err(Violation::PeerUnexpectedRecord);
        }
        let fragment_bytes = usize::from(u16::from_be_bytes([length_high, length_low]));
        if fragment_bytes > FRAGMENT_BYTES_MAX {
            return Err(Violation::PeerRecordOverflow);
        }
        Ok(Some(HEADER_BYTES + fragment_bytes))
    }

    /// Opens the record at the start of `input`, in place. `None` means that it is not all there.
    ///
    /// # Errors
    /// What the peer did wrong. The connection is over; nothing more may be opened.
    pub fn open(&mut self, input: &mut [u8]) -> Result<Option<Opened>, Violation> {
        let Some(record_bytes) = self.record_bytes(input)? else { return Ok(None) };
        let Some(record) = input.get_mut(..record_bytes) else { return Ok(None) };
        let (content, place) = self.decrypt(record)?;
        self.sequence = self.sequence.checked_add(1).ok_or(Violation::PeerSequence)?;
        let event = self.interpret(content, &record[place.clone()], place)?;
        Ok(Some(Opened { record_bytes, event }))
    }

    /// Uses `key` from the next record on, which is the first under it.
    ///
    /// # Errors
    /// [`KeyError::Refused`].
    pub fn change_key(&mut self, key: &TrafficKey) -> Result<(), KeyError> {
        self.protection = Protection::new(self.protection.version, key)?;
        self.sequence = 0;
        Ok(())
    }

    /// Decrypts a whole record and says what it is and where its content lies.
    fn decrypt(&self, record: &mut [u8]) -> Result<(u8, Range<usize>), Violation> {
        let explicit = self.protection.explicit_nonce_bytes();
        let start = HEADER_BYTES + explicit;
        let plain_bytes =
            record.len().checked_sub(start + TAG_BYTES).ok_or(Violation::PeerBadRecord)?;
        let (header, fragment) = record.split_first_chunk_mut::<HEADER_BYTES>().expect("present");
        let [outer, major, minor, ..] = *header;
        let nonce = match fragment.first_chunk::<8>() {
            Some(sent) if explicit > 0 => self.protection.nonce_with(sent),
            _ => Nonce::assume_unique_for_key(self.protection.nonce(self.sequence)),
        };
        let body = &mut fragment[explicit..];
        let aead = &self.protection.aead;
        let opened = match self.protection.version {
            Version::Tls13 => aead.open_in_place(nonce, Aad::from(*header), body),
            Version::Tls12 => {
                let bytes = plain_bytes as u16;
                let data = additional_data_12(self.sequence, outer, [major, minor], bytes);
                aead.open_in_place(nonce, Aad::from(data), body)
            }
        };
        let plain = opened.map_err(|_| Violation::PeerBadRecord)?;
        match self.protection.version {
            Version::Tls12 if plain.len() > PLAINTEXT_BYTES_MAX => {
                Err(Violation::PeerRecordOverflow)
            }
            Version::Tls12 => Ok((outer, start..start + plain.len())),
            // The padding counts (RFC 8446 §5.4).
            Version::Tls13 if plain.len() > PLAINTEXT_BYTES_MAX + 1 => {
                Err(Violation::PeerRecordOverflow)
            }
            Version::Tls13 => {
                let last = plain.iter().rposition(|&byte| byte != 0);
                let last = last.ok_or(Violation::PeerZeroes)?;
                Ok((plain[last], start..start + last))
            }
        }
    }

    fn interpret(
        &mut self,
        content: u8,
        plain: &[u8],
        place: Range<usize>,
    ) -> Result<Event, Violation> {
        let content = ContentType::from_byte(content).ok_or(Violation::PeerUnexpectedRecord)?;
        if self.messages.is_amid() && content != ContentType::Handshake {
            return Err(Violation::PeerInterleaved);
        }
        if plain.is_empty() {
            return self.empty(content);
        }
        self.empty_records = 0;
        match content {
            ContentType::ApplicationData => {
                self.key_updates = 0;
                Ok(Event::Data(place))
            }
            ContentType::Handshake => match self.messages.take(self.protection.version, plain)? {
                None => Ok(Event::Nothing),
                Some(Message::KeyUpdate { answer }) => {
                    count(&mut self.key_updates, KEY_UPDATES_MAX, Violation::PeerKeyUpdates)?;
                    Ok(Event::KeyUpdate { answer })
                }
                Some(Message::ClientHello) => {
                    let counter = &mut self.renegotiations;
                    count(counter, RENEGOTIATIONS_MAX, Violation::PeerRenegotiations)?;
                    Ok(Event::Renegotiation)
                }
            },
            ContentType::Alert => self.alert(plain),
            ContentType::ChangeCipherSpec => Err(Violation::PeerUnexpectedRecord),
        }
    }

    fn empty(&mut self, content: ContentType) -> Result<Event, Violation> {
        match (self.protection.version, content) {
            (_, ContentType::ApplicationData) => {
                count(&mut self.empty_records, EMPTY_RECORDS_MAX, Violation::PeerEmptyRecords)?;
                Ok(Event::Nothing)
            }
            _ => Err(Violation::PeerEmptyMessage),
        }
    }

    fn alert(&mut self, plain: &[u8]) -> Result<Event, Violation> {
        let &[level, what] = plain else { return Err(Violation::PeerAlertMalformed) };
        let is_warning = level == AlertLevel::Warning as u8;
        if !is_warning && level != AlertLevel::Fatal as u8 {
            return Err(Violation::PeerAlertLevel);
        }
        if what == description::CLOSE_NOTIFY {
            return Ok(Event::CloseNotify);
        }
        if !is_warning {
            return Err(Violation::PeerAlert(what));
        }
        count(&mut self.warnings, WARNINGS_MAX, Violation::PeerWarnings)?;
        // TLS 1.3 has one warning left (RFC 8446 §6.1).
        if self.protection.version == Version::Tls13 && what != description::USER_CANCELED {
            return Err(Violation::PeerAlertMalformed);
        }
        Ok(Event::Nothing)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("version", &self.protection.version)
            .field("cipher", &self.protection.cipher)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

fn count(counter: &mut u8, max: u8, violation: Violation) -> Result<(), Violation> {
    if *counter >= max {
        return Err(violation);
    }
    *counter += 1;
    Ok(())
}
