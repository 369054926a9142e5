//! Points in time as dates, of any year.

use crate::strftime::format_time;
use freshet_http::date::IMF_FIXDATE_BYTES;
use std::fmt::Write as _;

/// The farthest time from 1970 whose year is a number of 32 bits, less a year.
pub(crate) const SECONDS_MAX: f64 = 6.7e16;

/// Days from 1970-01-01 to a date of the Gregorian calendar.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a count of days since 1970-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days - era * 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// An instant as a field of HTTP has it, also one that no field can have: before 1970, or with a
/// year of more than four digits.
pub(crate) fn write_http_date(seconds: f64, out: &mut Vec<u8>) {
    // Towards 1970, as a conversion to a whole number does.
    let seconds = seconds as i64;
    let (year, _, _) = civil_from_days(seconds.div_euclid(86_400));
    let mut text = format_time(seconds, "%a, %d %b ");
    // Writing to a String cannot fail.
    let _ = write!(text, "{year:4}");
    text.push_str(&format_time(seconds, " %H:%M:%S GMT"));
    // A year of five digits takes the place of the end.
    out.extend_from_slice(&text.as_bytes()[..text.len().min(IMF_FIXDATE_BYTES)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(seconds: f64) -> String {
        let mut out = Vec::new();
        write_http_date(seconds, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn dates_of_any_year() {
        assert_eq!(date(0.0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(-1.0), "Wed, 31 Dec 1969 23:59:59 GMT");
        assert_eq!(date(-62_135_596_800.0), "Mon, 01 Jan    1 00:00:00 GMT");
        assert_eq!(date(253_402_300_800.0), "Sat, 01 Jan 10000 00:00:00 GM");
    }
}
