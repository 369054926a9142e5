//! Times as MPDs write them: XML Schema durations and instants.

use freshet_base::clock::UnixMillis;

/// The milliseconds in a duration of days, hours, minutes and seconds (`P1DT1H2M3.5S`); `None` when it
/// is anything else, such as one with months, whose length is nobody's knowledge.
pub fn duration_ms(text: &str) -> Option<u64> {
    let text = text.strip_prefix('P')?;
    let (days, mut rest) = match text.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (text, ""),
    };
    if days.is_empty() && rest.is_empty() {
        return None;
    }
    let mut millis = match days.strip_suffix('D') {
        Some(days) => days.parse::<u32>().ok().map(f64::from)? * 86_400_000.0,
        None if days.is_empty() => 0.0,
        None => return None,
    };
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        let unit_ms = match rest.as_bytes().get(end)? {
            b'H' => 3_600_000.0,
            b'M' => 60_000.0,
            b'S' => 1000.0,
            _ => return None,
        };
        millis += number * unit_ms;
        rest = rest.get(end + 1..)?;
    }
    // The comparison is false for what is no number.
    (millis < 1e15).then_some(millis.round() as u64)
}

/// The instant in `text`, with or without a fraction of a second, which is UTC with `Z` or without, or
/// so far from it as `+02:00` or `-0330` says; `None` when it is anything else.
pub fn instant(text: &str) -> Option<UnixMillis> {
    let (date, time) = text.strip_suffix('Z').unwrap_or(text).split_once('T')?;
    let (time, ahead_ms) = match time.find(['+', '-']) {
        Some(at) => (time.get(..at)?, offset_ms(time.get(at..)?)?),
        None => (time, 0),
    };
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_since_epoch(year, month, day);
    let local_ms = days * 86_400_000 + clock_ms(time)?;
    Some(UnixMillis(local_ms.checked_add_signed(-ahead_ms)?))
}

/// How far a time zone is ahead of UTC: `+02:00`, `-0330` or `+02`.
fn offset_ms(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at_checked(1)?;
    let digits: String = digits.chars().filter(|digit| *digit != ':').collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { "0" } else { minutes };
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    if !(0..=14).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    let ahead_ms = (hours * 60 + minutes) * 60_000;
    Some(if sign == "-" { -ahead_ms } else { ahead_ms })
}

fn clock_ms(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, ':');
    let hour: u64 = parts.next()?.parse().ok()?;
    let minute: u64 = parts.next()?.parse().ok()?;
    let second: f64 = parts.next()?.parse().ok()?;
    if hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    Some((hour * 60 + minute) * 60_000 + (second * 1000.0).round() as u64)
}

/// Days from 1970-01-01, for years from 1970. Counted in years that begin in March, so that the leap
/// day is the last of its year.
fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).saturating_sub(719_468)
}

/// `time` in UTC to the millisecond: `2025-01-01T00:00:00.000Z`.
pub fn instant_text(time: UnixMillis) -> String {
    let seconds = time.0 / 1000;
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = time.0 % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of the day `days` after 1970-01-01, in the Gregorian calendar. Counted in
/// years that begin in March, so that the leap day is the last of its year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_have_units_of_fixed_length() {
        for (text, want) in [
            ("PT6S", Some(6000)),
            ("PT1H2M3.5S", Some(3_723_500)),
            ("P0DT0H0M2.000S", Some(2000)),
            ("P1D", Some(86_400_000)),
            ("P1M", None),
            ("P", None),
            ("PT", None),
            ("PT5", None),
            ("PT-5S", None),
            ("PT..S", None),
            ("PT99999999999999999999S", None),
        ] {
            assert_eq!(duration_ms(text), want, "{text}");
        }
    }

    #[test]
    fn instants_are_written_in_utc() {
        assert_eq!(instant_text(UnixMillis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(instant_text(UnixMillis(1_735_689_600_000)), "2025-01-01T00:00:00.000Z");
        assert_eq!(instant_text(UnixMillis(1_709_210_096_789)), "2024-02-29T12:34:56.789Z");
    }

    #[test]
    fn instants_are_utc() {
        assert_eq!(instant("2025-01-01T00:00:00Z"), Some(UnixMillis(1_735_689_600_000)));
        assert_eq!(instant("2024-02-29T12:34:56.789"), Some(UnixMillis(1_709_210_096_789)));
        for text in
            ["2025-01-01T02:00:00+02:00", "2024-12-31T20:30:00-0330", "2025-01-01T05:00:00.0+05"]
        {
            assert_eq!(instant(text), Some(UnixMillis(1_735_689_600_000)), "{text}");
        }
        for text in [
            "1970-01-01T00:00:00+01",
            "2025-01-01T00:00:00+99:00",
            "2025-01-01T00:00:00+-1",
            "2025-01-01T00:00:00+00:999999999999999999",
        ] {
            assert_eq!(instant(text), None, "{text}");
        }
        for text in ["", "2025-01-01", "2025-13-01T00:00:00Z", "2025-01-01T24:00:00Z"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn instants_survive_a_round_trip(millis in 0_u64..200_000_000_000_000) {
            prop_assert_eq!(instant(&instant_text(UnixMillis(millis))), Some(UnixMillis(millis)));
        }

        #[test]
        fn no_text_breaks_the_readers(text in "[-+PTHMSDZ:.0-9é]{0,40}") {
            let _ = instant(&text);
            let _ = duration_ms(&text);
        }
    }
}
