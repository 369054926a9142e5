//! `digest`: hashes, signatures and base64, as the module of this name for Varnish has them; of its
//! hashes those that are in use.

use super::blob::{self, Alphabet, until_nul};
use super::{Arguments, Function, Module, function};
use crate::program::{Text, Value};
use crate::runtime::{Event, Result, Run};
use aws_lc_rs::{digest, hmac};
use freshet_base::hexadecimal;
use md5::{Digest as _, Md5};

pub(super) const MODULE: Module =
    Module { name: "digest", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("STRING hmac_sha256(STRING key, STRING message)", |run, _, arguments| {
        sign(run, arguments, |key, message| signed(hmac::HMAC_SHA256, key, message))
    }),
    function("STRING hmac_sha1(STRING key, STRING message)", |run, _, arguments| {
        sign(run, arguments, |key, message| {
            signed(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key, message)
        })
    }),
    function("STRING hmac_md5(STRING key, STRING message)", |run, _, arguments| {
        sign(run, arguments, |key, message| hmac_md5(key, message).to_vec())
    }),
    function("STRING base64(STRING)", |run, _, arguments| encode(run, arguments, PADDED)),
    function("STRING base64_hex(STRING)", |run, _, arguments| encode_hex(run, arguments, PADDED)),
    function("STRING base64_decode(STRING)", |run, _, arguments| decode(run, arguments, PADDED)),
    function("STRING base64url(STRING)", |run, _, arguments| encode(run, arguments, URL)),
    function("STRING base64url_hex(STRING)", |run, _, arguments| encode_hex(run, arguments, URL)),
    function("STRING base64url_decode(STRING)", |run, _, arguments| decode(run, arguments, URL)),
    function("STRING base64url_nopad(STRING)", |run, _, arguments| encode(run, arguments, BARE)),
    function("STRING base64url_nopad_hex(STRING)", |run, _, arguments| {
        encode_hex(run, arguments, BARE)
    }),
    function("STRING base64url_nopad_decode(STRING)", |run, _, arguments| {
        decode(run, arguments, BARE)
    }),
    function("STRING hash_sha1(STRING)", |run, _, arguments| {
        hash(run, arguments, |text| sha(&digest::SHA1_FOR_LEGACY_USE_ONLY, text))
    }),
    function("STRING hash_sha224(STRING)", |run, _, arguments| {
        hash(run, arguments, |text| sha(&digest::SHA224, text))
    }),
    function("STRING hash_sha256(STRING)", |run, _, arguments| {
        hash(run, arguments, |text| sha(&digest::SHA256, text))
    }),
    function("STRING hash_sha384(STRING)", |run, _, arguments| {
        hash(run, arguments, |text| sha(&digest::SHA384, text))
    }),
    function("STRING hash_sha512(STRING)", |run, _, arguments| {
        hash(run, arguments, |text| sha(&digest::SHA512, text))
    }),
    function("STRING hash_md5(STRING)", |run, _, arguments| {
        hash(run, arguments, |text| Md5::digest(text).to_vec())
    }),
    function("STRING hash_crc32(STRING)", |run, _, arguments| hash(run, arguments, crc32)),
    function("STRING hash_crc32b(STRING)", |run, _, arguments| hash(run, arguments, crc32b)),
    function("STRING hash_adler32(STRING)", |run, _, arguments| hash(run, arguments, adler32)),
    function("STRING version()", |run, _, _| run.store(b"1.0.3").map(Value::Text)),
];

/// Base64 in one of its spellings.
type Spelling = (&'static Alphabet, Option<u8>);

const PADDED: Spelling = (blob::STANDARD, Some(b'='));
const URL: Spelling = (blob::SAFE, Some(b'='));
const BARE: Spelling = (blob::SAFE, None);

/// The digits of a hash of a text; nothing is as good as an empty one.
fn hash(
    run: &mut Run<'_>,
    arguments: &[Value],
    of: impl FnOnce(&[u8]) -> Vec<u8>,
) -> Result<Value> {
    let text = run.bytes(arguments.text(0));
    run.charge(text.len())?;
    let digits = hexadecimal::encode(&of(text));
    run.store(digits.as_bytes()).map(Value::Text)
}

fn sha(algorithm: &'static digest::Algorithm, text: &[u8]) -> Vec<u8> {
    digest::digest(algorithm, text).as_ref().to_vec()
}

/// The polynomial of CRC-32 with its highest bit first.
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// CRC-32 with the highest bit of each byte first, as bzip2 has it. Sums are written lowest byte first.
fn crc32(text: &[u8]) -> Vec<u8> {
    sum(text, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte) << 24, |sum, _| {
            sum << 1 ^ if sum >> 31 == 1 { POLYNOMIAL } else { 0 }
        })
    })
}

/// CRC-32 with the lowest bit of each byte first, as gzip and Ethernet have it.
fn crc32b(text: &[u8]) -> Vec<u8> {
    sum(text, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL.reverse_bits() } else { 0 }
        })
    })
}

fn sum(text: &[u8], add: impl Fn(u32, u8) -> u32) -> Vec<u8> {
    let sum = text.iter().fold(u32::MAX, |sum, byte| add(sum, *byte));
    (!sum).to_le_bytes().to_vec()
}

/// RFC 1950 §8.2.
fn adler32(text: &[u8]) -> Vec<u8> {
    let (low, high) = text.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    (high << 16 | low).to_le_bytes().to_vec()
}

/// A signature as `0x` and its digits. Without a key there is none, so that it is seen that none is
/// set.
fn sign(
    run: &mut Run<'_>,
    arguments: &[Value],
    with: impl FnOnce(&[u8], &[u8]) -> Vec<u8>,
) -> Result<Value> {
    if arguments.text(0) == Text::Unset {
        return Ok(Value::Text(Text::Unset));
    }
    let (key, message) = (run.bytes(arguments.text(0)), run.bytes(arguments.text(1)));
    run.charge(key.len() + message.len())?;
    let digits = format!("0x{}", hexadecimal::encode(&with(key, message)));
    run.store(digits.as_bytes()).map(Value::Text)
}

fn signed(algorithm: hmac::Algorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
}

/// RFC 2104 §2, with MD5, which the library of the others leaves out.
fn hmac_md5(key: &[u8], message: &[u8]) -> [u8; 16] {
    let short: [u8; 16];
    let key = match key.len() {
        ..=64 => key,
        _ => {
            short = Md5::digest(key).into();
            &short
        }
    };
    let padded = |pad: u8| {
        let mut block = [pad; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Md5::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Md5::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn encode(run: &mut Run<'_>, arguments: &[Value], spelling: Spelling) -> Result<Value> {
    let bytes = run.bytes(arguments.text(0));
    run.charge(bytes.len())?;
    let out = encoded(bytes, spelling);
    run.store(&out).map(Value::Text)
}

/// Base64 of what digits of bytes say, which `0x` may precede. What is no digit counts as 0, and a
/// last digit without another as nothing.
fn encode_hex(run: &mut Run<'_>, arguments: &[Value], spelling: Spelling) -> Result<Value> {
    let text = run.bytes(arguments.text(0));
    run.charge(text.len())?;
    let digits = text.strip_prefix(b"0x").filter(|digits| !digits.is_empty()).unwrap_or(text);
    let digit = |byte| blob::hex_digit(byte).unwrap_or(0);
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    run.store(&encoded(&bytes, spelling)).map(Value::Text)
}

fn encoded(bytes: &[u8], (alphabet, padding): Spelling) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 4 / 3 + 4);
    blob::encode_base64(bytes, alphabet, padding, &mut out);
    out
}

/// What a text in base64 stands for, with its padding or without; empty where a byte is none of the
/// alphabet.
fn decode(run: &mut Run<'_>, arguments: &[Value], spelling: Spelling) -> Result<Value> {
    let text = run.bytes(arguments.text(0));
    run.charge(text.len())?;
    match decoded(text, spelling) {
        Some(bytes) => run.store(until_nul(&bytes)).map(Value::Text),
        None => {
            if run.traced {
                run.host.trace(Event::Error("digest: Base64 input contains invalid characters"));
            }
            run.store(b"").map(Value::Text)
        }
    }
}

/// Each four characters are three bytes. Padding and what is missing from the last four are bits that
/// are 0, and so the end of a text.
fn decoded(text: &[u8], (alphabet, padding): Spelling) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    for chunk in text.chunks(4) {
        let mut bits = 0_u32;
        for index in 0..4 {
            let value = match chunk.get(index) {
                None => 0,
                Some(sign) if Some(*sign) == padding => 0,
                Some(sign) => alphabet.iter().position(|known| known == sign)?,
            };
            bits = bits << 6 | value as u32;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    Some(out)
}
