//! What differs between the versions of QUIC: version 1 (RFC 9000) and version 2 (RFC 9369), and how
//! one is chosen (RFC 9368).

use super::packet::Kind;

/// A version that is spoken here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Version {
    /// RFC 9000.
    #[default]
    V1,
    /// RFC 9369: the first, with other constants.
    V2,
}

impl Version {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// The one of which packets say this; `None` when it is not spoken here.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.number() == number)
    }

    /// What its packets say.
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 0x6b33_43cf,
        }
    }

    /// What rustls calls it, which has its salts and labels.
    pub fn tls(self) -> rustls::quic::Version {
        match self {
            Self::V1 => rustls::quic::Version::V1,
            Self::V2 => rustls::quic::Version::V2,
        }
    }

    /// The kinds of packets with a long head, in the order of their bits (RFC 9000 §17.2, RFC 9369 §3.2).
    fn kinds(self) -> [Kind; 4] {
        match self {
            Self::V1 => [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry],
            Self::V2 => [Kind::Retry, Kind::Initial, Kind::ZeroRtt, Kind::Handshake],
        }
    }

    /// The kind of a packet with a long head that begins with `first`.
    pub(super) fn kind(self, first: u8) -> Kind {
        let [a, b, c, d] = self.kinds();
        match first >> 4 & 3 {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        }
    }

    /// What a packet of this kind begins with, as far as its kind says; `None` of one with a short head.
    pub(super) fn first_byte(self, kind: Kind) -> Option<u8> {
        let bits = self.kinds().into_iter().position(|other| other == kind)?;
        Some(0xc0 | (bits as u8) << 4)
    }

    /// Key and nonce of what Retry packets end with (RFC 9001 §5.8, RFC 9369 §3.3.3).
    pub(super) fn retry_key(self) -> ([u8; 16], [u8; 12]) {
        match self {
            Self::V1 => (
                0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes(),
                [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
            ),
            Self::V2 => (
                0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92_u128.to_be_bytes(),
                [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
            ),
        }
    }
}

/// What a client says of versions (RFC 9368 §3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VersionInformation {
    /// The one that it began with.
    pub chosen: u32,
    /// Of those that it could have begun with in the same words and that are spoken here, the one it
    /// likes best.
    pub preferred: Option<Version>,
}

impl VersionInformation {
    /// Reads the parameter; `None` when it is malformed.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|number| u32::from_be_bytes(*number));
        let chosen = numbers.next()?;
        let mut preferred = None;
        let mut is_available = false;
        for number in numbers {
            if number == 0 {
                return None;
            }
            is_available |= number == chosen;
            preferred = preferred.or_else(|| Version::of(number));
        }
        (rest.is_empty() && chosen != 0 && is_available).then_some(Self { chosen, preferred })
    }

    /// What we say where `chosen` is spoken.
    pub(super) fn write(chosen: Version) -> Vec<u8> {
        let all = Version::ALL.into_iter().rev();
        [chosen].into_iter().chain(all).flat_map(|version| version.number().to_be_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn what_a_client_says_of_versions_is_read() {
        let (v1, v2) = (Version::V1.number(), Version::V2.number());
        for (said, want) in [
            (&[v1, 0x1a2a_3a4a, v2, v1][..], Some(Version::V2)),
            (&[v1, v1, v2], Some(Version::V1)),
            (&[0xff00_001d, 0xff00_001d], None),
        ] {
            let want = Some(VersionInformation { chosen: said[0], preferred: want });
            assert_eq!(VersionInformation::read(&of(said)), want);
        }
        for wrong in [&[][..], &[v1], &[v1, v2], &[0, 0], &[v1, v1, 0]] {
            assert_eq!(VersionInformation::read(&of(wrong)), None, "{wrong:x?}");
        }
        assert_eq!(VersionInformation::read(&[&of(&[v1, v1])[..], &[0]].concat()), None);
    }

    #[test]
    fn first_bytes_and_kinds_are_each_others() {
        for version in Version::ALL {
            for kind in [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry] {
                assert_eq!(version.kind(version.first_byte(kind).unwrap()), kind);
            }
            assert_eq!(version.first_byte(Kind::OneRtt), None);
            assert_eq!(Version::of(version.number()), Some(version));
        }
    }
}
