//! The examples of RFC 7541 Appendix C, and properties of both directions.

use super::*;
use crate::vectors::hex;
use proptest::prelude::*;

type List = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<List, HpackError> {
    let mut list = List::new();
    decoder.decode(block, |name, value| list.push((name.to_vec(), value.to_vec())))?;
    Ok(list)
}

fn list(fields: &[(&str, &str)]) -> List {
    fields
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

fn encode(encoder: &mut Encoder, fields: &List) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.field(name, value, Indexing::Kept, &mut out);
    }
    out
}

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const RESPONSES: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ],
];

#[test]
fn literals_of_the_rfc() {
    // C.2.1 to C.2.4.
    let mut decoder = Decoder::new(4096);
    let block = hex("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572");
    assert_eq!(decode(&mut decoder, &block), Ok(list(&[("custom-key", "custom-header")])));
    assert_eq!(decoder.table_bytes(), 55);
    let mut decoder = Decoder::new(4096);
    let block = hex("040c 2f73 616d 706c 652f 7061 7468");
    assert_eq!(decode(&mut decoder, &block), Ok(list(&[(":path", "/sample/path")])));
    let block = hex("1008 7061 7373 776f 7264 0673 6563 7265 74");
    assert_eq!(decode(&mut decoder, &block), Ok(list(&[("password", "secret")])));
    assert_eq!(decode(&mut decoder, &[0x82]), Ok(list(&[(":method", "GET")])));
    assert_eq!(decoder.table_bytes(), 0);
}

/// Reads heads of one connection in both writings and writes the packed one, with the size of the
/// table after each.
fn agree(
    table_bytes: usize,
    heads: &[&[(&str, &str)]; 3],
    plain: [&str; 3],
    packed: [&str; 3],
    sizes: [usize; 3],
) {
    let (mut of_plain, mut of_packed) = (Decoder::new(table_bytes), Decoder::new(table_bytes));
    let mut encoder = Encoder::new(table_bytes);
    for ((fields, plain), (packed, size)) in
        heads.iter().zip(plain).zip(packed.into_iter().zip(sizes))
    {
        assert_eq!(decode(&mut of_plain, &hex(plain)), Ok(list(fields)));
        assert_eq!(decode(&mut of_packed, &hex(packed)), Ok(list(fields)));
        assert_eq!((of_plain.table_bytes(), of_packed.table_bytes()), (size, size));
        assert_eq!(encode(&mut encoder, &list(fields)), hex(packed));
        assert_eq!(encoder.table_bytes(), size);
    }
}

#[test]
fn requests_of_the_rfc() {
    // C.3, in the clear, and C.4, in the Huffman code.
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let packed = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    agree(4096, &REQUESTS, plain, packed, [57, 110, 164]);
}

#[test]
fn responses_of_the_rfc_with_a_small_table() {
    // C.5 and C.6: entries are forgotten.
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a \
         3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 \
         677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 \
         553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let packed = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
         919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 \
         821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed \
         4ee5 b106 3d50 07",
    ];
    agree(256, &RESPONSES, plain, packed, [222, 222, 215]);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    for (block, error) in [
        (&[0x80][..], HpackError::ClientIndex),
        (&[0xbe], HpackError::ClientIndex),
        (&[0x40, 0x05, b'a'], HpackError::ClientTruncated),
        (&[0x40], HpackError::ClientTruncated),
        (&[0x3f, 0xe2, 0x1f], HpackError::ClientTableSize),
        (&[0x82, 0x20], HpackError::ClientTableSize),
        (&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff], HpackError::ClientInteger),
        (&[0x00, 0x01, b'a', 0x81, 0xfe], HpackError::ClientHuffman),
    ] {
        assert_eq!(decode(&mut Decoder::new(4096), block), Err(error), "{block:x?}");
    }
}

#[test]
fn the_table_shrinks_and_grows_as_it_is_told() {
    let (mut encoder, mut decoder) = (Encoder::new(4096), Decoder::new(4096));
    let fields = list(&[("a", "1"), ("b", "2")]);
    assert_eq!(decode(&mut decoder, &encode(&mut encoder, &fields)), Ok(fields.clone()));
    assert_eq!(decoder.table_bytes(), 68);
    // Down and up again between two heads: both are told.
    encoder.resize(0);
    encoder.resize(100);
    let block = encode(&mut encoder, &fields);
    assert_eq!(block[..2], [0x20, 0x3f]);
    assert_eq!(decode(&mut decoder, &block), Ok(fields.clone()));
    assert_eq!((encoder.table_bytes(), decoder.table_bytes()), (68, 68));
    let large =
        list(&[("c", "a value that has no room in a table of this size, together with others")]);
    assert_eq!(decode(&mut decoder, &encode(&mut encoder, &large)), Ok(large));
    assert_eq!((encoder.table_bytes(), decoder.table_bytes()), (0, 0));
}

#[test]
fn a_secret_is_not_remembered() {
    let (mut encoder, mut out) = (Encoder::new(4096), Vec::new());
    for _ in 0..2 {
        out.clear();
        encoder.field(b"Set-Cookie", b"id=1", Indexing::Never, &mut out);
        assert_eq!(out[0] & 0xf0, 0x10);
        encoder.field(b"Age", b"17", Indexing::Once, &mut out);
    }
    assert_eq!(encoder.table_bytes(), 0);
}

/// Lists with names and values that repeat, as those of a connection do.
fn lists() -> impl Strategy<Value = Vec<(List, Option<usize>)>> {
    let name = prop_oneof!["[a-c]", "[a-z-]{1,12}", Just(":status".to_owned()), Just("age".into())];
    let value = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[a-c]".prop_map(String::into_bytes),
        Just(b"200".to_vec()),
    ];
    let field = (name.prop_map(String::into_bytes), value);
    let list = proptest::collection::vec(field, 0..8);
    proptest::collection::vec((list, proptest::option::of(0_usize..300)), 1..12)
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(lists in lists()) {
        let (mut encoder, mut decoder) = (Encoder::new(4096), Decoder::new(4096));
        for (list, size) in lists {
            if let Some(size) = size {
                encoder.resize(size);
            }
            let block = encode(&mut encoder, &list);
            prop_assert_eq!(decode(&mut decoder, &block), Ok(list));
            prop_assert_eq!(encoder.table_bytes(), decoder.table_bytes());
        }
    }
}
