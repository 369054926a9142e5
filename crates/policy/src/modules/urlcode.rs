//! `urlcode`: percent-encoding, as the module of this name for Varnish has it.

use super::blob::{hex_digit, until_nul, write_url};
use super::{Arguments, Function, Module, function};
use crate::program::{Text, Value};
use crate::runtime::{Result, Run};

pub(super) const MODULE: Module =
    Module { name: "urlcode", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] =
    &[function("STRING encode(STRANDS)", encode), function("STRING decode(STRANDS)", decode)];

fn encode(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let bytes = run.bytes(arguments.text(0));
    run.charge(bytes.len())?;
    let mut out = Vec::with_capacity(bytes.len());
    write_url(bytes, b"0123456789ABCDEF", &mut out);
    run.store(&out).map(Value::Text)
}

/// Unset where two characters behind a percent sign are no digits. A plus is a space.
fn decode(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let bytes = run.bytes(arguments.text(0));
    run.charge(bytes.len())?;
    match decoded(bytes) {
        Some(text) => run.store(until_nul(&text)).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                // A sign that the text ends behind is left out, with its one digit.
                let Some(high) = bytes.next() else { break };
                let high = hex_digit(*high)?;
                let Some(low) = bytes.next() else { break };
                out.push(high << 4 | hex_digit(*low)?);
            }
            b'+' => out.push(b' '),
            other => out.push(*other),
        }
    }
    Some(out)
}
