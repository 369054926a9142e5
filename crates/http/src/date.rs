//! Dates in fields (RFC 9110 §5.6.7).
//!
//! The three forms are read as strictly as the grammar says, with one leniency: letter case does
//! not matter. A date that is not one must mean "stale" to a cache, so what is nearly a date (a
//! time zone other than GMT, a one-digit hour, two spaces) is none. The name of the weekday must
//! be one, but need not be the right one for the day.

use freshet_base::clock::UnixMillis;

/// The length of every date that [`write()`] writes.
pub const IMF_FIXDATE_BYTES: usize = 29;

/// A two-digit year up to this many years ahead is in the future, beyond it in the past (RFC 9110
/// §5.6.7).
const RFC_850_YEARS_AHEAD_MAX: i64 = 50;

const SECONDS_PER_DAY: i64 = 86_400;
const DAYS: [&[u8]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const LONG_DAYS: [&[u8]; 7] =
    [b"Thursday", b"Friday", b"Saturday", b"Sunday", b"Monday", b"Tuesday", b"Wednesday"];
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// How a date is read where servers differ.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reading {
    /// Names are in their own letters, and the weekday is the right one for the day.
    pub is_exact: bool,
    /// A day of one digit may be written with one.
    pub takes_short_days: bool,
}

/// The instant a date names, or `None` where the text is not a date. Dates before 1970 read as 0.
/// Two-digit years are 1970 to 2069; use [`parse_near`] where the time is known.
pub fn parse(text: &[u8]) -> Option<UnixMillis> {
    parse_by(text, Reading::default())
}

/// As [`parse`], by another reading.
pub fn parse_by(text: &[u8], reading: Reading) -> Option<UnixMillis> {
    parse_with(text, reading, |year| if year < 70 { 2000 + year } else { 1900 + year })
}

/// As [`parse`], with two-digit years read as RFC 9110 §5.6.7 has it: not more than 50 years
/// after `now`.
pub fn parse_near(text: &[u8], now: UnixMillis) -> Option<UnixMillis> {
    let (this_year, ..) = civil(now.seconds() / SECONDS_PER_DAY);
    parse_with(text, Reading::default(), |year| {
        let same_century = this_year - this_year.rem_euclid(100) + year;
        if same_century > this_year + RFC_850_YEARS_AHEAD_MAX {
            same_century - 100
        } else {
            same_century
        }
    })
}

/// Appends `at` as an IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`, rounded down to the
/// second. Instants after the year 9999 are written as its last second.
pub fn write(at: UnixMillis, out: &mut Vec<u8>) {
    const LAST: i64 = 253_402_300_799;
    let seconds = at.seconds().min(LAST);
    let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let (year, month, day) = civil(days);
    out.extend_from_slice(DAYS[usize::try_from(days % 7).expect("days since 1970 are positive")]);
    out.extend_from_slice(b", ");
    write_padded(day, 2, out);
    out.push(b' ');
    out.extend_from_slice(MONTHS[usize::try_from(month - 1).expect("months are 1 to 12")]);
    out.push(b' ');
    write_padded(year, 4, out);
    for (separator, value) in [(b' ', second / 3600), (b':', second / 60 % 60), (b':', second % 60)]
    {
        out.push(separator);
        write_padded(value, 2, out);
    }
    out.extend_from_slice(b" GMT");
}

fn write_padded(value: i64, digits: u32, out: &mut Vec<u8>) {
    for place in (0..digits).rev() {
        let digit = u8::try_from(value / 10_i64.pow(place) % 10).expect("a digit is below 10");
        out.push(b'0' + digit);
    }
}

fn parse_with(text: &[u8], reading: Reading, full_year: impl Fn(i64) -> i64) -> Option<UnixMillis> {
    let mut rest = Scanner { text, reading };
    let date = match text.iter().position(|byte| matches!(byte, b',' | b' '))? {
        3 if text.get(3) == Some(&b',') => imf_fixdate(&mut rest),
        3 => asctime(&mut rest),
        _ => rfc_850(&mut rest, full_year),
    }?;
    let is_right = !reading.is_exact || date.is_on_its_weekday();
    (is_right && rest.text.is_empty()).then(|| date.instant()).flatten()
}

fn imf_fixdate(rest: &mut Scanner<'_>) -> Option<Date> {
    let weekday = rest.name(&DAYS)?;
    rest.literal(b", ")?;
    let is_short = rest.reading.takes_short_days && rest.text.get(1) == Some(&b' ');
    let day = rest.digits(if is_short { 1 } else { 2 })?;
    rest.literal(b" ")?;
    let month = rest.name(&MONTHS)?;
    rest.literal(b" ")?;
    let year = rest.digits(4)?;
    rest.literal(b" ")?;
    let second = rest.time()?;
    rest.literal(b" GMT")?;
    Some(Date { year, month, day, second, weekday })
}

fn rfc_850(rest: &mut Scanner<'_>, full_year: impl Fn(i64) -> i64) -> Option<Date> {
    let weekday = rest.name(&LONG_DAYS)?;
    rest.literal(b", ")?;
    let day = rest.digits(2)?;
    rest.literal(b"-")?;
    let month = rest.name(&MONTHS)?;
    rest.literal(b"-")?;
    let year = full_year(rest.digits(2)?);
    rest.literal(b" ")?;
    let second = rest.time()?;
    rest.literal(b" GMT")?;
    Some(Date { year, month, day, second, weekday })
}

fn asctime(rest: &mut Scanner<'_>) -> Option<Date> {
    let weekday = rest.name(&DAYS)?;
    rest.literal(b" ")?;
    let month = rest.name(&MONTHS)?;
    rest.literal(b" ")?;
    let day = match rest.literal(b" ") {
        Some(()) => rest.digits(1)?,
        None => rest.digits(2)?,
    };
    rest.literal(b" ")?;
    let second = rest.time()?;
    rest.literal(b" ")?;
    let year = rest.digits(4)?;
    Some(Date { year, month, day, second, weekday })
}

struct Date {
    year: i64,
    /// Counted from 0.
    month: usize,
    day: i64,
    second: i64,
    /// Counted from the day of the epoch's, a Thursday.
    weekday: usize,
}

impl Date {
    fn is_on_its_weekday(&self) -> bool {
        let day = self.days().rem_euclid(7);
        usize::try_from(day) == Ok(self.weekday)
    }

    /// Days since the epoch.
    fn days(&self) -> i64 {
        let month = i64::try_from(self.month).expect("a month is below 12") + 1;
        days_since_epoch(self.year, month, self.day)
    }

    fn instant(&self) -> Option<UnixMillis> {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let days_in_month = match self.month {
            1 if leap => 29,
            1 => 28,
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        };
        if !(1..=days_in_month).contains(&self.day) {
            return None;
        }
        Some(UnixMillis::from_seconds(self.days() * SECONDS_PER_DAY + self.second))
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    reading: Reading,
}

impl Scanner<'_> {
    fn literal(&mut self, text: &[u8]) -> Option<()> {
        let (head, rest) = self.text.split_at_checked(text.len())?;
        let is_it = match self.reading.is_exact {
            true => head == text,
            false => head.eq_ignore_ascii_case(text),
        };
        self.text = is_it.then_some(rest)?;
        Some(())
    }

    fn name(&mut self, names: &[&[u8]]) -> Option<usize> {
        names.iter().position(|name| self.literal(name).is_some())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (head, rest) = self.text.split_at_checked(count)?;
        self.text = rest;
        head.iter().try_fold(0, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
        })
    }

    /// `hh:mm:ss` as seconds of the day; a leap second counts as the first of the next minute.
    fn time(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        self.literal(b":")?;
        let minute = self.digits(2)?;
        self.literal(b":")?;
        let second = self.digits(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
    }
}

/// Days from 1970-01-01 to a day of the proleptic Gregorian calendar. Years are counted from
/// March so that the leap day is the last of the year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

/// Year, month (1 to 12) and day of a day counted from 1970-01-01; the inverse of
/// [`days_since_epoch`] for days that are not before 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOVEMBER_1994: UnixMillis = UnixMillis(784_111_777_000);

    #[test]
    fn the_three_forms_name_the_same_instant() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "sUN, 06 nOV 1994 08:49:37 gmt",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(NOVEMBER_1994), "{text}");
        }
    }

    #[test]
    fn what_is_nearly_a_date_is_none() {
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 CEST",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun,06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov  1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:38 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_weekday_need_not_be_right_and_far_years_are_kept() {
        assert_eq!(parse(b"Mon, 06 Nov 1994 08:49:37 GMT"), Some(NOVEMBER_1994));
        assert_eq!(
            parse(b"Sun, 21 Nov 2286 04:46:39 GMT"),
            Some(UnixMillis::from_seconds(10_000_039_599))
        );
        assert_eq!(parse(b"Fri, 01 Jan 1960 00:00:00 GMT"), Some(UnixMillis(0)));
    }

    #[test]
    fn an_exact_reading_wants_the_right_weekday_in_its_own_letters() {
        let exact = Reading { is_exact: true, ..Reading::default() };
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_by(text.as_bytes(), exact), Some(NOVEMBER_1994), "{text}");
        }
        for text in [
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Monday, 06-Nov-94 08:49:37 GMT",
            "SUN, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 NOV 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 gMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse_by(text.as_bytes(), exact), None, "{text}");
        }
        let short = Reading { takes_short_days: true, ..exact };
        for text in ["Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(parse_by(text.as_bytes(), short), Some(NOVEMBER_1994), "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_at_most_fifty_years_ahead() {
        let now = parse(b"Fri, 20 Nov 2026 00:00:00 GMT").unwrap();
        let year = |text: &[u8]| civil(parse_near(text, now).unwrap().seconds() / 86_400).0;
        assert_eq!(year(b"Thursday, 18-Aug-50 02:01:18 GMT"), 2050);
        assert_eq!(year(b"Thursday, 18-Aug-76 02:01:18 GMT"), 2076);
        assert_eq!(year(b"Thursday, 18-Aug-77 02:01:18 GMT"), 1977);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0_i64..253_402_300_800) {
            let at = UnixMillis::from_seconds(seconds);
            let mut text = Vec::new();
            write(at, &mut text);
            prop_assert_eq!(text.len(), IMF_FIXDATE_BYTES);
            prop_assert_eq!(parse(&text), Some(at));
        }
    }
}
