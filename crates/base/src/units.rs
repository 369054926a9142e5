//! Sizes and durations as people write them: `256MB`, `4GiB`, `10s`, `7d`.
//!
//! `KB`, `MB`, `GB`, `TB` are powers of 1000 and `KiB`, `MiB`, `GiB`, `TiB` powers of 1024, as IEC
//! 80000-13 has them; a bare number is bytes, or for durations is refused.

use std::time::Duration;
use thiserror::Error;

/// Why a size or duration could not be read.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum UnitError {
    /// No number at the start.
    #[error("`{0}` does not start with a number")]
    NoNumber(String),
    /// The unit is not one of ours.
    #[error("`{unit}` is not a unit here; use one of {known}")]
    UnknownUnit {
        /// What stood after the number.
        unit: String,
        /// The units that are understood.
        known: &'static str,
    },
    /// There is a number only, which could be of any unit.
    #[error("`{number}` has no unit; use one of {known}")]
    NoUnit {
        /// The number.
        number: String,
        /// The units that are understood.
        known: &'static str,
    },
    /// The value does not fit 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// Bytes from text such as `512`, `256MB`, `1.5GiB`; letter case of the unit does not matter.
///
/// # Errors
/// [`UnitError`] names the part that is wrong.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => {
            return Err(UnitError::UnknownUnit {
                unit: unit.into(),
                known: "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB",
            });
        }
    };
    scale(text, number, factor)
}

/// A duration from text such as `250ms`, `10s`, `5m`, `2h`, `7d`, `1w`, or several of them: `1h30m`.
///
/// # Errors
/// [`UnitError`] names the part that is wrong.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit());
        let (part, behind) = rest.split_at(unit.map_or(rest.len(), |at| digits + at));
        let part = one_duration(part)?;
        sum = sum.checked_add(part).ok_or_else(|| UnitError::TooLarge(text.into()))?;
        if behind.is_empty() {
            return Ok(sum);
        }
        rest = behind;
    }
}

fn one_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text)?;
    let factor_ms: u64 = match unit.to_ascii_lowercase().as_str() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        unit => {
            let known = "ms, s, m, h, d, w";
            return Err(match unit {
                "" => UnitError::NoUnit { number: text.trim().into(), known },
                unit => UnitError::UnknownUnit { unit: unit.into(), known },
            });
        }
    };
    scale(text, number, factor_ms).map(Duration::from_millis)
}

/// `bytes` in the largest decimal unit that leaves a number of at least one, to one decimal.
pub fn format_bytes(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)];
    for (name, factor) in units {
        let value = bytes as f64 / factor;
        if value >= 1.0 {
            return format!("{value:.1} {name}");
        }
    }
    format!("{bytes} B")
}

fn split(text: &str) -> Result<(f64, &str), UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse::<f64>().map_err(|_| UnitError::NoNumber(text.into()))?;
    Ok((number, text[end..].trim()))
}

fn scale(text: &str, number: f64, factor: u64) -> Result<u64, UnitError> {
    let value = number * factor as f64;
    if value >= u64::MAX as f64 {
        return Err(UnitError::TooLarge(text.into()));
    }
    Ok(value.round() as u64)
}

/// A time for people: the unit that leaves two digits or three.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.is_zero() => "0 s".to_owned(),
        0 => format!("{} ms", span.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let said = [0, 350, 48_000, 3_600_000, 86_400_000, 604_800_000];
        let said = said.map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(said, ["0 s", "350 ms", "48 s", "60 min", "24 h", "7 d"]);
    }

    #[test]
    fn sizes_and_durations_read_as_written() {
        assert_eq!(parse_bytes("256MB"), Ok(256_000_000));
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1.5 kib"), Ok(1536));
        assert_eq!(parse_bytes("17"), Ok(17));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(604_800)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1m 0.5s"), Ok(Duration::from_millis(60_500)));
        for wrong in ["", "5", "1h30", "1h 30", "h", "1h-5m", "99999999999999999999w9s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_text_names_what_is_wrong() {
        assert_eq!(parse_bytes("MB"), Err(UnitError::NoNumber("MB".into())));
        assert!(parse_bytes("3 apples").unwrap_err().to_string().contains("`apples`"));
        assert!(parse_duration("3").is_err());
        assert!(matches!(parse_bytes("99999999TB"), Err(UnitError::TooLarge(_))));
    }
}
