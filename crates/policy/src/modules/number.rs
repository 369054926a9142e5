//! Numbers in texts, as functions read them: those of RFC 8941 §3.3, with white space around them and
//! decimals behind the third cut off.

use crate::types::duration_unit;
use std::net::Ipv4Addr;

/// Digits a whole number may have.
const DIGITS_MAX: usize = 15;
/// The largest number with decimals: twelve digits before the point and three behind it.
const DECIMAL_MAX: f64 = 999_999_999_999.999;
/// The largest size, and all below it a number with decimals can say exactly.
const BYTES_MAX: f64 = ((1_i64 << 53) - 1) as f64;

const TOO_MANY: &str = "Too many digits";
const MISSING: &str = "Invalid number";

fn without_space(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The number a text begins with and what is behind it.
///
/// # Errors
/// With what is wrong, in the words policies know.
pub(super) fn number(text: &str) -> Result<(f64, &str), &'static str> {
    let text = without_space(text);
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |text| (-1.0, text));
    let (whole, rest) = digits(text);
    if whole.len() > DIGITS_MAX {
        return Err(TOO_MANY);
    }
    let value: f64 = whole.parse().unwrap_or(0.0);
    let rest = without_space(rest);
    let Some(behind) = rest.strip_prefix('.') else {
        return if whole.is_empty() { Err(MISSING) } else { Ok((sign * value, rest)) };
    };
    if value > DECIMAL_MAX {
        return Err(TOO_MANY);
    }
    let (decimals, rest) = digits(behind);
    if whole.is_empty() && decimals.is_empty() {
        return Err(MISSING);
    }
    let kept = &decimals[..decimals.len().min(3)];
    let value = format!("{whole}.{kept}0").parse().unwrap_or(value);
    Ok((sign * value, without_space(rest)))
}

/// A text that is a number and nothing else.
pub(super) fn whole_number(text: &str) -> Result<f64, Option<&'static str>> {
    match number(text) {
        Ok((value, "")) => Ok(value),
        Ok(_) => Err(None),
        Err(wrong) => Err(Some(wrong)),
    }
}

/// As [`whole_number`], at most as large as one with decimals may be.
pub(super) fn decimal(text: &str) -> Result<f64, Option<&'static str>> {
    let value = whole_number(text)?;
    if value.abs() > DECIMAL_MAX { Err(Some(TOO_MANY)) } else { Ok(value) }
}

/// An address as `inet_aton` reads it: one to four numbers, decimal, octal or hexadecimal, the last of
/// which is for all bytes that are left.
pub(super) fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut numbers = text.split('.').map(|part| {
        let hex = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"));
        let (digits, radix) = match (hex, part.strip_prefix('0')) {
            (Some(digits), _) => (digits, 16),
            (None, Some(digits)) if !digits.is_empty() => (digits, 8),
            _ => (part, 10),
        };
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(digits, radix).ok().filter(|_| is_plain)
    });
    let mut address = 0;
    let mut bits_left = 32;
    let mut last = numbers.next()??;
    for next in numbers {
        bits_left -= 8;
        if bits_left == 0 || last > 0xff {
            return None;
        }
        address |= last << bits_left;
        last = next?;
    }
    let fits = bits_left == 32 || last < 1 << bits_left;
    fits.then(|| Ipv4Addr::from(address | last))
}

/// Seconds: a number and its unit.
pub fn duration(text: &str) -> Option<f64> {
    let (value, unit) = number(text).ok()?;
    Some(value * duration_unit(unit.trim_ascii())?)
}

/// Bytes: a number, and a unit unless it is one of bytes.
pub(super) fn bytes(text: &str) -> Option<i64> {
    let (value, unit) = number(text).ok()?;
    let unit = unit.trim_ascii().to_ascii_uppercase();
    let power = match unit.strip_suffix('B').unwrap_or(&unit) {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return None,
    };
    if power == 0 && value.fract() != 0.0 {
        return None;
    }
    let bytes = (value * (1_u64 << power) as f64).trunc();
    (0.0..=BYTES_MAX).contains(&bytes).then_some(bytes as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_they_do() {
        assert_eq!(number(" -1.2345 s"), Ok((-1.234, "s")));
        assert_eq!(number(".5"), Ok((0.5, "")));
        assert_eq!(number("5."), Ok((5.0, "")));
        assert_eq!(number("+5"), Err(MISSING));
        assert_eq!(number("."), Err(MISSING));
        assert_eq!(number("1234567890123456"), Err(TOO_MANY));
        assert_eq!(number("1234567890123.5"), Err(TOO_MANY));
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(duration("10"), None);
        assert_eq!(duration("1.5 m "), Some(90.0));
        assert_eq!(duration("1ss"), None);
        assert_eq!(bytes("10"), Some(10));
        assert_eq!(bytes("1.5"), None);
        assert_eq!(bytes("1.5kb"), Some(1536));
        assert_eq!(bytes("-1b"), None);
        assert_eq!(bytes("8p"), None);
        assert_eq!(bytes("bb"), None);
    }
}
