//! `blob`: bytes and their encodings.

use super::{Arguments, Function, Module, fault, function, function_in};
use crate::policy::Object;
use crate::program::{Text, Value};
use crate::runtime::{Fault, Result, Run};
use crate::types::{State, States};

pub(super) const MODULE: Module =
    Module { name: "blob", classes: &["blob.blob"], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function(
        "BLOB decode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} \
         decoding=IDENTITY, INT length=0, STRANDS encoded)",
        decode,
    ),
    function(
        "STRING encode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} \
         encoding=IDENTITY, ENUM {LOWER, UPPER, DEFAULT} case=DEFAULT, BLOB blob)",
        encode,
    ),
    function(
        "STRING transcode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} \
         decoding=IDENTITY, ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, \
         URL} encoding=IDENTITY, ENUM {LOWER, UPPER, DEFAULT} case=DEFAULT, INT length=0, STRANDS \
         encoded)",
        transcode,
    ),
    function("BOOL same(BLOB, BLOB)", same),
    function("BOOL equal(BLOB, BLOB)", equal),
    function("INT length(BLOB)", length),
    function("BLOB sub(BLOB, BYTES length, BYTES offset=0)", sub),
    function_in(
        States::of(&[State::Init]),
        "VOID new blob(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} \
         decoding=IDENTITY, STRANDS encoded)",
        new,
    ),
    function("BLOB blob.get()", get),
    function(
        "STRING blob.encode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, \
         URL} encoding=IDENTITY, ENUM {LOWER, UPPER, DEFAULT} case=DEFAULT)",
        encode_object,
    ),
];

/// The signs for six bits each.
pub(super) type Alphabet = [u8; 64];

pub(super) const STANDARD: &Alphabet =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(super) const SAFE: &Alphabet =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// CloudFront's alphabet; its padding is an underscore.
const CLOUD_FRONT: &Alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-~";

/// Decodes base64 as it stands in a policy's text, padding left out.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    decode_base64(text.as_bytes(), STANDARD, None)
}

/// Base64 as it stands in a policy's text.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    encode_base64(bytes, STANDARD, Some(b'='), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Digits of six bits each. Padding may be left out, also where the encoding has one; where it is, it
/// is at the end, as the reference reads it.
fn decode_base64(text: &[u8], alphabet: &Alphabet, padding: Option<u8>) -> Option<Vec<u8>> {
    let is_padding = |byte: &u8| Some(*byte) == padding;
    let digits = text.len() - text.iter().rev().take_while(|byte| is_padding(byte)).count();
    let padded = text.len() - digits;
    // No more padding than completes the last four.
    if digits % 4 == 1 || padded > (4 - digits % 4) % 4 {
        return None;
    }
    let mut out = Vec::with_capacity(digits * 3 / 4);
    for chunk in text[..digits].chunks(4) {
        let mut bits = 0_u32;
        for byte in chunk {
            let value = alphabet.iter().position(|sign| sign == byte)?;
            bits = bits << 6 | value as u32;
        }
        bits <<= 6 * (4 - chunk.len());
        let bytes = bits.to_be_bytes();
        out.extend_from_slice(&bytes[1..chunk.len()]);
    }
    Some(out)
}

pub(super) fn encode_base64(
    bytes: &[u8],
    alphabet: &Alphabet,
    padding: Option<u8>,
    out: &mut Vec<u8>,
) {
    for chunk in bytes.chunks(3) {
        let mut bits = 0_u32;
        for index in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(index).copied().unwrap_or(0));
        }
        for index in 0..4 {
            if index <= chunk.len() {
                let value = (bits >> (18 - 6 * index)) & 63;
                out.push(alphabet[value as usize]);
            } else if let Some(sign) = padding {
                out.push(sign);
            }
        }
    }
}

pub(super) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    // An odd digit in front is a byte by itself.
    let (head, rest) = text.split_at(text.len() % 2);
    let head = head.iter().map(|byte| hex_digit(*byte));
    let rest = rest.chunks(2).map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?));
    head.chain(rest).collect()
}

fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte == b'%' {
            let [high, low, behind @ ..] = tail else { return None };
            out.push(hex_digit(*high)? << 4 | hex_digit(*low)?);
            rest = behind;
        } else {
            out.push(*byte);
        }
    }
    Some(out)
}

fn decoded(text: &[u8], how: &str) -> Option<Vec<u8>> {
    match how {
        "BASE64" => decode_base64(text, STANDARD, Some(b'=')),
        "BASE64URL" => decode_base64(text, SAFE, Some(b'=')),
        "BASE64URLNOPAD" => decode_base64(text, SAFE, None),
        "BASE64CF" => decode_base64(text, CLOUD_FRONT, Some(b'_')),
        "HEX" => decode_hex(text),
        "URL" => decode_url(text),
        _ => Some(text.to_vec()),
    }
}

/// Whether an encoding has large and small digits, where one of them is wanted.
fn check_case(how: &str, case: &str) -> Result<()> {
    if case != "DEFAULT" && !matches!(how, "HEX" | "URL") {
        return fault(format!("vmod blob error: case {case} is illegal with encoding {how}"));
    }
    Ok(())
}

fn encoded(bytes: &[u8], how: &str, case: &str) -> Result<Vec<u8>> {
    check_case(how, case)?;
    let digits = if case == "UPPER" { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut out = Vec::with_capacity(bytes.len() * 4 / 3 + 4);
    match how {
        "BASE64" => encode_base64(bytes, STANDARD, Some(b'='), &mut out),
        "BASE64URL" => encode_base64(bytes, SAFE, Some(b'='), &mut out),
        "BASE64URLNOPAD" => encode_base64(bytes, SAFE, None, &mut out),
        "BASE64CF" => encode_base64(bytes, CLOUD_FRONT, Some(b'_'), &mut out),
        "HEX" => out.extend(
            bytes
                .iter()
                .flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]),
        ),
        "URL" => write_url(bytes, digits, &mut out),
        _ => out.extend_from_slice(bytes),
    }
    Ok(out)
}

/// Percent-encoding of all that RFC 3986 §2.3 reserves.
pub(super) fn write_url(bytes: &[u8], digits: &[u8; 16], out: &mut Vec<u8>) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', digits[high], digits[low]]);
        }
    }
}

fn decode_text(run: &Run<'_>, how: &str, length: i64, text: Text) -> Result<Vec<u8>> {
    let bytes = run.bytes(text);
    // Nothing and less is all of it.
    let length = usize::try_from(length).ok().filter(|length| *length > 0);
    let part = length.and_then(|length| bytes.get(..length)).unwrap_or(bytes);
    // What is left out has to be made of digits as well.
    let is_legal = how != "HEX" || bytes.iter().all(u8::is_ascii_hexdigit);
    decoded(part, how).filter(|_| is_legal).ok_or_else(|| {
        // As Varnish shows it: the first of the pieces that the policy joined.
        let text = String::from_utf8_lossy(run.first_piece(text));
        let what = "cannot decode, illegal encoding beginning with";
        Fault::new(format!("vmod blob error: {what} \"{text}\""))
    })
}

/// A text ends at its first NUL, as in the language's other implementations.
pub(super) fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn decode(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let bytes = decode_text(run, arguments.word(0), arguments.int(1), arguments.text(2))?;
    run.store(&bytes).map(Value::Blob)
}

fn encode(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = encoded(run.bytes(arguments.text(2)), arguments.word(0), arguments.word(1))?;
    run.store(until_nul(&text)).map(Value::Text)
}

fn transcode(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let (from, to, length, text) =
        (arguments.word(0), arguments.word(1), arguments.int(3), arguments.text(4));
    check_case(to, arguments.word(2))?;
    let bytes = decode_text(run, from, length, text)?;
    if from == to && length <= 0 && !matches!(to, "HEX" | "URL") {
        return Ok(Value::Text(text));
    }
    let text = encoded(&bytes, to, arguments.word(2))?;
    run.store(until_nul(&text)).map(Value::Text)
}

fn same(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let (a, b) = (arguments.text(0), arguments.text(1));
    let empty = run.bytes(a).is_empty() && run.bytes(b).is_empty();
    Ok(Value::Bool(a == b || empty))
}

fn equal(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Bool(run.bytes(arguments.text(0)) == run.bytes(arguments.text(1))))
}

fn length(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let len = run.bytes(arguments.text(0)).len();
    Ok(Value::Int(i64::try_from(len).unwrap_or(i64::MAX)))
}

fn sub(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let at = |value: i64| usize::try_from(value).ok();
    let (length, offset) = (at(arguments.int(1)), at(arguments.int(2)));
    if run.bytes(arguments.text(0)).is_empty() {
        return fault("vmod blob error: blob is empty in blob.sub()");
    }
    let part = match (length, offset) {
        (Some(length), Some(offset)) => offset
            .checked_add(length)
            .and_then(|end| run.bytes(arguments.text(0)).get(offset..end))
            .map(<[u8]>::to_vec),
        _ => None,
    };
    match part {
        Some(part) => run.store(&part).map(Value::Blob),
        None => {
            let (size, offset) = (arguments.int(1), arguments.int(2));
            let len = run.bytes(arguments.text(0)).len();
            fault(format!(
                "vmod blob error: size {size} from offset {offset} requires more bytes than blob \
                 length {len} in blob.sub()"
            ))
        }
    }
}

fn new(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let bytes = decode_text(run, arguments.word(0), 0, arguments.text(1)).map_err(|fault| {
        let name = run.program.objects.get(object as usize).map_or("", |slot| &slot.name);
        let what = format!("cannot create blob {name}");
        Fault::new(fault.0.replacen("cannot decode", &what, 1))
    })?;
    run.policy.put(object, Object::Blob(bytes.into()));
    super::NOTHING
}

fn get(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    let Some(Object::Blob(bytes)) = run.policy.object(object) else {
        return super::directors::not_made(run, object);
    };
    // What comes from the same object is the same blob.
    let held = &mut run.task.held;
    let known = held.iter().position(|held| std::sync::Arc::ptr_eq(held, &bytes));
    let index = known.unwrap_or_else(|| {
        held.push(bytes);
        held.len() - 1
    });
    Ok(Value::Blob(Text::Held(u32::try_from(index).unwrap_or(u32::MAX))))
}

fn encode_object(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let Some(Object::Blob(bytes)) = run.policy.object(object) else {
        return super::directors::not_made(run, object);
    };
    let text = encoded(&bytes, arguments.word(0), arguments.word(1))?;
    run.store(until_nul(&text)).map(Value::Text)
}
