//! Hashes, signatures and encodings. What is expected was computed by Python's `hashlib`, `hmac` and
//! `base64`, checksums by libmhash.

use crate::scene::{after, shown};
use freshet_vcl::State;

const FOX: &str = "\"The quick brown fox jumps over the lazy dog\"";

fn digest(call: &str) -> String {
    shown("import digest;", &format!("digest.{call}"))
}

#[test]
fn hashes_of_digest() {
    for (name, of_fox, of_nothing) in [
        ("md5", "9e107d9d372bb6826bd81d3542a419d6", "d41d8cd98f00b204"),
        ("sha1", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", "da39a3ee5e6b4b0d"),
        ("sha224", "730e109bd7a8a32b1cb9d9a09aa2325d2430587ddbc0c38bad911525", "d14a028c2a3a2bc9"),
        (
            "sha256",
            "d7a8fbb307d7809469ca9abcb0082e4f8d5651e46d3cdb762d02d0bf37c9e592",
            "e3b0c44298fc1c14",
        ),
        (
            "sha384",
            "ca737f1014a48f4c0b6dd43cb177b0afd9e5169367544c494011e3317dbf9a50\
             9cb1e5dc1e85a941bbee3d7f2afbc9b1",
            "38b060a751ac9638",
        ),
        (
            "sha512",
            "07e547d9586f6a73f73fbac0435ed76951218fb7d0c8d788a309d785436bbb64\
             2e93a252a954f23912547d1e8a3b5ed6e1bfd7097821233fa0538f3db854fee6",
            "cf83e1357eefb8bd",
        ),
        ("crc32", "61ee9d45", "00000000"),
        ("crc32b", "39a34f41", "00000000"),
        ("adler32", "da0fdc5b", "01000000"),
    ] {
        assert_eq!(digest(&format!("hash_{name}({FOX})")), of_fox, "{name}");
        let of_unset = digest(&format!("hash_{name}(req.http.not-there)"));
        assert!(of_unset.starts_with(of_nothing), "{name}: {of_unset}");
    }
}

#[test]
fn signatures_of_digest() {
    let long = "k".repeat(65);
    for (name, of_fox, with_long) in [
        ("md5", "80070713463e7749b90c2dc24911e275", "8677d9ee402469f569a14d60b41c7f30"),
        (
            "sha1",
            "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9",
            "52b70f513f87ea4feaf119af1cdc8097107b3837",
        ),
        (
            "sha256",
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
            "41f1c4cc3107cd5b8d92460f61032902bfdb06484eef17e861b83a5012d3b7f3",
        ),
    ] {
        assert_eq!(digest(&format!("hmac_{name}(\"key\", {FOX})")), format!("0x{of_fox}"));
        let got = digest(&format!("hmac_{name}(\"{long}\", req.http.not-there)"));
        assert_eq!(got, format!("0x{with_long}"));
        // Whoever forgot the key is not given a signature without one.
        assert_eq!(digest(&format!("hmac_{name}(req.http.not-there, {FOX})")), "");
    }
}

#[test]
fn base64_of_digest() {
    for (call, expected) in [
        ("base64(\"Κόσμος >>??\")", "zprPjM+DzrzOv8+CID4+Pz8="),
        ("base64url(\"Κόσμος >>??\")", "zprPjM-DzrzOv8-CID4-Pz8="),
        ("base64url_nopad(\"Κόσμος >>??\")", "zprPjM-DzrzOv8-CID4-Pz8"),
        ("base64(req.http.not-there)", ""),
        // Digits, with 0x and without; half a byte is left out.
        ("base64_hex(\"0x54655354\")", "VGVTVA=="),
        ("base64url_hex(\"496E746572657374696E6721\")", "SW50ZXJlc3Rpbmch"),
        ("base64url_nopad_hex(\"0x24f\")", "JA"),
        ("base64_hex(\"0x\")", "AA=="),
        // Padding is read as it comes, and where it does not.
        ("base64_decode(\"VGVTVA==\")", "TeST"),
        ("base64_decode(\"VGVTVA\")", "TeST"),
        ("base64url_decode(\"MHg4MDA3MDcxMzQ2\")", "0x8007071346"),
        ("base64url_nopad_decode(\"Pz8-\")", "??>"),
        ("base64_decode(req.http.not-there)", ""),
    ] {
        assert_eq!(digest(call), expected, "{call}");
    }
    for call in
        ["base64_decode(\"a_b\")", "base64url_decode(\"a+b\")", "base64url_nopad_decode(\"aa=\")"]
    {
        let set = format!("set req.http.Shown = digest.{call};");
        let (_, scene) = after(State::Recv, "import digest;", &set);
        assert_eq!(scene.req.fields.get_str("shown"), Some(""), "{call}");
        let why = "digest: Base64 input contains invalid characters";
        assert!(scene.node.events.iter().any(|event| event.contains(why)), "{call}");
    }
}

#[test]
fn texts_of_urlcode() {
    for (call, expected) in [
        ("encode(\"aZ09.-_~\")", "aZ09.-_~"),
        ("encode(\"a b\" + req.http.not-there + \"/ö\")", "a%20b%2F%C3%B6"),
        ("encode(req.http.not-there)", ""),
        ("decode(\"a%20b%2f\" + req.http.not-there + \"%C3%B6+c\")", "a b/ö c"),
        // A byte may be cut between pieces, and the end of a text drops what is not whole.
        ("decode(\"a%2\" + \"0b%\")", "a b"),
        ("decode(\"a%00b\")", "a"),
        ("decode(\"a%2xb\")", ""),
        ("decode(req.http.not-there)", ""),
    ] {
        assert_eq!(shown("import urlcode;", &format!("urlcode.{call}")), expected, "{call}");
    }
}
