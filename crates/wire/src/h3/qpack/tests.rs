//! Examples of the RFC, and heads both ways.

use super::*;
use crate::h2::hpack::HpackError;
use crate::vectors::hex;
use proptest::prelude::*;

type Field = (Vec<u8>, Vec<u8>);

fn decoded(block: &[u8]) -> Result<Vec<Field>, HpackError> {
    let mut fields = Vec::new();
    decode(block, |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

#[test]
fn the_example_of_the_rfc_without_a_table() {
    // RFC 9204 §B.1
    let block = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(decoded(block), Ok(vec![(b":path".to_vec(), b"/index.html".to_vec())]));
    let mut out = Vec::new();
    begin(&mut out);
    encode(b":path", b"/index.html", false, &mut out);
    assert_eq!(decoded(&out), decoded(block));
    assert!(out.starts_with(b"\x00\x00\x51") && out.len() < block.len());
}

#[test]
fn what_refers_to_a_dynamic_table_is_refused() {
    // RFC 9204 §B.2 and each form of a reference.
    for block in [
        &[0x03, 0x81, 0x10, 0x11][..],
        &[0, 0, 0x80],
        &[0, 0, 0x40, 0],
        &[0, 0, 0x10],
        &[0, 0, 0x00, 0],
        &[0, 0, 0xff, 36],
        &[0, 0, 0x5f, 84, 0],
    ] {
        assert_eq!(decoded(block), Err(HpackError::ClientIndex), "{block:x?}");
    }
    for block in [&[][..], &[0], &[0, 0, 0x51], &[0, 0, 0x51, 2, b'a'], &[0, 0, 0x27, 0xff]] {
        assert_eq!(decoded(block), Err(HpackError::ClientTruncated), "{block:x?}");
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        fields in proptest::collection::vec(
            ("[a-z-]{1,12}", proptest::collection::vec(any::<u8>(), 0..200), any::<bool>()),
            0..20,
        ),
    ) {
        let mut out = Vec::new();
        begin(&mut out);
        let mut want = Vec::new();
        for (name, value, is_secret) in fields {
            encode(name.as_bytes(), &value, is_secret, &mut out);
            want.push((name.into_bytes(), value));
        }
        prop_assert_eq!(decoded(&out), Ok(want));
    }
}

fn fields(of: &[(&str, &str)]) -> Vec<Field> {
    of.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn read(decoder: &mut Decoder, stream: u64, block: &str) -> Result<Vec<Field>, Unread> {
    let mut fields = Vec::new();
    let required = decoder.decode(&hex(block), |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
    })?;
    decoder.acknowledge(stream, required);
    Ok(fields)
}

#[test]
fn the_examples_of_the_rfc_with_a_table() {
    let mut decoder = Decoder::new(220);
    let tell = |decoder: &mut Decoder, bytes: &str| {
        let bytes = hex(bytes);
        let (done, count) = decoder.instructions(&bytes).unwrap();
        assert_eq!(done, bytes.len());
        count
    };
    // RFC 9204 §B.2, of which the fields wait for the table.
    assert_eq!(read(&mut decoder, 4, "03811011"), Err(Unread::Waits));
    let told = "3fbd01 c00f7777772e6578616d706c652e636f6d c10c2f73616d706c652f70617468";
    assert_eq!(tell(&mut decoder, told), 3);
    let want = fields(&[(":authority", "www.example.com"), (":path", "/sample/path")]);
    assert_eq!(read(&mut decoder, 4, "03811011"), Ok(want));
    assert_eq!(decoder.take_said(), [0x84]);
    // §B.3
    tell(&mut decoder, "4a637573746f6d2d6b65790c637573746f6d2d76616c7565");
    assert_eq!(decoder.take_said(), [0x01]);
    // §B.4
    tell(&mut decoder, "02");
    let want = fields(&[
        (":authority", "www.example.com"),
        (":path", "/"),
        ("custom-key", "custom-value"),
    ]);
    let mut got = Vec::new();
    let block = hex("050080c181");
    let required = decoder.decode(&block, |name, value| got.push((name.to_vec(), value.to_vec())));
    assert_eq!((required, got), (Ok(4), want));
    decoder.cancel(8);
    assert_eq!(decoder.take_said(), [0x48, 0x01]);
    // §B.5: the oldest goes.
    tell(&mut decoder, "810d637573746f6d2d76616c756532");
    assert_eq!(decoder.take_said(), [0x01]);
    // The newest of five, by its place behind a base of four; the oldest, which is not there.
    let want = fields(&[("custom-key", "custom-value2")]);
    assert_eq!(read(&mut decoder, 12, "068010"), Ok(want));
    assert_eq!(read(&mut decoder, 12, "060084"), Err(HpackError::ClientIndex.into()));
}

#[test]
fn what_may_not_be_told() {
    for (told, error) in [
        // More than is allowed, an entry larger than the table, and one before there is a table.
        ("3fbe01", HpackError::ClientTableSize),
        ("3f00 c00161", HpackError::ClientTableSize),
        ("c00161", HpackError::ClientTableSize),
        ("3fbd01 c0ff8008", HpackError::ClientTableSize),
        // No such entry.
        ("3fbd01 ff2400", HpackError::ClientIndex),
        ("3fbd01 8000", HpackError::ClientIndex),
        ("3fbd01 00", HpackError::ClientIndex),
        ("3fbd01 4161ff", HpackError::ClientTruncated),
    ] {
        let read = Decoder::new(220).instructions(&hex(told));
        if error == HpackError::ClientTruncated {
            assert!(read.is_ok(), "{told}: the rest may come");
        } else {
            assert_eq!(read, Err(error), "{told}");
        }
    }
}

#[test]
fn what_may_not_be_acknowledged() {
    let mut encoder = Encoder::new(4096, 4096);
    for wrong in [&[0x84][..], &[0], &[1], &[0x3f, 0x80, 0x80, 0x80, 0x80, 0], &[0xff; 12]] {
        assert!(encoder.instructions(wrong).is_err(), "{wrong:x?}");
    }
    // A stream that is given up is told although nothing refers to it; half a number waits.
    assert_eq!(encoder.instructions(&[0x44, 0x7f, 0x85, 1, 0x48]), Ok(5));
    assert_eq!(encoder.instructions(&[0x44, 0x7f, 0x85]), Ok(1));
}

#[test]
fn a_peer_that_does_not_say_what_came_is_told_little() {
    let mut encoder = Encoder::new(4096, 4096);
    let mut told = 0;
    for at in 0..200 {
        let mut draft = encoder.begin(at);
        let value = (at / 2).to_string();
        encoder.field(&mut draft, b"x-a", value.as_bytes(), false);
        encoder.finish(draft);
        told += encoder.take_said().len();
    }
    assert!(told > 50 && told < 150, "{told}");
}

#[test]
fn a_field_that_is_said_again_is_told_and_referred_to_once_it_is_known_to_be_there() {
    let (mut encoder, mut decoder) = (Encoder::new(4096, 4096), Decoder::new(4096));
    let mut sizes = Vec::new();
    for stream in 0..4 {
        let mut draft = encoder.begin(stream);
        encoder.field(&mut draft, b"cache-control", b"public, max-age=1234", false);
        encoder.field(&mut draft, b"x-secret", b"0123456789", true);
        let (prefix, rest) = encoder.finish(draft);
        sizes.push(prefix.len() + rest.len());
        let told = encoder.take_said();
        assert_eq!(decoder.instructions(&told).map(|(done, _)| done), Ok(told.len()));
        let mut got = Vec::new();
        let block = [prefix, rest].concat();
        let required =
            decoder.decode(&block, |name, value| got.push((name.to_vec(), value.to_vec())));
        let want = [("cache-control", "public, max-age=1234"), ("x-secret", "0123456789")];
        assert_eq!(got, fields(&want));
        decoder.acknowledge(stream, required.unwrap());
        let said = decoder.take_said();
        assert_eq!(encoder.instructions(&said), Ok(said.len()));
    }
    assert!(sizes[0] == sizes[1] && sizes[2] < sizes[1] - 10 && sizes[3] == sizes[2], "{sizes:?}");
}
