//! Retry packets (RFC 9000 §17.2.5, RFC 9001 §5.8, RFC 9369 §3.3.3).

use super::id::Id;
use super::packet::{Kind, write_ids};
use super::version::Version;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Appends a packet that asks a client to come again with `token`, and for `own` from now on.
/// `original` is whom its packet was for, `version` the one of that packet. False when the cipher refuses.
pub fn write_retry(
    version: Version,
    (client, own, original): (&Id, &Id, &Id),
    token: &[u8],
    unused: u8,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    let Some(first) = version.first_byte(Kind::Retry) else { return false };
    out.push(first | unused & 0xf);
    out.extend_from_slice(&version.number().to_be_bytes());
    write_ids(client.as_bytes(), own.as_bytes(), out);
    out.extend_from_slice(token);
    let mut sealed_with = vec![original.as_bytes().len() as u8];
    sealed_with.extend_from_slice(original.as_bytes());
    sealed_with.extend_from_slice(out.get(start..).unwrap_or(&[]));
    let (key, nonce) = version.retry_key();
    let Ok(key) = UnboundKey::new(&AES_128_GCM, &key) else { return false };
    let tag = LessSafeKey::new(key).seal_in_place_separate_tag(
        Nonce::assume_unique_for_key(nonce),
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
    fn the_examples_of_the_rfcs() {
        let original = Id::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]).unwrap();
        let own = Id::new(&[0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5]).unwrap();
        // RFC 9001 §A.4, RFC 9369 §A.4
        let v1 = b"\xff\x00\x00\x00\x01\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token\
            \x04\xa2\x65\xba\x2e\xff\x4d\x82\x90\x58\xfb\x3f\x0f\x24\x96\xba";
        let v2 = b"\xcf\x6b\x33\x43\xcf\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token\
            \xc8\x64\x6c\xe8\xbf\xe3\x39\x52\xd9\x55\x54\x36\x65\xdc\xc7\xb6";
        for (version, want) in [(Version::V1, v1), (Version::V2, v2)] {
            let mut out = Vec::new();
            let ids = (&Id::default(), &own, &original);
            assert!(write_retry(version, ids, b"token", 0xf, &mut out));
            assert_eq!(out.escape_ascii().to_string(), want.escape_ascii().to_string());
        }
    }
}
