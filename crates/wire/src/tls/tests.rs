//! A sealer against an opener: what comes out is what went in, and nothing else comes out.

use super::alert::description;
use super::*;
use proptest::prelude::*;
use std::io::IoSlice;

const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Chacha20Poly1305];
const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

fn key(cipher: Cipher) -> TrafficKey {
    let bytes: Vec<u8> = (0..cipher.key_bytes() as u8).collect();
    TrafficKey::new(cipher, &bytes, &[0xa5; 12]).unwrap()
}

fn pair(version: Version, cipher: Cipher, sequence: u64) -> (Sealer, Opener) {
    let key = key(cipher);
    let sealer = Sealer::new(version, &key, sequence, u64::MAX).unwrap();
    (sealer, Opener::new(version, &key, sequence).unwrap())
}

/// Every version with every cipher.
fn pairs() -> impl Iterator<Item = (Sealer, Opener)> {
    VERSIONS.into_iter().flat_map(|version| CIPHERS.map(|cipher| pair(version, cipher, 2)))
}

fn seal(sealer: &mut Sealer, content: ContentType, plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; plain.len() + OVERHEAD_BYTES_MAX];
    let bytes = sealer.seal(content, plain, &mut out).unwrap();
    out.truncate(bytes);
    out
}

/// Seals what TLS 1.3 puts inside a record, as it is.
fn seal_inner(sequence: u64, inner: &[u8]) -> Vec<u8> {
    let protection = key::Protection::new(Version::Tls13, &key(Cipher::Aes128Gcm)).unwrap();
    let [high, low] = ((inner.len() + 16) as u16).to_be_bytes();
    let header = [23, 3, 3, high, low];
    let nonce = aws_lc_rs::aead::Nonce::assume_unique_for_key(protection.nonce(sequence));
    let mut body = inner.to_vec();
    let data = aws_lc_rs::aead::Aad::from(header);
    protection.aead.seal_in_place_append_tag(nonce, data, &mut body).unwrap();
    [&header[..], &body].concat()
}

/// Opens everything in `wire` and returns the events and the plaintext.
fn open_all(opener: &mut Opener, wire: &mut [u8]) -> Result<(Vec<Event>, Vec<u8>), Violation> {
    let (mut events, mut plain, mut start) = (Vec::new(), Vec::new(), 0);
    while let Some(opened) = opener.open(&mut wire[start..])? {
        if let Event::Data(place) = &opened.event {
            plain.extend_from_slice(&wire[start..][place.clone()]);
        }
        start += opened.record_bytes;
        events.push(opened.event);
    }
    assert_eq!(start, wire.len(), "whole records");
    Ok((events, plain))
}

/// The event or violation of a TLS 1.3 record with this inside.
fn inner(bytes: &[u8]) -> Result<Event, Violation> {
    let (_, mut opener) = pair(Version::Tls13, Cipher::Aes128Gcm, 0);
    opener.open(&mut seal_inner(0, bytes)).map(|opened| opened.unwrap().event)
}

/// The event or violation of a record of each version.
fn record(content: ContentType, plain: &[u8]) -> [Result<Event, Violation>; 2] {
    VERSIONS.map(|version| {
        let (mut sealer, mut opener) = pair(version, Cipher::Aes128Gcm, 0);
        opener.open(&mut seal(&mut sealer, content, plain)).map(|opened| opened.unwrap().event)
    })
}

#[test]
fn what_was_sealed_opens_at_any_size_in_every_version_and_cipher() {
    for (mut sealer, mut opener) in pairs() {
        for bytes in [1, 2, 15, 16, 17, 1000, PLAINTEXT_BYTES_MAX] {
            let plain: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
            let mut wire = seal(&mut sealer, ContentType::ApplicationData, &plain);
            assert_eq!(wire.len(), bytes + sealer.overhead_bytes(), "{sealer:?}");
            assert_eq!(opener.record_bytes(&wire[..5]), Ok(Some(wire.len())));
            let (events, opened) = open_all(&mut opener, &mut wire).unwrap();
            assert_eq!((events.len(), opened), (1, plain));
        }
    }
}

#[test]
fn the_same_plaintext_never_seals_to_the_same_bytes() {
    for (mut sealer, _) in pairs() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(seal(&mut sealer, ContentType::ApplicationData, b"same")));
        }
    }
}

#[test]
fn a_known_record_seals_as_in_the_standards_example() {
    // RFC 8448 §3: the server's first application data record.
    let key = [
        0x9f, 0x02, 0x28, 0x3b, 0x6c, 0x9c, 0x07, 0xef, 0xc2, 0x6b, 0xb9, 0xf2, 0xac, 0x92, 0xe3,
        0x56,
    ];
    let iv = [0xcf, 0x78, 0x2b, 0x88, 0xdd, 0x83, 0x54, 0x9a, 0xad, 0xf1, 0xe9, 0x84];
    let key = TrafficKey::new(Cipher::Aes128Gcm, &key, &iv).unwrap();
    // The session ticket was record 0.
    let mut sealer = Sealer::new(Version::Tls13, &key, 1, u64::MAX).unwrap();
    let plain: Vec<u8> = (0..50).collect();
    let wire = seal(&mut sealer, ContentType::ApplicationData, &plain);
    let expected = "1703030043\
        2e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8fc\
        c49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d";
    let hex: String = wire.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
}

#[test]
fn a_record_opens_only_in_its_place() {
    for (mut sealer, mut opener) in pairs() {
        let mut first = seal(&mut sealer, ContentType::ApplicationData, b"first");
        let mut second = seal(&mut sealer, ContentType::ApplicationData, b"second");
        let mut again = first.clone();
        assert_eq!(opener.open(&mut second), Err(Violation::PeerBadRecord), "skipped");
        opener.open(&mut first).unwrap();
        assert_eq!(opener.open(&mut again), Err(Violation::PeerBadRecord), "repeated");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for (mut sealer, _) in pairs() {
        let wire = seal(&mut sealer, ContentType::ApplicationData, b"two words");
        for bit in 0..wire.len() * 8 {
            let mut damaged = wire.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let version = sealer.version();
            for cipher in CIPHERS {
                let (_, mut opener) = pair(version, cipher, 2);
                match opener.open(&mut damaged.clone()) {
                    // A longer length waits for more.
                    Ok(None) => assert!((24..40).contains(&bit), "bit {bit}"),
                    Ok(Some(_)) => panic!("bit {bit} of {sealer:?} was not noticed"),
                    Err(_) => {}
                }
            }
        }
    }
}

#[test]
fn lengths_beyond_the_standard_are_refused_by_the_header_alone() {
    for (_, opener) in pairs() {
        let header = |bytes: usize| {
            let [high, low] = (bytes as u16).to_be_bytes();
            opener.record_bytes(&[23, 3, 3, high, low])
        };
        assert_eq!(header(FRAGMENT_BYTES_MAX), Ok(Some(FRAGMENT_BYTES_MAX + 5)));
        assert_eq!(header(FRAGMENT_BYTES_MAX + 1), Err(Violation::PeerRecordOverflow));
        assert_eq!(header(0xffff), Err(Violation::PeerRecordOverflow));
    }
}

#[test]
fn records_too_short_for_a_tag_are_refused() {
    for (_, mut opener) in pairs() {
        for bytes in 0..16_u8 {
            let mut wire = vec![23, 3, 3, 0, bytes];
            wire.resize(5 + usize::from(bytes), 0);
            assert_eq!(opener.open(&mut wire), Err(Violation::PeerBadRecord));
        }
    }
}

#[test]
fn outer_types_that_do_not_belong_are_refused_by_the_first_byte() {
    for (_, opener) in pairs() {
        for outer in 0..=255 {
            let is_12 = format!("{opener:?}").contains("Tls12");
            let allowed = outer == 23 || (is_12 && (outer == 21 || outer == 22));
            let result = opener.record_bytes(&[outer, 3, 3, 0, 20]);
            let expected =
                if allowed { Ok(Some(25)) } else { Err(Violation::PeerUnexpectedRecord) };
            assert_eq!(result, expected, "{outer}");
        }
    }
}

#[test]
fn padding_is_taken_off_and_counts_for_the_limit() {
    for padding in [1, 100, PLAINTEXT_BYTES_MAX - 3] {
        let mut bytes = b"abc\x17".to_vec();
        bytes.resize(4 + padding, 0);
        assert_eq!(inner(&bytes), Ok(Event::Data(5..8)));
    }
    let mut bytes = b"abc\x17".to_vec();
    bytes.resize(PLAINTEXT_BYTES_MAX + 2, 0);
    assert_eq!(inner(&bytes), Err(Violation::PeerRecordOverflow));
    let mut bytes = vec![1; PLAINTEXT_BYTES_MAX + 2];
    bytes[PLAINTEXT_BYTES_MAX + 1] = 23;
    assert_eq!(inner(&bytes), Err(Violation::PeerRecordOverflow));
}

#[test]
fn what_is_inside_a_record_has_to_be_something() {
    assert_eq!(inner(&[]), Err(Violation::PeerZeroes));
    assert_eq!(inner(&[0; 40]), Err(Violation::PeerZeroes));
    assert_eq!(inner(&[1, 20]), Err(Violation::PeerUnexpectedRecord), "change_cipher_spec");
    assert_eq!(inner(&[1, 24]), Err(Violation::PeerUnexpectedRecord), "heartbeat");
    assert_eq!(inner(&[22]), Err(Violation::PeerEmptyMessage));
    assert_eq!(inner(&[21]), Err(Violation::PeerEmptyMessage));
    assert_eq!(inner(&[23]), Ok(Event::Nothing));
}

#[test]
fn empty_records_are_bounded_between_data() {
    for (mut sealer, mut opener) in pairs() {
        for _ in 0..3 {
            for _ in 0..EMPTY_RECORDS_MAX {
                let mut wire = seal(&mut sealer, ContentType::ApplicationData, b"");
                assert_eq!(opener.open(&mut wire).unwrap().unwrap().event, Event::Nothing);
            }
            let mut wire = seal(&mut sealer, ContentType::ApplicationData, b"x");
            opener.open(&mut wire).unwrap();
        }
        for _ in 0..EMPTY_RECORDS_MAX {
            let mut wire = seal(&mut sealer, ContentType::ApplicationData, b"");
            opener.open(&mut wire).unwrap();
        }
        let mut wire = seal(&mut sealer, ContentType::ApplicationData, b"");
        assert_eq!(opener.open(&mut wire), Err(Violation::PeerEmptyRecords));
    }
}

#[test]
fn alerts_have_their_meaning() {
    use Violation::*;
    let alert = |bytes: &[u8]| record(ContentType::Alert, bytes);
    for level in [1, 2] {
        assert_eq!(alert(&[level, 0]), [Ok(Event::CloseNotify), Ok(Event::CloseNotify)]);
    }
    assert_eq!(alert(&[2, 40]), [Err(PeerAlert(40)), Err(PeerAlert(40))]);
    assert_eq!(alert(&[2, 90]), [Err(PeerAlert(90)), Err(PeerAlert(90))]);
    assert_eq!(alert(&[1, 90]), [Ok(Event::Nothing), Ok(Event::Nothing)]);
    assert_eq!(alert(&[1, 100]), [Ok(Event::Nothing), Err(PeerAlertMalformed)]);
    assert_eq!(alert(&[3, 0]), [Err(PeerAlertLevel), Err(PeerAlertLevel)]);
    assert_eq!(alert(&[2]), [Err(PeerAlertMalformed), Err(PeerAlertMalformed)]);
    assert_eq!(alert(&[1, 0, 1, 0]), [Err(PeerAlertMalformed), Err(PeerAlertMalformed)]);
}

#[test]
fn warnings_are_bounded() {
    for (mut sealer, mut opener) in pairs() {
        let mut warn = || {
            let mut wire = seal(&mut sealer, ContentType::Alert, &[1, description::USER_CANCELED]);
            opener.open(&mut wire)
        };
        for _ in 0..WARNINGS_MAX {
            warn().unwrap();
        }
        assert_eq!(warn(), Err(Violation::PeerWarnings));
    }
}

#[test]
fn a_key_update_is_read_whole_or_in_fragments() {
    let handshake = |sealer: &mut Sealer, bytes: &[u8]| seal(sealer, ContentType::Handshake, bytes);
    for (message, answer) in [(KEY_UPDATE_NOT_REQUESTED, false), (KEY_UPDATE_REQUESTED, true)] {
        for split in 1..=message.len() {
            let (mut sealer, mut opener) = pair(Version::Tls13, Cipher::Aes128Gcm, 0);
            let (front, back) = message.split_at(split);
            let mut wire = handshake(&mut sealer, front);
            if !back.is_empty() {
                wire.extend(handshake(&mut sealer, back));
            }
            let (events, _) = open_all(&mut opener, &mut wire).unwrap();
            assert_eq!(events.last(), Some(&Event::KeyUpdate { answer }), "split at {split}");
        }
    }
}

#[test]
fn nothing_comes_between_the_fragments_of_a_message_nor_behind_a_key_update() {
    let (mut sealer, mut opener) = pair(Version::Tls13, Cipher::Aes128Gcm, 0);
    opener.open(&mut seal(&mut sealer, ContentType::Handshake, &[24, 0])).unwrap();
    let mut data = seal(&mut sealer, ContentType::ApplicationData, b"data");
    assert_eq!(opener.open(&mut data), Err(Violation::PeerInterleaved));

    for behind in [&KEY_UPDATE_REQUESTED[..], &[24], &[1]] {
        let bytes = [&KEY_UPDATE_NOT_REQUESTED[..], behind].concat();
        let [_, result] = record(ContentType::Handshake, &bytes);
        assert_eq!(result, Err(Violation::PeerUnexpectedMessage));
    }
}

#[test]
fn other_handshake_messages_are_refused() {
    for kind in 0..=255 {
        let [older, newer] = record(ContentType::Handshake, &[kind, 0, 0, 2, 0, 0]);
        let unexpected = Err(Violation::PeerUnexpectedMessage);
        if kind == 24 {
            assert_eq!(newer, Err(Violation::PeerKeyUpdateMalformed));
        } else {
            assert_eq!(newer, unexpected, "{kind}");
        }
        let expected = if kind == 1 { Ok(Event::Renegotiation) } else { unexpected };
        assert_eq!(older, expected, "{kind}");
    }
    let [_, unknown] = record(ContentType::Handshake, &[24, 0, 0, 1, 2]);
    assert_eq!(unknown, Err(Violation::PeerKeyUpdateRequest));
    let [large, _] = record(ContentType::Handshake, &[1, 1, 0, 0, 0]);
    assert_eq!(large, Err(Violation::PeerMessageTooLarge));
}

#[test]
fn key_updates_are_bounded_between_data_and_change_the_key() {
    let (mut sealer, mut opener) = pair(Version::Tls13, Cipher::Aes128Gcm, 0);
    let update = |sealer: &mut Sealer, opener: &mut Opener| {
        let result = opener.open(&mut seal(sealer, ContentType::Handshake, &KEY_UPDATE_REQUESTED));
        let next = TrafficKey::new(Cipher::Aes128Gcm, &[9; 16], &[8; 12]).unwrap();
        sealer.change_key(&next, u64::MAX).unwrap();
        opener.change_key(&next).unwrap();
        assert_eq!(sealer.sequence(), 0);
        result
    };
    for _ in 0..2 {
        for _ in 0..KEY_UPDATES_MAX {
            update(&mut sealer, &mut opener).unwrap();
        }
        let mut data = seal(&mut sealer, ContentType::ApplicationData, b"data");
        opener.open(&mut data).unwrap();
    }
    for _ in 0..KEY_UPDATES_MAX {
        update(&mut sealer, &mut opener).unwrap();
    }
    assert_eq!(update(&mut sealer, &mut opener), Err(Violation::PeerKeyUpdates));
}

#[test]
fn a_second_wish_to_renegotiate_is_one_too_many() {
    let (mut sealer, mut opener) = pair(Version::Tls12, Cipher::Aes128Gcm, 0);
    let mut hello = || seal(&mut sealer, ContentType::Handshake, &[1, 0, 0, 3, 1, 2, 3]);
    assert_eq!(opener.open(&mut hello()).unwrap().unwrap().event, Event::Renegotiation);
    assert_eq!(opener.open(&mut hello()), Err(Violation::PeerRenegotiations));
}

#[test]
fn a_key_seals_no_more_records_than_it_may() {
    let key = key(Cipher::Aes128Gcm);
    let mut sealer = Sealer::new(Version::Tls13, &key, 2, 4).unwrap();
    let mut out = [0; 64];
    assert_eq!(sealer.records_left(), 2);
    for _ in 0..2 {
        sealer.seal(ContentType::ApplicationData, b"x", &mut out).unwrap();
    }
    let refused = sealer.seal(ContentType::ApplicationData, b"x", &mut out);
    assert_eq!((refused, sealer.sequence()), (Err(SealError::Exhausted), 4));
}

#[test]
fn data_leaves_the_last_records_of_a_key_to_its_successor() {
    let key = key(Cipher::Aes128Gcm);
    let mut sealer = Sealer::new(Version::Tls13, &key, 0, 4).unwrap();
    let pieces = [IoSlice::new(&[7; 100_000])];
    let mut out = vec![0; 100_000];
    assert!(!sealer.is_exhausted());
    let sealed = sealer.seal_pieces(&pieces, 100_000, &mut out).unwrap();
    assert_eq!(sealed.taken_bytes, 2 * PLAINTEXT_BYTES_MAX);
    assert!(sealer.is_exhausted());
    assert_eq!(sealer.seal_pieces(&pieces, 1, &mut out).unwrap(), Sealed::default());
    seal(&mut sealer, ContentType::Handshake, &KEY_UPDATE_NOT_REQUESTED);
    sealer.change_key(&key, 100).unwrap();
    assert_eq!(sealer.records_left(), 100);
}

#[test]
fn what_does_not_fit_uses_no_number() {
    for (mut sealer, _) in pairs() {
        let before = sealer.sequence();
        let mut small = [0; 20];
        let large = vec![0; PLAINTEXT_BYTES_MAX + 1];
        let mut room = vec![0; 2 * PLAINTEXT_BYTES_MAX];
        let content = ContentType::ApplicationData;
        assert_eq!(sealer.seal(content, b"word", &mut small), Err(SealError::NoRoom));
        assert_eq!(sealer.seal(content, &large, &mut room), Err(SealError::NoRoom));
        assert_eq!(sealer.sequence(), before);
    }
}

#[test]
fn small_neighbours_share_a_record_and_large_pieces_have_their_own() {
    let lengths = |pieces: &[usize], plain_bytes: usize| {
        let (mut sealer, mut opener) = pair(Version::Tls13, Cipher::Aes128Gcm, 0);
        let bytes = vec![7; 1 << 20];
        let pieces: Vec<_> = pieces.iter().map(|&len| IoSlice::new(&bytes[..len])).collect();
        let mut wire = vec![0; 200_000];
        let sealed = sealer.seal_pieces(&pieces, plain_bytes, &mut wire).unwrap();
        let (events, plain) = open_all(&mut opener, &mut wire[..sealed.wire_bytes]).unwrap();
        assert_eq!(plain.len(), sealed.taken_bytes);
        let records = events.into_iter().map(|event| match event {
            Event::Data(place) => place.len(),
            other => panic!("{other:?}"),
        });
        records.collect::<Vec<_>>()
    };
    const BATCH: usize = 65_536;
    assert_eq!(lengths(&[300, 1024], BATCH), [1324]);
    assert_eq!(lengths(&[300, 0, 8192, 0], BATCH), [8492]);
    assert_eq!(lengths(&[300, 8193], BATCH), [300, 8193]);
    assert_eq!(lengths(&[0, 300], BATCH), [300]);
    assert_eq!(lengths(&[8000, 8000, 8000], BATCH), [16_000, 8000]);
    assert_eq!(lengths(&[5; 64], BATCH), [320]);
    assert_eq!(lengths(&[300, 100_000], BATCH), [300, 16_384, 16_384, 16_384, 16_384]);
    assert_eq!(lengths(&[100_000], BATCH), [16_384; 4]);
    assert_eq!(lengths(&[20_000], BATCH), [16_384, 3616]);
    assert_eq!(lengths(&[9, 16_375, 9, 16_375, 9, 100], BATCH), [9, 16_384, 16_384, 100]);
    assert_eq!(lengths(&[9000, 15, 9000, 16], BATCH), [9015, 9000, 16]);
    assert_eq!(lengths(&[100_000], 1), [16_384]);
    assert_eq!(lengths(&[100_000], 0), [0; 0]);
    assert_eq!(lengths(&[], BATCH), [0; 0]);
}

#[test]
fn keys_of_the_wrong_length_are_refused() {
    for cipher in CIPHERS {
        let expected = cipher.key_bytes();
        for got in [0, 15, 17, 31, 33] {
            let refused = TrafficKey::new(cipher, &vec![0; got], &[0; 12]).unwrap_err();
            assert_eq!(refused, KeyError::Length { expected, got });
        }
    }
}

#[test]
fn what_holds_a_key_does_not_show_it() {
    let bytes = [0xc3; 16];
    let key = TrafficKey::new(Cipher::Aes128Gcm, &bytes, &[0xc3; 12]).unwrap();
    let sealer = Sealer::new(Version::Tls13, &key, 0, 9).unwrap();
    let opener = Opener::new(Version::Tls13, &key, 0).unwrap();
    for text in [format!("{key:?}"), format!("{sealer:#?}"), format!("{opener:?}")] {
        assert!(!text.contains("195") && !text.to_lowercase().contains("c3"), "{text}");
        assert!(text.contains("Aes128Gcm"), "{text}");
    }
}

proptest! {
    #[test]
    fn any_pieces_in_any_batches_come_out_as_they_went_in(
        lengths in prop::collection::vec(0..30_000_usize, 0..12),
        batch in 1..100_000_usize,
        room in PLAINTEXT_BYTES_MAX + OVERHEAD_BYTES_MAX..100_000,
        newer: bool,
    ) {
        let version = if newer { Version::Tls13 } else { Version::Tls12 };
        let (mut sealer, mut opener) = pair(version, Cipher::Aes256Gcm, 77);
        let source: Vec<u8> = (0..400_000_u32).map(|index| (index % 251) as u8).collect();
        let mut bytes: usize = lengths.iter().sum();
        let mut wire = vec![0; room];
        let mut got = Vec::new();
        // Each turn gives what is left, cut where the pieces were.
        while bytes > 0 {
            let mut skip = got.len();
            let mut start = 0;
            let mut pieces = Vec::new();
            for len in &lengths {
                let front = skip.min(*len);
                skip -= front;
                pieces.push(IoSlice::new(&source[start + front..start + len]));
                start += len;
            }
            let sealed = sealer.seal_pieces(&pieces, batch, &mut wire).unwrap();
            prop_assert!(sealed.taken_bytes > 0);
            prop_assert!(sealed.taken_bytes < batch + PLAINTEXT_BYTES_MAX);
            let (_, plain) = open_all(&mut opener, &mut wire[..sealed.wire_bytes]).unwrap();
            prop_assert_eq!(plain.len(), sealed.taken_bytes);
            got.extend(plain);
            bytes -= sealed.taken_bytes;
        }
        prop_assert!(got == source[..got.len()]);
    }

    #[test]
    fn bytes_that_are_no_records_end_in_an_error_or_wait(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for version in VERSIONS {
            let (_, mut opener) = pair(version, Cipher::Aes128Gcm, 0);
            prop_assert!(!matches!(opener.open(&mut bytes), Ok(Some(_))));
        }
    }
}
