//! The generic cell rate algorithm (ITU-T I.371, annex A): how many requests in which time.

use crate::error::LimitError;
use crate::limits::{COUNT_MAX, REFILL_MAX};
use crate::ticks::Ticks;
use freshet_base::units;
use std::fmt;
use std::time::Duration;

/// So many requests in so much time, and so many at once.
///
/// Each request moves the key's point in time ahead by one interval; one that would move it more than
/// a burst's worth ahead of now is refused and moves nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Requests that may come at once.
    burst: u64,
    /// Ticks between two requests, at least 1.
    interval: u64,
}

/// What became of one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Ticks until it would be let through; 0 where it is.
    wait: u64,
    /// How many more could come now.
    remaining: u64,
    /// Ticks until the whole burst is there again, if nothing comes.
    pub(crate) ahead: u64,
}

impl Rate {
    /// Reads `100/s`, `600/m`, `5000/h`, `20/10s`. Without `burst`, as many may come at once as the
    /// text names.
    ///
    /// # Errors
    /// [`LimitError`]
    pub fn parse(text: &str, burst: Option<u64>) -> Result<Self, LimitError> {
        let malformed = || LimitError::ConfigRate { text: text.into() };
        let (count, period) = text.split_once('/').ok_or_else(malformed)?;
        let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        let count: u64 = count.parse().ok().filter(|_| is_number).ok_or_else(malformed)?;
        let period = match period {
            "s" | "m" | "h" | "d" => format!("1{period}"),
            _ => period.to_owned(),
        };
        let period = units::parse_duration(&period).map_err(|_| malformed())?;
        if count == 0 || period.is_zero() || burst == Some(0) {
            return Err(LimitError::ConfigRateEmpty { text: text.into() });
        }
        let burst = burst.unwrap_or(count);
        let too_long = || LimitError::ConfigBurst { text: text.into(), burst };
        let period = Ticks::from(period.min(REFILL_MAX * 2)).0;
        let interval = period.saturating_add(count / 2) / count;
        if count > COUNT_MAX || interval == 0 {
            return Err(LimitError::ConfigRateTooHigh { text: text.into() });
        }
        let refill = interval.checked_mul(burst).ok_or_else(too_long)?;
        if refill > Ticks::from(REFILL_MAX).0 {
            return Err(too_long());
        }
        Ok(Self { burst, interval })
    }

    /// So many in so much time at once, and evenly after.
    ///
    /// # Errors
    /// [`LimitError`]
    pub fn of(count: u64, period: Duration) -> Result<Self, LimitError> {
        Self::parse(&format!("{count}/{}ms", period.as_millis()), None)
    }

    /// Requests that may come at once.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Time in which a whole burst comes back.
    pub fn refill(&self) -> Duration {
        Ticks(self.interval * self.burst).into()
    }

    /// What becomes of a request of a key whose point is so many ticks ahead of now.
    #[inline]
    pub(crate) fn verdict(&self, ahead: u64) -> Verdict {
        let most = self.interval * self.burst;
        let after = ahead + self.interval;
        if after > most {
            return Verdict { wait: after - most, remaining: 0, ahead };
        }
        Verdict { wait: 0, remaining: (most - after) / self.interval, ahead: after }
    }
}

impl fmt::Display for Rate {
    /// As `100 at once, 10 a second after`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a_second = 8e6 / self.interval as f64;
        let (number, unit) = match a_second {
            rate if rate >= 1.0 => (rate, "second"),
            rate if rate * 60.0 >= 1.0 => (rate * 60.0, "minute"),
            rate => (rate * 3600.0, "hour"),
        };
        let number = (number * 100.0).round() / 100.0;
        write!(f, "{} at once, {number} a {unit} after", self.burst)
    }
}

impl Verdict {
    /// Whether it may go on.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.wait == 0
    }

    /// Time until one would be let through; none where this one is.
    pub fn retry_after(&self) -> Duration {
        Ticks(self.wait).into()
    }

    /// How many more could come now.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Time until the whole burst is there again, if nothing comes.
    pub fn reset(&self) -> Duration {
        Ticks(self.ahead).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, burst, interval_us) in [
            ("1/s", 1, 1_000_000),
            ("100/s", 100, 10_000),
            ("600/m", 600, 100_000),
            ("3600/h", 3600, 1_000_000),
            ("20/10s", 20, 500_000),
            ("1/250ms", 1, 250_000),
            ("86400/d", 86400, 1_000_000),
        ] {
            let rate = Rate::parse(text, None).expect(text);
            assert_eq!((rate.burst, rate.interval), (burst, interval_us * 8), "{text}");
        }
        let rate = Rate::parse("10/s", Some(50)).unwrap();
        assert_eq!((rate.burst(), rate.refill()), (50, Duration::from_secs(5)));
        assert_eq!(rate.to_string(), "50 at once, 10 a second after");
        assert_eq!(Rate::parse("1/10m", None).unwrap().to_string(), "1 at once, 6 a hour after");
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in ["", "/", "10", "10/", "/s", "-1/s", "+1/s", "1.5/s", "10/x", "10/-1s", " 1/s"]
        {
            let error = Rate::parse(text, None).expect_err(text);
            assert_eq!(error, LimitError::ConfigRate { text: text.into() });
        }
        for (text, burst) in [("0/s", None), ("1/0s", None), ("1/s", Some(0))] {
            let error = Rate::parse(text, burst).expect_err(text);
            assert_eq!(error, LimitError::ConfigRateEmpty { text: text.into() });
        }
        let huge = u64::MAX.to_string();
        assert!(Rate::parse(&format!("{huge}9/s"), None).is_err());
        for text in [format!("{huge}/d"), "1000000000/s".into(), "2000000000/h".into()] {
            let error = Rate::parse(&text, None).expect_err(&text);
            assert_eq!(error, LimitError::ConfigRateTooHigh { text });
        }
        for (text, burst) in [("1/d", Some(2)), ("1/2d", None), ("1/s", Some(u64::MAX))] {
            let error = Rate::parse(text, burst).expect_err(text);
            assert!(matches!(error, LimitError::ConfigBurst { .. }), "{error}");
        }
    }
}
