//! Values as text, and arithmetic on them.

use crate::calendar::{SECONDS_MAX, write_http_date};
use crate::program::{Arithmetic, Comparison, Value};
use std::cmp::Ordering;
use std::io::Write as _;

/// Numbers of 15 digits and fewer are what the language can write (RFC 8941 §3.3.1)...
const INTEGER_MAX: u64 = 1_000_000_000_000_000;
/// ... and numbers below 10^12 with three decimals (RFC 8941 §3.3.2).
const REAL_MAX: f64 = 1e12;

/// Whether a real number is one that the language can write.
pub(crate) fn is_writable(number: f64) -> bool {
    // One that is no number is none of them.
    number.abs() < REAL_MAX
}

/// Why a value has no text: it is too large for one, or no address.
pub fn unwritable(value: Value) -> Option<Box<str>> {
    match value {
        Value::Real(number) | Value::Duration(number) if !is_writable(number) => {
            let number = scientific(number);
            Some(format!("REAL overflow converting to string ({number})").into())
        }
        Value::Int(number) | Value::Bytes(number) if number.unsigned_abs() >= INTEGER_MAX => {
            Some(format!("INT overflow converting to string ({number:X})").into())
        }
        Value::Time(at) if at.is_nan() || at.abs() > SECONDS_MAX => {
            Some("Unformatable VCL_TIME".into())
        }
        Value::Ip(None, _) => Some("VRT_IP_string: Illegal IP".into()),
        _ => None,
    }
}

/// A number as C's `%e` writes it, by which Varnish says what is too large.
fn scientific(number: f64) -> String {
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    let text = format!("{number:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{exponent:+03}")
}

/// Appends a value as text, as the language has it. Texts, backends and storages need their
/// program and are written elsewhere.
pub fn write_value(value: Value, out: &mut Vec<u8>) {
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
pub fn arithmetic(operator: Arithmetic, a: Value, b: Value) -> Option<Value> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_said_as_c_writes_it() {
        let said = |value| unwritable(value).unwrap_or_default();
        let real = |text: &str| format!("REAL overflow converting to string ({text})");
        assert_eq!(*said(Value::Real(1e12)), real("1.000000e+12"));
        assert_eq!(*said(Value::Real(-1.25e120)), real("-1.250000e+120"));
        assert_eq!(*said(Value::Duration(f64::INFINITY)), real("inf"));
        assert_eq!(*said(Value::Real(-f64::NAN)), real("-nan"));
        assert_eq!(
            *said(Value::Int(-(1 << 60))),
            *"INT overflow converting to string (F000000000000000)"
        );
        assert!(unwritable(Value::Real(999_999_999_999.0)).is_none());
    }
}
