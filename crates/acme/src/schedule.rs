//! When something is tried or renewed. Time is an argument.

use crate::error::FailureKind;
use crate::plan::Pace;
use der::DateTime;
use std::time::Duration;

/// How long to wait after `failures` in a row, the last of this kind: growing, a quarter more or
/// less by `chance` (0 to 1), and no less than the authority said.
pub(crate) fn pause(
    pace: Pace,
    kind: FailureKind,
    failures: u32,
    retry_after: Option<Duration>,
    chance: f64,
) -> Duration {
    let first = match kind {
        // Nothing was ordered: that may be tried soon.
        FailureKind::Network | FailureKind::Server => pace.first_unreached,
        // It says when; where it does not, the limits of authorities are by the hour.
        FailureKind::RateLimited => pace.first.saturating_mul(8),
        _ => pace.first,
    };
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(pace.max);
    doubled.mul_f64(0.75 + chance.clamp(0.0, 1.0) / 2.0).max(retry_after.unwrap_or_default())
}

/// When a certificate is renewed that the authority says nothing about: when a third of its time is
/// left, up to a thirtieth of it earlier by `chance`, so that those of one day do not all come at
/// once. Seconds of Unix time.
pub(crate) fn renewal_s(from_s: i64, until_s: i64, chance: f64) -> i64 {
    let lifetime_s = until_s.saturating_sub(from_s).max(0);
    let early_s = (lifetime_s as f64 / 30.0 * chance.clamp(0.0, 1.0)) as i64;
    until_s.saturating_sub(lifetime_s / 3).saturating_sub(early_s)
}

/// A moment in the window that the authority suggests, by `chance` (RFC 9773 §4.2); `None` where the
/// window has no length.
pub(crate) fn within(start: &str, end: &str, chance: f64) -> Option<i64> {
    let (start_s, end_s) = (time(start)?, time(end)?);
    let length_s = end_s.checked_sub(start_s).filter(|length_s| *length_s > 0)?;
    Some(start_s + (length_s as f64 * chance.clamp(0.0, 1.0)) as i64)
}

/// A time of RFC 3339 in seconds of Unix time; fractions are cut off.
fn time(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(19)?;
    let at: DateTime = format!("{}Z", date.to_ascii_uppercase()).parse().ok()?;
    let seconds = i64::try_from(at.unix_duration().as_secs()).ok()?;
    let zone = rest
        .strip_prefix('.')
        .map_or(rest, |digits| digits.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    if zone.eq_ignore_ascii_case("z") {
        return Some(seconds);
    }
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (-1, digits),
        ("-", digits) => (1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() == 2).map(i64::from);
    Some(seconds + sign * (number(hours)? * 3600 + number(minutes)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_day_and_heed_the_authority() {
        let of = |failures, said: Option<u64>| {
            let said = said.map(Duration::from_secs);
            pause(Pace::default(), FailureKind::Challenge, failures, said, 0.5).as_secs()
        };
        assert_eq!([of(1, None), of(2, None), of(3, None)], [120, 240, 480]);
        assert_eq!(of(100, None), 86_400);
        assert_eq!((of(1, Some(3600)), of(5, Some(1))), (3600, 1920));
    }

    #[test]
    fn a_third_before_the_end_is_due() {
        assert_eq!(renewal_s(0, 90 * 86_400, 0.0), 60 * 86_400);
        assert_eq!(renewal_s(0, 90 * 86_400, 1.0), 57 * 86_400);
        assert!(renewal_s(i64::MIN, i64::MAX, 1.0) > 0);
        assert_eq!(renewal_s(10, 5, 0.5), 5);
    }

    #[test]
    fn windows_are_read_as_rfc_3339_has_it() {
        // The example of RFC 9773 §4.2.
        let (start, end) = ("2025-01-02T04:00:00Z", "2025-01-03T04:00:00Z");
        assert_eq!(within(start, end, 0.0), Some(1_735_790_400));
        assert_eq!(within(start, end, 0.5), Some(1_735_833_600));
        assert_eq!(time("2025-01-02T06:30:00.123+02:30"), Some(1_735_790_400));
        assert_eq!(time("2025-01-01t23:00:00-05:00"), Some(1_735_790_400));
        for wrong in [
            "",
            "2025-01-02",
            "2025-13-02T04:00:00Z",
            "2025-01-02T04:00:00",
            "ü".repeat(30).as_str(),
        ] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(within(end, start, 0.5), None);
    }
}
