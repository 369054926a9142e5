//! The serialization algorithms of RFC 9651 §4.1.

use super::{BareItem, Dictionary, InnerList, Item, List, Member, Parameters, is_key, is_token};
use crate::error::HttpError;
use std::fmt::Write as _;

const INTEGER_MAX: u64 = 999_999_999_999_999;

type Written = Result<(), HttpError>;

/// Runs `write` on an empty string and returns it.
pub(super) fn text(write: impl FnOnce(&mut String) -> Written) -> Result<String, HttpError> {
    let mut out = String::new();
    write(&mut out)?;
    Ok(out)
}

pub(super) fn list(list: &List, out: &mut String) -> Written {
    for (at, member) in list.0.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        self::member(member, out)?;
    }
    Ok(())
}

pub(super) fn dictionary(dictionary: &Dictionary, out: &mut String) -> Written {
    for (at, (name, value)) in dictionary.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        key(name, out)?;
        match value {
            Member::Item(Item { value: BareItem::Boolean(true), parameters: with }) => {
                parameters(with, out)?;
            }
            other => {
                out.push('=');
                member(other, out)?;
            }
        }
    }
    Ok(())
}

pub(super) fn item(item: &Item, out: &mut String) -> Written {
    bare_item(&item.value, out)?;
    parameters(&item.parameters, out)
}

/// Writes a bare item; used by other fields that build their value piece by piece.
pub(super) fn bare_item(value: &BareItem, out: &mut String) -> Written {
    match value {
        BareItem::Integer(value) => integer(*value, out)?,
        BareItem::Decimal(value) => decimal(value.thousandths(), out)?,
        BareItem::String(value) => string(value, out)?,
        BareItem::Token(value) if is_token(value) => out.push_str(value),
        BareItem::Token(_) => return Err(HttpError::LocalStructuredField("this token")),
        BareItem::Bytes(value) => {
            out.push(':');
            encode_base64(value, out);
            out.push(':');
        }
        BareItem::Boolean(value) => out.push_str(if *value { "?1" } else { "?0" }),
        BareItem::Date(value) => {
            out.push('@');
            integer(*value, out)?;
        }
        BareItem::DisplayString(value) => display_string(value, out),
    }
    Ok(())
}

fn member(member: &Member, out: &mut String) -> Written {
    let InnerList { items, parameters: with } = match member {
        Member::Item(value) => return item(value, out),
        Member::InnerList(list) => list,
    };
    out.push('(');
    for (at, value) in items.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { " " });
        item(value, out)?;
    }
    out.push(')');
    parameters(with, out)
}

fn parameters(parameters: &Parameters, out: &mut String) -> Written {
    for (name, value) in parameters.iter() {
        out.push(';');
        key(name, out)?;
        if *value != BareItem::Boolean(true) {
            out.push('=');
            bare_item(value, out)?;
        }
    }
    Ok(())
}

fn key(name: &str, out: &mut String) -> Written {
    if !is_key(name) {
        return Err(HttpError::LocalStructuredField("this key"));
    }
    out.push_str(name);
    Ok(())
}

fn integer(value: i64, out: &mut String) -> Written {
    if value.unsigned_abs() > INTEGER_MAX {
        return Err(HttpError::LocalStructuredField("an integer of more than 15 digits"));
    }
    write!(out, "{value}").expect("writing to a string succeeds");
    Ok(())
}

fn decimal(thousandths: i64, out: &mut String) -> Written {
    let absolute = thousandths.unsigned_abs();
    if absolute > INTEGER_MAX {
        return Err(HttpError::LocalStructuredField("a decimal of more than 12 digits"));
    }
    out.push_str(if thousandths < 0 { "-" } else { "" });
    let fraction = format!("{:03}", absolute % 1000);
    let kept = fraction.trim_end_matches('0');
    let kept = if kept.is_empty() { "0" } else { kept };
    write!(out, "{}.{kept}", absolute / 1000).expect("writing to a string succeeds");
    Ok(())
}

fn string(value: &str, out: &mut String) -> Written {
    out.push('"');
    for char in value.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            ' '..='~' => out.push(char),
            _ => return Err(HttpError::LocalStructuredField("a string that is not ASCII text")),
        }
    }
    out.push('"');
    Ok(())
}

fn display_string(value: &str, out: &mut String) {
    out.push_str("%\"");
    for byte in value.bytes() {
        match byte {
            b'%' | b'"' | 0..=0x1f | 0x7f.. => {
                write!(out, "%{byte:02x}").expect("writing to a string succeeds");
            }
            _ => out.push(char::from(byte)),
        }
    }
    out.push('"');
}

fn encode_base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
}
