//! Bodies cut everywhere, and the chunks that smugglers send.

use super::*;
use proptest::prelude::*;

/// Decodes `pieces` one behind the other: content, trailers, and what was left over.
fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Fields, bool, usize), ChunkError> {
    let mut decoder = Decoder::new();
    let (mut content, mut left) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !decoder.is_done() {
            let progress = decoder.decode(rest)?;
            assert!(progress.consumed > 0 && progress.data.end <= progress.consumed);
            content.extend_from_slice(&rest[progress.data]);
            rest = &rest[progress.consumed..];
            assert_eq!(progress.done, decoder.is_done());
        }
        left += rest.len();
    }
    Ok((content, decoder.take_trailers(), decoder.is_done(), left))
}

fn content(text: &[u8]) -> Result<Vec<u8>, ChunkError> {
    decode(&[text]).map(|(content, _, done, left)| {
        assert!(done && left == 0, "{:?}", String::from_utf8_lossy(text));
        content
    })
}

#[test]
fn good_bodies_are_decoded() {
    for (text, want) in [
        (&b"0\r\n\r\n"[..], &b""[..]),
        (b"c\r\nHellO world1\r\n0\r\n\r\n", b"HellO world1"),
        (b"1\r\na\r\n02\r\nbc\r\n0000000000000000\r\n\r\n", b"abc"),
        (b"A\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n", b"\r\n0\r\n\r\n0\r\n"),
        (b"1;a\r\nx\r\n0;b=c;d=\"e\\\"\\\\ \tf\";g\r\n\r\n", b"x"),
        (b"1 ; a = b ;\tc\r\nx\r\n0 \t;d=\"\"\r\n\r\n", b"x"),
        (b"1;a=\"\xe9\"\r\nx\r\n0\r\n\r\n", b"x"),
    ] {
        assert_eq!(content(text), Ok(want.to_vec()), "{:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn trailers_are_read_and_the_next_message_is_left() {
    let text = b"1\r\na\r\n0\r\nX: y \r\nEmpty:\r\n\r\nGET /";
    let (content, trailers, done, left) = decode(&[text]).unwrap();
    let want: Fields = [("X", "y"), ("Empty", "")].into_iter().collect();
    assert_eq!((content, trailers, done, left), (b"a".to_vec(), want, true, 5));
    assert_eq!(Decoder::new().decode(b""), Ok(Progress { consumed: 0, data: 0..0, done: false }));
}

#[test]
fn ambiguous_chunks_are_refused() {
    use ChunkError as E;
    for (text, error) in [
        (&b"\r\n"[..], E::SizeInvalid),
        (b" 1\r\na\r\n", E::SizeInvalid),
        (b"+1\r\na\r\n", E::SizeInvalid),
        (b"-1\r\na\r\n", E::SizeInvalid),
        (b"0x1\r\na\r\n", E::SizeInvalid),
        (b"1_0\r\na\r\n", E::SizeInvalid),
        (b"g\r\n", E::SizeInvalid),
        (b";a\r\n", E::SizeInvalid),
        (b"\xef\xbc\x91\r\n", E::SizeInvalid),
        (b"00000000000000001\r\n", E::SizeTooLarge),
        (b"10000000000000000\r\n", E::SizeTooLarge),
        (b"1\na\r\n", E::BareLineFeed),
        (b"1;a\nb\r\n", E::BareLineFeed),
        (b"1\ra\r\n", E::BareCarriageReturn),
        (b"1\r\r\na", E::BareCarriageReturn),
        (b"1 \r\na", E::ExtensionInvalid),
        (b"1;\r\na", E::ExtensionInvalid),
        (b"1;;a\r\n", E::ExtensionInvalid),
        (b"1;a;\r\n", E::ExtensionInvalid),
        (b"1;a=\r\n", E::ExtensionInvalid),
        (b"1;a=;b\r\n", E::ExtensionInvalid),
        (b"1;=b\r\n", E::ExtensionInvalid),
        (b"1;a b\r\n", E::ExtensionInvalid),
        (b"1;a \r\n", E::ExtensionInvalid),
        (b"1;a=b=c\r\n", E::ExtensionInvalid),
        (b"1;a=\"b\r\n", E::ExtensionInvalid),
        (b"1;a=\"b\"c\r\n", E::ExtensionInvalid),
        (b"1;a\0\r\n", E::ExtensionInvalid),
        (b"1;a=\"\x07\"\r\n", E::ExtensionInvalid),
        (b"1 a\r\n", E::ExtensionInvalid),
        (b"1\r\nab\r\n", E::DataTooLong),
        (b"1\r\na\n0\r\n", E::BareLineFeed),
        (b"1\r\na0\r\n", E::DataTooLong),
        (b"1\r\na\rx", E::BareCarriageReturn),
        (b"1\r\na\r\n\r\n", E::SizeInvalid),
        (b"0\r\n\n", E::BareLineFeed),
        (b"0\r\n\rX", E::BareCarriageReturn),
        (b"0\r\nX: y\n\r\n", E::BareLineFeed),
        (b"0\r\nX: y\rZ: a\r\n\r\n", E::BareCarriageReturn),
        (b"0\r\nX y\r\n\r\n", E::TrailerInvalid),
        (b"0\r\nX : y\r\n\r\n", E::TrailerInvalid),
        (b"0\r\n X: y\r\n\r\n", E::TrailerInvalid),
        (b"0\r\nX: y\r\n z\r\n\r\n", E::TrailerInvalid),
        (b"0\r\nX: \0\r\n\r\n", E::TrailerInvalid),
        (b"0\r\ncontent-length: 5\r\n\r\n", E::TrailerForbidden),
        (b"0\r\nTransfer-Encoding: chunked\r\n\r\n", E::TrailerForbidden),
        (b"0\r\nHost: b\r\n\r\n", E::TrailerForbidden),
    ] {
        assert_eq!(decode(&[text]).unwrap_err(), error, "{:?}", String::from_utf8_lossy(text));
        assert_eq!(error.status(), 400);
    }
}

#[test]
fn servers_may_pad_sizes() {
    let decode = |text: &[u8]| -> Result<_, ChunkError> {
        let (mut decoder, mut content, mut rest) = (Decoder::of_response(), Vec::new(), text);
        while !rest.is_empty() {
            let progress = decoder.decode(rest)?;
            content.extend_from_slice(&rest[progress.data]);
            rest = &rest[progress.consumed..];
        }
        Ok((content, decoder.is_done()))
    };
    for text in [
        &b"1   \r\na\r\n2 \t\r\nbc\r\n0     \r\n\r\n"[..],
        b"1 ;x\r\na\r\n2;y=z\r\nbc\r\n0 ; q=\"r\" ;s\r\n\r\n",
    ] {
        assert_eq!(decode(text), Ok((b"abc".to_vec(), true)));
    }
    for (text, error) in [
        (&b"1 \na\r\n"[..], ChunkError::BareLineFeed),
        (b"1 2\r\n", ChunkError::ExtensionInvalid),
        (b" 1\r\n", ChunkError::SizeInvalid),
        (b"1;a \r\n", ChunkError::ExtensionInvalid),
        (b"1 \rx", ChunkError::BareCarriageReturn),
    ] {
        assert_eq!(decode(text), Err(error), "{:?}", String::from_utf8_lossy(text));
    }
    let long = format!("1{}", " ".repeat(EXTENSION_BYTES_MAX as usize + 1));
    assert_eq!(decode(long.as_bytes()), Err(ChunkError::ExtensionsTooLarge));
}

#[test]
fn extensions_and_trailers_are_bounded_over_the_whole_body() {
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(1000));
    let within = (EXTENSION_BYTES_MAX / 1002) as usize;
    assert!(decode(&[chunk.repeat(within).as_bytes()]).is_ok());
    let error = decode(&[chunk.repeat(within + 1).as_bytes()]).unwrap_err();
    assert_eq!(error, ChunkError::ExtensionsTooLarge);

    let long = format!("0\r\nX: {}", "y".repeat(TRAILER_BYTES_MAX));
    assert_eq!(decode(&[long.as_bytes()]).unwrap_err(), ChunkError::TrailersTooLarge);
    let many = format!("0\r\n{}\r\n", "X: y\r\n".repeat(TRAILER_FIELDS_MAX + 1));
    assert_eq!(decode(&[many.as_bytes()]).unwrap_err(), ChunkError::TrailersTooLarge);
    assert_eq!(ChunkError::TrailersTooLarge.status(), 431);
}

#[test]
fn the_encoder_writes_sizes_between_pieces() {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    encoder.write_chunk_head(0, &mut out);
    assert!(out.is_empty());
    encoder.write_chunk_head(0x1a0, &mut out);
    assert_eq!(out, b"1a0\r\n");
    out.clear();
    encoder.write_chunk_head(1, &mut out);
    assert_eq!(out, b"\r\n1\r\n");
    out.clear();
    encoder.close_chunk(&mut out);
    encoder.close_chunk(&mut out);
    assert_eq!(out, b"\r\n");
    out.clear();
    let trailers: Fields = [("X", "y")].into_iter().collect();
    encoder.write_end(Some(&trailers), &mut out);
    assert_eq!(out, b"0\r\nX: y\r\n\r\n");
    out.clear();
    write_hex(usize::MAX, &mut out);
    assert_eq!(out, "f".repeat(usize::BITS as usize / 4).as_bytes());
}

fn encode(pieces: &[Vec<u8>], trailers: &Fields) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    for piece in pieces {
        encoder.write_chunk_head(piece.len(), &mut out);
        out.extend_from_slice(piece);
    }
    encoder.write_end((!trailers.is_empty()).then_some(trailers), &mut out);
    out
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_at_every_split(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
        trailers in proptest::collection::vec(("[a-zA-Z-]{1,8}x", "[!-~]{0,8}"), 0..3),
        step in 1..9usize,
    ) {
        let trailers: Fields = trailers.into_iter().collect();
        let text = encode(&pieces, &trailers);
        let want = (pieces.concat(), trailers, true, 0);
        for split in 0..=text.len() {
            let (first, second) = text.split_at(split);
            let got = decode(&[first, second]);
            prop_assert_eq!(got.as_ref(), Ok(&want), "split at {}", split);
        }
        let steps: Vec<&[u8]> = text.chunks(step).collect();
        prop_assert_eq!(decode(&steps), Ok(want));
    }
}

#[test]
fn a_field_that_has_no_place_in_a_trailer_section_of_a_server_is_left_out() {
    let text = b"1\r\na\r\n0\r\nX: y\r\nContent-Length: 5\r\nHost: b\r\n\r\n";
    let mut decoder = Decoder::of_response();
    let mut at = 0;
    while !decoder.is_done() {
        at += decoder.decode(&text[at..]).unwrap().consumed;
    }
    assert_eq!(at, text.len());
    assert_eq!(decoder.take_trailers(), [("X", "y")].into_iter().collect::<Fields>());
}
