//! strftime(3) in UTC and the C locale, with the flags and widths that glibc has.

use crate::calendar::{civil_from_days, days_from_civil};

/// Bytes of a time as text: what is longer fits no header field. It bounds what widths can ask for.
const TEXT_BYTES_MAX: usize = 64 << 10;

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

/// A point in time as `format` has it; nothing where that would be too long.
pub(crate) fn format_time(seconds: i64, format: &str) -> String {
    let mut out = String::new();
    if Moment::of(seconds).write(format, &mut out).is_none() {
        out.clear();
    }
    out
}

/// A point in time, taken apart.
struct Moment {
    seconds: i64,
    year: i64,
    month: i64,
    day: i64,
    /// From Sunday on.
    weekday: i64,
    /// Days since the year began.
    of_year: i64,
    of_day: i64,
}

/// What stands between `%` and the letter.
#[derive(Default)]
struct Directive {
    /// `_`, `-` or `0`.
    pad: Option<char>,
    width: usize,
    is_upper: bool,
    is_swapped: bool,
    /// `E` or `O`.
    modifier: Option<char>,
}

impl Moment {
    fn of(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let (year, month, day) = civil_from_days(days);
        Self {
            seconds,
            year,
            month,
            day,
            weekday: (days + 4).rem_euclid(7),
            of_year: days - days_from_civil(year, 1, 1),
            of_day: seconds.rem_euclid(86_400),
        }
    }

    /// Year and week by ISO 8601: a week is of the year its Thursday is in.
    fn iso_week(&self) -> (i64, i64) {
        let since_monday = (self.weekday + 6) % 7;
        let thursday = self.seconds.div_euclid(86_400) - since_monday + 3;
        let (year, ..) = civil_from_days(thursday);
        (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
    }

    /// Appends the text; `None` where it is too long.
    fn write(&self, format: &str, out: &mut String) -> Option<()> {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let (directive, code, bytes) = Directive::parse(from);
            let (literal, behind) = from.split_at(bytes);
            match code {
                Some(code) if self.directive(&directive, code, out).is_some() => {}
                // What means nothing stands for itself.
                _ => directive.text(literal, out),
            }
            if out.len() > TEXT_BYTES_MAX {
                return None;
            }
            rest = behind;
        }
        out.push_str(rest);
        (out.len() <= TEXT_BYTES_MAX).then_some(())
    }

    /// Appends what a directive stands for; `None` where that is nothing.
    fn directive(&self, directive: &Directive, code: char, out: &mut String) -> Option<()> {
        let takes = match directive.modifier {
            None => "",
            Some('E') => "cCxXyY",
            Some(_) => "deHIkljmMSuUVwWyg",
        };
        if directive.modifier.is_some() && !takes.contains(code) {
            return None;
        }
        if let Some(format) = combination(code) {
            let mut text = String::new();
            self.write(format, &mut text)?;
            directive.text(&text, out);
            return Some(());
        }
        let (hour, minute, second) = (self.of_day / 3600, self.of_day / 60 % 60, self.of_day % 60);
        let half = if hour < 12 { "AM" } else { "PM" };
        let name = |names: &[&'static str], at: i64| {
            usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default()
        };
        let (day, month) = (name(&DAYS, self.weekday), name(&MONTHS, self.month - 1));
        let short = |name: &'static str| name.get(..3).unwrap_or(name);
        let mut number = |value, digits| directive.number(value, digits, '0', out);
        match code {
            'C' => number(self.year.div_euclid(100), 2),
            'd' => number(self.day, 2),
            'g' => number(self.iso_week().0.rem_euclid(100), 2),
            'G' => number(self.iso_week().0, 1),
            'H' => number(hour, 2),
            'I' => number((hour + 11) % 12 + 1, 2),
            'j' => number(self.of_year + 1, 3),
            'm' => number(self.month, 2),
            'M' => number(minute, 2),
            'S' => number(second, 2),
            'u' => number((self.weekday + 6) % 7 + 1, 1),
            'U' => number((self.of_year + 7 - self.weekday) / 7, 2),
            'V' => number(self.iso_week().1, 2),
            'w' => number(self.weekday, 1),
            'W' => number((self.of_year + 7 - (self.weekday + 6) % 7) / 7, 2),
            'y' => number(self.year.rem_euclid(100), 2),
            'Y' => number(self.year, 1),
            'e' => directive.number(self.day, 2, '_', out),
            'k' => directive.number(hour, 2, '_', out),
            'l' => directive.number((hour + 11) % 12 + 1, 2, '_', out),
            'a' => directive.name(short(day), str::to_uppercase, out),
            'A' => directive.name(day, str::to_uppercase, out),
            'b' | 'h' => directive.name(short(month), str::to_uppercase, out),
            'B' => directive.name(month, str::to_uppercase, out),
            'p' => directive.name(half, str::to_lowercase, out),
            'P' => directive.padded(&half.to_lowercase(), out),
            'Z' => directive.name("GMT", str::to_lowercase, out),
            'z' => directive.text("+0000", out),
            's' => directive.text(&self.seconds.to_string(), out),
            'n' => directive.text("\n", out),
            't' => directive.text("\t", out),
            '%' => directive.text("%", out),
            _ => return None,
        }
        Some(())
    }
}

/// What a directive that stands for several means.
fn combination(code: char) -> Option<&'static str> {
    Some(match code {
        'c' => "%a %b %e %H:%M:%S %Y",
        'D' | 'x' => "%m/%d/%y",
        'F' => "%Y-%m-%d",
        'r' => "%I:%M:%S %p",
        'R' => "%H:%M",
        'T' | 'X' => "%H:%M:%S",
        _ => return None,
    })
}

impl Directive {
    /// Reads one from its `%` on: with its letter, where there is one, and how many bytes it has.
    fn parse(text: &str) -> (Self, Option<char>, usize) {
        let mut directive = Self::default();
        let mut is_in_flags = true;
        for (at, sign) in text.char_indices().skip(1) {
            match sign {
                '_' | '-' | '0' if is_in_flags => directive.pad = Some(sign),
                '^' if is_in_flags => directive.is_upper = true,
                '#' if is_in_flags => directive.is_swapped = true,
                '0'..='9' if directive.modifier.is_none() => {
                    is_in_flags = false;
                    let digit = usize::from(sign as u8 - b'0');
                    // One more than there may be is too much already.
                    directive.width = (directive.width * 10 + digit).min(TEXT_BYTES_MAX + 1);
                }
                'E' | 'O' if directive.modifier.is_none() => {
                    is_in_flags = false;
                    directive.modifier = Some(sign);
                }
                code => return (directive, Some(code), at + code.len_utf8()),
            }
        }
        (directive, None, text.len())
    }

    /// Appends a number of at least so many digits, filled with `pad` where nothing else is said.
    fn number(&self, value: i64, digits: usize, pad: char, out: &mut String) {
        let text = value.unsigned_abs().to_string();
        let sign = if value < 0 { "-" } else { "" };
        let missing = digits.max(self.width).saturating_sub(sign.len() + text.len());
        let filled = match self.pad.unwrap_or(pad) {
            '-' => format!("{sign}{text}"),
            '_' => format!("{}{sign}{text}", " ".repeat(missing)),
            _ => format!("{sign}{}{text}", "0".repeat(missing)),
        };
        self.padded(&filled, out);
    }

    /// Appends a name, whose letters `#` changes like this.
    fn name(&self, name: &str, swap: fn(&str) -> String, out: &mut String) {
        match self.is_swapped {
            true => self.padded(&swap(name), out),
            false => self.text(name, out),
        }
    }

    fn text(&self, text: &str, out: &mut String) {
        match self.is_upper {
            true => self.padded(&text.to_uppercase(), out),
            false => self.padded(text, out),
        }
    }

    fn padded(&self, text: &str, out: &mut String) {
        let sign = if self.pad == Some('0') { '0' } else { ' ' };
        out.extend(std::iter::repeat_n(sign, self.width.saturating_sub(text.len())));
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday, 2025-11-17 12:00:05; what glibc makes of it.
    const MOMENT: i64 = 1_763_380_805;

    #[test]
    fn flags_and_widths_are_those_of_glibc() {
        for (format, text) in [
            ("%-d %5d %_5d %-5d %05e", "17 00017    17    17 00017"),
            ("%e %k %_k %0k %l %P %p", "17 12 12 12 12 pm PM"),
            ("%^a %#Z %#p %#a %^10b", "MON gmt pm MON        NOV"),
            ("%10A|%010A|%-10A", "    Monday|0000Monday|    Monday"),
            ("%20F|%020D", "          2025-11-17|00000000000011/17/25"),
            ("%12Y|%_12Y|%j|%_j|%-j", "000000002025|        2025|321|321|321"),
            ("%EY %Ey %Od %z %C %s", "2025 25 17 +0000 20 1763380805"),
            ("%^c", "MON NOV 17 12:00:05 2025"),
            ("%3n%h%5%", "  \nNov    %"),
        ] {
            assert_eq!(format_time(MOMENT, format), text, "{format}");
        }
    }

    #[test]
    fn what_means_nothing_stands_for_itself() {
        for (format, text) in [
            ("%q|%5q|%^q|%i", "%q|  %5q|%^Q|%i"),
            ("%Ed|%OY|%E", "%Ed|%OY|%E"),
            ("%", "%"),
            ("x%5", "x   %5"),
            ("%é|%N|%+", "%é|%N|%+"),
        ] {
            assert_eq!(format_time(MOMENT, format), text, "{format}");
        }
    }

    #[test]
    fn weeks_are_counted_in_three_ways() {
        assert_eq!(format_time(MOMENT, "%G %g %V %U %W %u %w"), "2025 25 47 46 46 1 1");
        // 2027-01-01 is a Friday, and of the last week of 2026.
        assert_eq!(format_time(1_798_761_600, "%G %V %U %W"), "2026 53 00 00");
        // 2024-12-30 is a Monday, and of the first week of 2025.
        assert_eq!(format_time(1_735_516_800, "%G %V %U %W"), "2025 01 52 53");
    }

    #[test]
    fn a_width_cannot_ask_for_more_than_a_field_may_have() {
        assert!(format_time(MOMENT, "%999999999999999999999d").is_empty());
        assert!(format_time(MOMENT, &"%60000d".repeat(1000)).is_empty());
        assert_eq!(format_time(MOMENT, "%60000d").len(), 60_000);
    }
}
