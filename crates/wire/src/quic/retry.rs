//! Retry packets (RFC 9000 §17.2.5, RFC 9001 §5.8).

use super::id::Id;
use super::packet::{VERSION_1, write_ids};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// RFC 9001 §5.8
const KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];

/// Appends a packet that asks a client to come again with `token`, and for `own` from now on.
/// `original` is whom its packet was for. False when the cipher refuses.
pub fn write_retry(
    client: &Id,
    own: &Id,
    original: &Id,
    token: &[u8],
    unused: u8,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    out.push(0xf0 | unused & 0xf);
    out.extend_from_slice(&VERSION_1.to_be_bytes());
    write_ids(client.as_bytes(), own.as_bytes(), out);
    out.extend_from_slice(token);
    let mut sealed_with = vec![original.as_bytes().len() as u8];
    sealed_with.extend_from_slice(original.as_bytes());
    sealed_with.extend_from_slice(out.get(start..).unwrap_or(&[]));
    let Ok(key) = UnboundKey::new(&AES_128_GCM, &KEY) else { return false };
    let tag = LessSafeKey::new(key).seal_in_place_separate_tag(
        Nonce::assume_unique_for_key(NONCE),
        Aad::from(&sealed_with),
        &mut [],
    );
    tag.is_ok_and(|tag| {
        out.extend_from_slice(tag.as_ref());
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 9001 §A.4
        let original = Id::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]).unwrap();
        let own = Id::new(&[0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5]).unwrap();
        let mut out = Vec::new();
        assert!(write_retry(&Id::default(), &own, &original, b"token", 0xf, &mut out));
        let want = b"\xff\x00\x00\x00\x01\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token\
            \x04\xa2\x65\xba\x2e\xff\x4d\x82\x90\x58\xfb\x3f\x0f\x24\x96\xba";
        assert_eq!(out.escape_ascii().to_string(), want.escape_ascii().to_string());
    }
}
