//! Times as the standard writes them: RFC 3339, and seconds with nanoseconds.

use serde_json::{Value, json};

/// The `TimeStamp` of a time in milliseconds since 1970.
pub fn stamp(now_ms: u64) -> Value {
    json!({ "seconds": now_ms / 1000, "nanoSeconds": now_ms % 1000 * 1_000_000 })
}

/// The time of a `TimeStamp`, in milliseconds since 1970.
pub fn of_stamp(stamp: &Value) -> Option<u64> {
    let seconds = stamp.get("seconds")?.as_u64()?;
    let nanos = stamp.get("nanoSeconds").and_then(Value::as_u64).unwrap_or(0);
    seconds.checked_mul(1000)?.checked_add(nanos / 1_000_000)
}

/// Writes a time of milliseconds since 1970 by RFC 3339 §5.6, in UTC.
pub fn write(now_ms: u64) -> String {
    let (mut days, ms) = (now_ms / 86_400_000, now_ms % 86_400_000);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while days >= days_of(year, month) {
        days -= days_of(year, month);
        month += 1;
    }
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let (day, ms) = (days + 1, ms % 1000);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Reads a time of RFC 3339 §5.6 from 1970 on, in milliseconds since then.
pub fn read(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let signs = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() < 20 || !text.is_ascii() || signs.iter().any(|(at, sign)| bytes[*at] != *sign) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = &text[from..to];
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let days = days(year, month, day)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &text[19..];
    let mut ms = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        ms = format!("{:0<3}", &fraction[..digits.min(3)]).parse().ok()?;
        rest = &fraction[digits..];
    }
    let offset_s = offset(rest)?;
    let seconds =
        (days * 86_400 + hour * 3600 + minute * 60 + second).checked_add_signed(-offset_s)?;
    Some(seconds * 1000 + ms)
}

fn offset(text: &str) -> Option<i64> {
    if text == "Z" || text == "z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..24).contains(&hours) && (0..60).contains(&minutes))
        .then_some(sign * (hours * 3600 + minutes * 60))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || day == 0 || day > days_of(year, month) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    Some(years + months + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was() {
        assert_eq!(write(951_782_400_500), "2000-02-29T00:00:00.500Z");
        for now_ms in [0, 1_767_225_599_999, 1_800_000_000_000, 4_107_542_400_001] {
            assert_eq!(read(&write(now_ms)), Some(now_ms));
        }
    }

    #[test]
    fn times_are_read_in_any_zone() {
        assert_eq!(read("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(read("2000-02-29T01:00:00.5+01:00"), Some(951_782_400_500));
        assert_eq!(read("2025-12-31T23:59:59.999999Z"), Some(1_767_225_599_999));
        assert_eq!(read("1970-01-01T00:00:00+01:00"), None);
        for wrong in [
            "",
            "2001-02-29T00:00:00Z",
            "2000-02-29T00:00:00",
            "2000-02-29 00:00:00Z",
            "2000-13-01T00:00:00Z",
            "é000-02-29T00:00:00Z",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
