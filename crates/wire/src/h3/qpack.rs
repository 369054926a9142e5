//! Compression of fields (RFC 9204) without a dynamic table: what a client may refer to is known to
//! everybody, so that no stream ever waits for another.

use crate::h2::hpack::{HpackError, huffman, integer};

/// RFC 9204 Appendix A, from number 0 on.
const STATIC: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// Places of the table by name; those of one name in order.
static BY_NAME: [u8; STATIC.len()] = by_name();

const fn by_name() -> [u8; STATIC.len()] {
    let mut order = [0; STATIC.len()];
    let mut count = 0;
    while count < STATIC.len() {
        let mut at = count;
        while at > 0
            && is_before(STATIC[count].0.as_bytes(), STATIC[order[at - 1] as usize].0.as_bytes())
        {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = count as u8;
        count += 1;
    }
    order
}

const fn is_before(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return one[at] < other[at];
        }
        at += 1;
    }
    one.len() < other.len()
}

/// Reads all fields of one head and gives each to `field`, which must bound what it keeps.
///
/// # Errors
/// [`HpackError`]; the connection has to end with QPACK_DECOMPRESSION_FAILED.
pub fn decode(block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), HpackError> {
    // What the fields refer to of a dynamic table: nothing, so that its base does not matter.
    let (inserts, rest) = integer::read(block, 8)?;
    if inserts != 0 {
        return Err(HpackError::ClientIndex);
    }
    let (_, mut rest) = integer::read(rest, 7)?;
    let (mut name, mut value) = (Vec::new(), Vec::new());
    while let Some(first) = rest.first() {
        match first {
            0xc0.. => {
                let (index, after) = integer::read(rest, 6)?;
                let (name, value) = STATIC.get(index).ok_or(HpackError::ClientIndex)?;
                field(name.as_bytes(), value.as_bytes());
                rest = after;
                continue;
            }
            0x50..0x60 | 0x70..0x80 => {
                let (index, after) = integer::read(rest, 4)?;
                let (known, _) = STATIC.get(index).ok_or(HpackError::ClientIndex)?;
                name.clear();
                name.extend_from_slice(known.as_bytes());
                rest = after;
            }
            0x20..0x40 => {
                name.clear();
                rest = text(rest, 3, &mut name)?;
            }
            // All else refers to the dynamic table.
            _ => return Err(HpackError::ClientIndex),
        }
        value.clear();
        rest = text(rest, 7, &mut value)?;
        field(&name, &value);
    }
    Ok(())
}

/// Begins the fields of one head.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends a field. Its name has to be in lower case. One that `is_secret` shall not be in any table
/// on the way.
pub fn encode(name: &[u8], value: &[u8], is_secret: bool, out: &mut Vec<u8>) {
    let secret = if is_secret { 0x20 } else { 0 };
    match find(name, value) {
        Some((index, true)) if !is_secret => return integer::write(0xc0, 6, index, out),
        Some((index, _)) => integer::write(0x50 | secret, 4, index, out),
        None => write_text(0x20 | if is_secret { 0x10 } else { 0 }, 3, name, out),
    }
    write_text(0, 7, value, out);
}

/// The place of a field in the table, or of its name, and whether it is the whole field.
fn find(name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
    let entry = |at: &u8| STATIC.get(usize::from(*at)).copied().unwrap_or_default();
    let first = BY_NAME.partition_point(|at| entry(at).0.as_bytes() < name);
    let named = BY_NAME.get(first..)?.iter().take_while(|at| entry(at).0.as_bytes() == name);
    let whole = named.clone().find(|at| entry(at).1.as_bytes() == value);
    let whole = whole.map(|at| (usize::from(*at), true));
    whole.or_else(|| named.min().map(|at| (usize::from(*at), false)))
}

/// Appends text, packed or not, to `out` and returns what follows.
fn text<'a>(input: &'a [u8], prefix_bits: u32, out: &mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    let is_packed = input.first().is_some_and(|first| first >> prefix_bits & 1 != 0);
    let (len, rest) = integer::read(input, prefix_bits)?;
    let (text, rest) = rest.split_at_checked(len).ok_or(HpackError::ClientTruncated)?;
    if is_packed {
        huffman::decode(text, out)?;
    } else {
        out.extend_from_slice(text);
    }
    Ok(rest)
}

/// Appends text, packed where that is shorter.
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

#[cfg(test)]
mod tests {
    use super::*;
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
    fn every_entry_is_found() {
        for (index, (name, value)) in STATIC.iter().enumerate() {
            assert_eq!(find(name.as_bytes(), value.as_bytes()), Some((index, true)));
            let (first, is_whole) = find(name.as_bytes(), b"another").unwrap();
            assert_eq!((STATIC[first].0, is_whole), (*name, false));
        }
        assert_eq!(find(b"x-other", b""), None);
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
}
