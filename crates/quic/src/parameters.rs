//! Transport parameters (RFC 9000 §18, RFC 9368 §3).

use super::ack_frequency::DELAY_MIN;
use super::error::{Error, code};
use super::id::Id;
use super::limits::DATAGRAM_BYTES_MIN;
use super::varint::{Reader, varint_bytes, write_varint};
use super::version::{Version, VersionInformation};
use std::time::Duration;

/// What a client says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// The id its first packets came from.
    pub initial_source: Option<Id>,
    /// Silence after which it gives up; zero for never.
    pub idle_timeout: Duration,
    /// The largest datagram it takes.
    pub datagram_bytes_max: usize,
    /// What may be sent to it on all streams.
    pub data_max: u64,
    /// What may be sent on a stream that it opens.
    pub stream_data_max: u64,
    /// What may be sent on a stream that we open, one way.
    pub own_stream_data_max: u64,
    /// How many such streams we may open.
    pub own_streams_max: u64,
    /// The exponent of the delays in its ACK frames.
    pub ack_delay_exponent: u32,
    /// How long it may hold back an acknowledgement.
    pub ack_delay_max: Duration,
    /// The least it can be asked to hold one back for; `None` where it cannot be asked.
    pub ack_delay_min: Option<Duration>,
    /// How many of our ids it keeps.
    pub ids_max: u64,
    /// Which versions it speaks, where it says so.
    pub versions: Option<VersionInformation>,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            initial_source: None,
            idle_timeout: Duration::ZERO,
            datagram_bytes_max: 65_527,
            data_max: 0,
            stream_data_max: 0,
            own_stream_data_max: 0,
            own_streams_max: 0,
            ack_delay_exponent: 3,
            ack_delay_max: Duration::from_millis(25),
            ack_delay_min: None,
            ids_max: 2,
            versions: None,
        }
    }
}

/// Numbers of parameters (RFC 9000 §18.2).
mod key {
    pub(super) const ORIGINAL_DESTINATION: u64 = 0x00;
    pub(super) const IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const RESET_TOKEN: u64 = 0x02;
    pub(super) const DATAGRAM_BYTES: u64 = 0x03;
    pub(super) const DATA: u64 = 0x04;
    pub(super) const STREAM_DATA_LOCAL: u64 = 0x05;
    pub(super) const STREAM_DATA_REMOTE: u64 = 0x06;
    pub(super) const STREAM_DATA_ONE_WAY: u64 = 0x07;
    pub(super) const STREAMS: u64 = 0x08;
    pub(super) const STREAMS_ONE_WAY: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const ACK_DELAY: u64 = 0x0b;
    pub(super) const NO_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const IDS: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE: u64 = 0x0f;
    pub(super) const RETRY_SOURCE: u64 = 0x10;
    pub(super) const VERSIONS: u64 = 0x11;
    /// draft-ietf-quic-ack-frequency §3.
    pub(super) const ACK_DELAY_MIN: u64 = 0xff04_de1b;
}

impl Peer {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR: it cannot be read, says a thing twice, or what only servers say.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        Self::read_all(bytes)
            .ok_or(Error::new(code::TRANSPORT_PARAMETER_ERROR, "the parameters cannot be read"))
    }

    fn read_all(bytes: &[u8]) -> Option<Self> {
        let mut peer = Self::default();
        let mut reader = Reader::new(bytes);
        let mut seen = 0_u32;
        while !reader.is_empty() {
            let key = reader.varint()?;
            let value = reader.prefixed()?;
            if let Some(bit) = u32::try_from(key).ok().and_then(|key| 1_u32.checked_shl(key)) {
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
            }
            let number = || {
                let mut reader = Reader::new(value);
                reader.varint().filter(|_| reader.is_empty())
            };
            match key {
                key::IDLE_TIMEOUT => peer.idle_timeout = Duration::from_millis(number()?),
                key::DATAGRAM_BYTES => {
                    let bytes = number()?.min(65_527) as usize;
                    if bytes < DATAGRAM_BYTES_MIN {
                        return None;
                    }
                    peer.datagram_bytes_max = bytes;
                }
                key::DATA => peer.data_max = number()?,
                // Local to the client: the streams it opens.
                key::STREAM_DATA_LOCAL => peer.stream_data_max = number()?,
                key::STREAM_DATA_ONE_WAY => peer.own_stream_data_max = number()?,
                key::STREAM_DATA_REMOTE => {
                    number()?;
                }
                key::STREAMS | key::STREAMS_ONE_WAY => {
                    let count = number().filter(|count| *count <= 1 << 60)?;
                    if key == key::STREAMS_ONE_WAY {
                        peer.own_streams_max = count;
                    }
                }
                key::ACK_DELAY_EXPONENT => {
                    peer.ack_delay_exponent = number().filter(|value| *value <= 20)? as u32;
                }
                key::ACK_DELAY => {
                    let millis = number().filter(|value| *value < 1 << 14)?;
                    peer.ack_delay_max = Duration::from_millis(millis);
                }
                key::ACK_DELAY_MIN => {
                    // Said twice it is none of the first 32.
                    let before = peer.ack_delay_min.replace(Duration::from_micros(number()?));
                    if before.is_some() {
                        return None;
                    }
                }
                key::NO_MIGRATION if !value.is_empty() => return None,
                key::IDS => peer.ids_max = number().filter(|count| *count >= 2)?,
                key::INITIAL_SOURCE => peer.initial_source = Some(Id::new(value)?),
                key::VERSIONS => peer.versions = Some(VersionInformation::read(value)?),
                key::ORIGINAL_DESTINATION
                | key::RESET_TOKEN
                | key::PREFERRED_ADDRESS
                | key::RETRY_SOURCE => return None,
                // Unknown ones are for others.
                _ => {}
            }
        }
        // It may be said before the other is.
        if peer.ack_delay_min.is_some_and(|least| least > peer.ack_delay_max) {
            return None;
        }
        Some(peer)
    }
}

/// What we say of ourselves.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Local {
    /// Silence after which a connection is over.
    pub idle_timeout: Duration,
    /// Bytes that a client may send ahead of who takes them, on all streams.
    pub data_max: u64,
    /// The same on one stream.
    pub stream_data_max: u64,
    /// Requests at a time.
    pub streams_max: u64,
    /// Streams one way at a time.
    pub one_way_streams_max: u64,
    /// How long an acknowledgement may be held back.
    pub ack_delay_max: Duration,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(30),
            data_max: 1 << 20,
            stream_data_max: 256 << 10,
            streams_max: 100,
            // Three that HTTP/3 needs, and some that only keep servers from counting on three.
            one_way_streams_max: 8,
            ack_delay_max: Duration::from_millis(25),
        }
    }
}

/// Ids that are told in the parameters so that nobody on the way can change them (RFC 9000 §7.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Names {
    /// Whom the client's very first packet was for.
    pub original: Id,
    /// Our id.
    pub own: Id,
    /// Our id in a Retry packet, where one was sent.
    pub retry: Option<Id>,
    /// What a packet ends with that says we know nothing of `own`.
    pub reset_token: [u8; 16],
}

impl Local {
    /// The parameters of one connection, of this version.
    pub fn write(&self, names: &Names, version: Version) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let mut bytes = |key: u64, value: &[u8]| {
            write_varint(key, &mut out);
            write_varint(value.len() as u64, &mut out);
            out.extend_from_slice(value);
        };
        bytes(key::ORIGINAL_DESTINATION, names.original.as_bytes());
        bytes(key::INITIAL_SOURCE, names.own.as_bytes());
        bytes(key::RESET_TOKEN, &names.reset_token);
        if let Some(retry) = names.retry {
            bytes(key::RETRY_SOURCE, retry.as_bytes());
        }
        bytes(key::VERSIONS, &VersionInformation::write(version));
        for (key, value) in [
            (key::IDLE_TIMEOUT, self.idle_timeout.as_millis() as u64),
            (key::DATA, self.data_max),
            (key::STREAM_DATA_REMOTE, self.stream_data_max),
            (key::STREAM_DATA_ONE_WAY, self.stream_data_max),
            (key::STREAMS, self.streams_max),
            (key::STREAMS_ONE_WAY, self.one_way_streams_max),
            (key::ACK_DELAY, self.ack_delay_max.as_millis() as u64),
            (key::IDS, super::limits::PEER_IDS_MAX as u64),
            (key::ACK_DELAY_MIN, DELAY_MIN.min(self.ack_delay_max).as_micros() as u64),
        ] {
            write_varint(key, &mut out);
            write_varint(varint_bytes(value) as u64, &mut out);
            write_varint(value, &mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_is_read() {
        let bytes =
            [1, 2, 0x47, 0xd0, 4, 1, 9, 5, 1, 8, 7, 1, 7, 9, 1, 3, 0x0f, 2, 1, 2, 0x40, 99, 0];
        let peer = Peer::read(&bytes).expect("it is well formed");
        assert_eq!(peer.idle_timeout, Duration::from_secs(2));
        assert_eq!((peer.data_max, peer.stream_data_max), (9, 8));
        assert_eq!((peer.own_stream_data_max, peer.own_streams_max), (7, 3));
        assert_eq!(peer.initial_source, Id::new(&[1, 2]));
        assert_eq!(peer.ack_delay_min, None);
        let bytes = [0xc0, 0, 0, 0, 0xff, 4, 0xde, 0x1b, 4, 0x80, 0, 0x61, 0xa8];
        let peer = Peer::read(&bytes).expect("it is well formed");
        assert_eq!(peer.ack_delay_min, Some(Duration::from_millis(25)));
    }

    #[test]
    fn what_a_client_may_not_say_is_refused() {
        for wrong in [
            &[4, 1, 9, 4, 1, 9][..],
            &[0, 0],
            &[2, 0],
            &[3, 2, 0x44, 0],
            &[0x0a, 1, 21],
            &[0x0b, 4, 0x80, 0, 0x40, 0],
            &[0x0e, 1, 1],
            &[0x0c, 1, 1],
            &[4, 2, 9, 0],
            &[4, 9],
            // Versions: none; the chosen one is not among them; not a multiple of four bytes.
            &[0x11, 0],
            &[0x11, 4, 0, 0, 0, 1],
            &[0x11, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0],
            // 1 ms said twice; 25,001 µs beside 25 ms of which nothing is said; no number.
            &[
                0xc0, 0, 0, 0, 0xff, 4, 0xde, 0x1b, 2, 0x43, 0xe8, 0xc0, 0, 0, 0, 0xff, 4, 0xde,
                0x1b, 2, 0x43, 0xe8,
            ],
            &[0xc0, 0, 0, 0, 0xff, 4, 0xde, 0x1b, 4, 0x80, 0, 0x61, 0xa9],
            &[0xc0, 0, 0, 0, 0xff, 4, 0xde, 0x1b, 0],
        ] {
            assert_eq!(
                Peer::read(wrong).map_err(|error| error.code),
                Err(code::TRANSPORT_PARAMETER_ERROR),
                "{wrong:x?}"
            );
        }
    }
}
