//! Points in time as dates, of any year.

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
fn civil_from_days(days: i64) -> (i64, i64, i64) {
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

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// An instant as a field of HTTP has it, also one that no field can have: before 1970, or with a
/// year of more than four digits.
pub(crate) fn write_http_date(seconds: f64, out: &mut Vec<u8>) {
    // Towards 1970, as a conversion to a whole number does.
    let seconds = seconds as i64;
    let (year, _, _) = civil_from_days(seconds.div_euclid(86_400));
    let mut text = String::new();
    format_time(seconds, "%a, %d %b ", &mut text, 0);
    // Writing to a String cannot fail.
    let _ = write!(text, "{year:4}");
    format_time(seconds, " %H:%M:%S GMT", &mut text, 0);
    // A year of five digits takes the place of the end.
    out.extend_from_slice(&text.as_bytes()[..text.len().min(IMF_FIXDATE_BYTES)]);
}

/// strftime(3) in UTC and the C locale.
pub(crate) fn format_time(seconds: i64, format: &str, out: &mut String, depth: u32) {
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (year, month, day) = civil_from_days(days);
    let weekday = (days + 4).rem_euclid(7);
    let day_name = DAYS.get(weekday as usize).copied().unwrap_or("");
    let month_name = MONTHS.get(month as usize - 1).copied().unwrap_or("");
    let mut rest = format.chars();
    while let Some(sign) = rest.next() {
        if sign != '%' {
            out.push(sign);
            continue;
        }
        let Some(code) = rest.next() else {
            out.push('%');
            return;
        };
        let combined = match code {
            'D' => "%m/%d/%y",
            'F' => "%Y-%m-%d",
            'R' => "%H:%M",
            'T' => "%H:%M:%S",
            'c' => "%a %b %e %H:%M:%S %Y",
            'r' => "%I:%M:%S %p",
            'x' => "%m/%d/%y",
            'X' => "%H:%M:%S",
            _ => "",
        };
        if !combined.is_empty() && depth == 0 {
            format_time(seconds, combined, out, 1);
            continue;
        }
        // Writing to a String cannot fail.
        let _ = match code {
            'a' => write!(out, "{}", &day_name[..3.min(day_name.len())]),
            'A' => write!(out, "{day_name}"),
            'b' | 'h' => write!(out, "{}", &month_name[..3.min(month_name.len())]),
            'B' => write!(out, "{month_name}"),
            'C' => write!(out, "{:02}", year / 100),
            'd' => write!(out, "{day:02}"),
            'e' => write!(out, "{day:2}"),
            'H' => write!(out, "{hour:02}"),
            'I' => write!(out, "{:02}", (hour + 11) % 12 + 1),
            'j' => write!(out, "{:03}", days - days_from_civil(year, 1, 1) + 1),
            'm' => write!(out, "{month:02}"),
            'M' => write!(out, "{minute:02}"),
            'n' => writeln!(out),
            'p' => write!(out, "{}", if hour < 12 { "AM" } else { "PM" }),
            's' => write!(out, "{seconds}"),
            'S' => write!(out, "{second:02}"),
            't' => write!(out, "\t"),
            'u' => write!(out, "{}", if weekday == 0 { 7 } else { weekday }),
            'w' => write!(out, "{weekday}"),
            'y' => write!(out, "{:02}", year.rem_euclid(100)),
            'Y' => write!(out, "{year}"),
            'z' => write!(out, "+0000"),
            'Z' => write!(out, "GMT"),
            '%' => write!(out, "%"),
            other => write!(out, "%{other}"),
        };
    }
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
