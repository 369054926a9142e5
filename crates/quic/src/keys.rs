//! Keys of packets (RFC 9001 §5), as rustls makes them.

use super::cipher::Cipher;
use super::packet::{Kind, NUMBER_BYTES_MAX, Protected, SAMPLE_BYTES, TAG_BYTES, expand_number};
use super::version::Version;
use rustls::CipherSuite;
use rustls::Side;
use rustls::crypto::CryptoProvider;
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey};
use std::ops::Range;

/// The keys of first packets, which everybody on the way can make too (RFC 9001 §5.2); `None` when
/// `provider` has no AES-128-GCM for QUIC.
pub fn initial_keys(
    provider: &CryptoProvider,
    version: Version,
    original: &[u8],
    side: Side,
) -> Option<Keys> {
    let suite = provider.cipher_suites.iter().find_map(|suite| {
        let suite = suite.tls13()?;
        (suite.common.suite == CipherSuite::TLS13_AES_128_GCM_SHA256).then_some(suite)
    })?;
    Some(Keys::initial(version.tls(), suite, suite.quic?, original, side))
}

/// The number of a packet whose head is no longer hidden.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Opened {
    /// Its number.
    pub number: u64,
    /// Its first byte.
    pub first: u8,
    /// Where the payload begins.
    pub payload_at: usize,
}

/// Takes the protection off the head of a packet, which `datagram` begins with (RFC 9001 §5.4).
/// `expected` is one above the highest number that came before.
pub fn open_head(
    key: &dyn HeaderProtectionKey,
    datagram: &mut [u8],
    packet: &Protected,
    expected: u64,
) -> Option<Opened> {
    let (head, rest) = datagram.split_at_mut_checked(packet.number_at)?;
    let (number, rest) = rest.split_at_mut_checked(NUMBER_BYTES_MAX)?;
    let first = head.first_mut()?;
    key.decrypt_in_place(rest.get(..SAMPLE_BYTES)?, first, number).ok()?;
    let bytes = usize::from(*first & 3) + 1;
    let truncated =
        number.iter().take(bytes).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    Some(Opened {
        number: expand_number(expected, truncated, bytes),
        first: *first,
        payload_at: packet.number_at + bytes,
    })
}

/// Deciphers a payload in place and says where it is; `None` when the packet is not what the key's
/// owner sent.
pub fn open_payload(
    key: &dyn PacketKey,
    packet: &mut [u8],
    opened: Opened,
    end: usize,
) -> Option<Range<usize>> {
    let packet = packet.get_mut(..end)?;
    let (head, payload) = packet.split_at_mut_checked(opened.payload_at)?;
    let len = key.decrypt_in_place(opened.number, head, payload).ok()?.len();
    Some(opened.payload_at..opened.payload_at + len)
}

/// The same with one of our ciphers.
pub(super) fn open_with(
    cipher: &Cipher,
    packet: &mut [u8],
    opened: Opened,
    end: usize,
) -> Option<Range<usize>> {
    let packet = packet.get_mut(..end)?;
    let (head, payload) = packet.split_at_mut_checked(opened.payload_at)?;
    let len = cipher.open(opened.number, head, payload)?;
    Some(opened.payload_at..opened.payload_at + len)
}

/// Seals a packet in place: `packet` is all of it with room for its tag at the end, its payload begins
/// at `payload_at`, and its number is in the `number_bytes` before that. False when the cipher refuses.
pub fn seal(
    packet_key: &dyn PacketKey,
    head_key: &dyn HeaderProtectionKey,
    (number, number_bytes): (u64, usize),
    payload_at: usize,
    packet: &mut [u8],
) -> bool {
    let Some((head, payload)) = packet.split_at_mut_checked(payload_at) else { return false };
    let Some(len) = payload.len().checked_sub(TAG_BYTES) else { return false };
    let (payload, place) = payload.split_at_mut(len);
    let Ok(tag) = packet_key.encrypt_in_place(number, head, payload) else { return false };
    place.copy_from_slice(tag.as_ref());
    hide_head(head_key, number_bytes, payload_at, packet)
}

/// Puts the protection on the head of a packet that is sealed otherwise (RFC 9001 §5.4).
pub(super) fn hide_head(
    head_key: &dyn HeaderProtectionKey,
    number_bytes: usize,
    payload_at: usize,
    packet: &mut [u8],
) -> bool {
    let Some(number_at) = payload_at.checked_sub(number_bytes) else { return false };
    let Some((head, rest)) = packet.split_at_mut_checked(number_at) else { return false };
    let Some((number, rest)) = rest.split_at_mut_checked(number_bytes) else { return false };
    // The sample begins as if the number had all its bytes.
    let sample_at = NUMBER_BYTES_MAX - number_bytes;
    let (Some(sample), Some(first)) =
        (rest.get(sample_at..sample_at + SAMPLE_BYTES), head.first_mut())
    else {
        return false;
    };
    head_key.encrypt_in_place(sample, first, number).is_ok()
}

/// Bits of the first byte that have to be zero once it can be read (RFC 9000 §17.2, §17.3.1).
pub fn reserved_bits(kind: Kind) -> u8 {
    if kind == Kind::OneRtt { 0x18 } else { 0x0c }
}

#[cfg(test)]
mod tests {
    use super::super::cipher::with_ciphers;
    use super::*;
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::quic::DirectionalKeys;

    /// The bytes of these digits as the RFCs print them, in lines.
    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        freshet_base::hexadecimal::decode_all(&digits).unwrap()
    }

    fn sealed(keys: &DirectionalKeys, number: (u64, usize), at: usize, out: &mut [u8]) -> bool {
        seal(&*keys.packet, &*keys.header, number, at, out)
    }

    /// RFC 9001 §A.2: a client's first packet, of which the payload is padded to 1,162 bytes.
    const CRYPTO: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868
        04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578
        616d706c652e636f6dff01000100000a00080006001d00170018001000070005
        04616c706e000500050100000000003300260024001d00209370b2c9caa47fba
        baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400
        0d0010000e0403050306030203080408050806002d00020101001c0002400100
        3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000
        75300901100f088394c8f03e51570806048000ffff";

    /// RFC 9001 §A.3: a server's answer.
    const ANSWER: &str = "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739
        88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94
        0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00
        020304";

    /// The first packet of a client as the RFCs have it, behind this head, and where its payload begins.
    fn first_packet(keys: &DirectionalKeys, head: &str) -> (Vec<u8>, usize) {
        let mut out = hex(head);
        let payload_at = out.len();
        out.extend(first_payload());
        out.extend([0; TAG_BYTES]);
        assert!(sealed(keys, (2, 4), payload_at, &mut out));
        assert_eq!(out.len(), 1200);
        (out, payload_at)
    }

    fn first_payload() -> Vec<u8> {
        let mut payload = hex(CRYPTO);
        payload.resize(1162, 0);
        payload
    }

    #[test]
    fn the_first_packets_of_the_rfc() {
        let provider = with_ciphers(default_provider());
        let original = hex("8394c8f03e515708");
        let keys = |side| initial_keys(&provider, Version::V1, &original, side).unwrap();
        let (client, server) = (keys(Side::Client), keys(Side::Server));

        let head = "c300000001088394c8f03e5157080000449e00000002";
        let (mut out, payload_at) = first_packet(&client.local, head);
        assert!(
            out.starts_with(&hex(
                "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11"
            ))
        );
        assert!(out.ends_with(&hex("e221af44860018ab0856972e194cd934")));

        let packet = Protected::read(&out).unwrap();
        let opened = open_head(&*server.remote.header, &mut out, &packet, 0).unwrap();
        assert_eq!((opened.number, opened.first, opened.payload_at), (2, 0xc3, payload_at));
        let mut changed = out.clone();
        changed[100] ^= 1;
        assert_eq!(open_payload(&*server.remote.packet, &mut changed, opened, 1200), None);
        let at = open_payload(&*server.remote.packet, &mut out, opened, 1200).unwrap();
        assert_eq!(out[at], first_payload());

        // §A.3: the server's answer.
        let mut out = hex("c1000000010008f067a5502a4262b50040750001");
        let payload_at = out.len();
        out.extend(hex(ANSWER));
        out.extend([0; TAG_BYTES]);
        assert!(sealed(&server.local, (1, 2), payload_at, &mut out));
        assert_eq!(
            out,
            hex("cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a
            5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3
            dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
            022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4
            2158407dd074ee")
        );
    }

    /// RFC 9369 §A.2 and §A.3: the same payloads under version 2.
    #[test]
    fn the_first_packets_of_version_2() {
        let provider = with_ciphers(default_provider());
        let original = hex("8394c8f03e515708");
        let keys = |side| initial_keys(&provider, Version::V2, &original, side).unwrap();
        let (client, server) = (keys(Side::Client), keys(Side::Server));
        let head = "d36b3343cf088394c8f03e5157080000449e00000002";
        let (mut out, _) = first_packet(&client.local, head);
        assert!(
            out.starts_with(&hex(
                "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485"
            ))
        );
        assert!(out.ends_with(&hex("cf772a9f84cbfc")));
        let packet = Protected::read(&out).unwrap();
        assert_eq!((packet.kind, packet.version), (Kind::Initial, Some(Version::V2)));
        let opened = open_head(&*server.remote.header, &mut out, &packet, 0).unwrap();
        let at = open_payload(&*server.remote.packet, &mut out, opened, 1200).unwrap();
        assert_eq!(out[at], first_payload());

        let mut out = hex("d16b3343cf0008f067a5502a4262b50040750001");
        let payload_at = out.len();
        out.extend(hex(ANSWER));
        out.extend([0; TAG_BYTES]);
        assert!(sealed(&server.local, (1, 2), payload_at, &mut out));
        assert_eq!(
            out,
            hex("dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698
            baeea26b91eb761d9b89237bbf87263017915358230035f7fd3945d88965cf17
            f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2
            c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca8
            4bed8521e2e140")
        );
    }
}
