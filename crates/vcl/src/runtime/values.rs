//! Values as text, and arithmetic on them.

use crate::calendar::{SECONDS_MAX, write_http_date};
use crate::program::{Arithmetic, Comparison, Value};
use std::cmp::Ordering;
use std::io::Write as _;

/// Numbers of 15 digits and fewer are what the language can write (RFC 8941 §3.3.1)...
const INTEGER_MAX: u64 = 1_000_000_000_000_000;
/// ... and numbers below 10^12 with three decimals (RFC 8941 §3.3.2).
const REAL_MAX: f64 = 1e12;

/// Why a value has no text, where it is too large for one.
pub(crate) fn unwritable(value: Value) -> Option<&'static str> {
    match value {
        Value::Real(number) | Value::Duration(number)
            if number.is_nan() || number.abs() >= REAL_MAX =>
        {
            Some("REAL overflow converting to string (0x-0)")
        }
        Value::Int(number) | Value::Bytes(number) if number.unsigned_abs() >= INTEGER_MAX => {
            Some("INT overflow converting to string (0x-0)")
        }
        Value::Time(at) if at.is_nan() || at.abs() > SECONDS_MAX => Some("Unformatable VCL_TIME"),
        _ => None,
    }
}

/// Appends a value as text, as the language has it. Texts, backends and storages need their
/// program and are written elsewhere.
pub(crate) fn write_value(value: Value, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = match value {
        Value::Bool(truth) => write!(out, "{truth}"),
        Value::Int(number) | Value::Bytes(number) => write!(out, "{number}"),
        Value::Real(number) | Value::Duration(number) => write!(out, "{number:.3}"),
        Value::Time(seconds) => {
            write_http_date(seconds, out);
            Ok(())
        }
        Value::Ip(Some(address), _) => write!(out, "{}", address.to_canonical()),
        Value::Word(word) => write!(out, "{word}"),
        _ => Ok(()),
    };
}

/// The result of an operation the checker allowed; `None` for a whole number that is too large or
/// divided by zero. Real numbers become infinite or no number, as in C.
pub(crate) fn arithmetic(operator: Arithmetic, a: Value, b: Value) -> Option<Value> {
    use Arithmetic as O;
    use Value as V;
    let real = |a: f64, b: f64| {
        Some(match operator {
            O::Add => a + b,
            O::Subtract => a - b,
            O::Multiply => a * b,
            O::Divide => a / b,
            O::Remainder => return None,
        })
    };
    let whole = |a: i64, b: i64| match operator {
        O::Add => a.checked_add(b),
        O::Subtract => a.checked_sub(b),
        O::Multiply => a.checked_mul(b),
        O::Divide => a.checked_div(b),
        O::Remainder => a.checked_rem(b),
    };
    match (a, b) {
        (V::Int(a), V::Int(b)) => whole(a, b).map(V::Int),
        (V::Bytes(a), V::Bytes(b)) => whole(a, b).map(V::Bytes),
        (V::Bytes(a), V::Int(b)) => whole(a, b).map(V::Bytes),
        (V::Bytes(a), V::Real(b)) => real(a as f64, b).map(|bytes| V::Bytes(bytes as i64)),
        (V::Real(a), V::Real(b)) => real(a, b).map(V::Real),
        (V::Duration(a), V::Duration(b) | V::Real(b)) => real(a, b).map(V::Duration),
        (V::Duration(a), V::Int(b)) => real(a, b as f64).map(V::Duration),
        (V::Time(a), V::Time(b)) => real(a, b).map(V::Duration),
        (V::Time(a), V::Duration(b)) => real(a, b).map(V::Time),
        _ => None,
    }
}

/// The order of two values that are no texts.
pub(crate) fn order(a: Value, b: Value) -> Option<Ordering> {
    use Value as V;
    match (a, b) {
        (V::Int(a), V::Int(b)) | (V::Bytes(a), V::Bytes(b)) => Some(a.cmp(&b)),
        (V::Real(a), V::Real(b)) | (V::Duration(a), V::Duration(b)) | (V::Time(a), V::Time(b)) => {
            a.partial_cmp(&b)
        }
        (V::Ip(a, _), V::Ip(b, _)) => {
            let plain = |ip: Option<std::net::IpAddr>| ip.map(|ip| ip.to_canonical());
            Some(plain(a).cmp(&plain(b)))
        }
        (a, b) => Some(if a == b { Ordering::Equal } else { Ordering::Less }),
    }
}

pub(crate) fn holds(operator: Comparison, order: Option<Ordering>) -> bool {
    let Some(order) = order else { return operator == Comparison::NotEqual };
    match operator {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterEqual => order.is_ge(),
    }
}
