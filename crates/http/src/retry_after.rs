//! How long a server wants to be left alone (RFC 9110 §10.2.3).

use crate::date;
use crate::fields::Fields;
use freshet_base::clock::UnixMillis;
use std::time::Duration;

/// What `Retry-After` says, in seconds or as a date; `None` where it says nothing that can be read. A date that is
/// over is no time. It is the server's word: who goes by it has a bound of its own.
pub fn wait(fields: &Fields, now: UnixMillis) -> Option<Duration> {
    let text = fields.get_str("retry-after")?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(date::parse(text.as_bytes())?.since(now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_times_to_wait() {
        let now = date::parse(b"Wed, 01 Apr 2026 12:00:00 GMT").expect("it is a date");
        for (text, want_s) in [
            ("30", Some(30)),
            (" 0 ", Some(0)),
            ("Wed, 01 Apr 2026 12:00:10 GMT", Some(10)),
            ("Wed, 01 Apr 2026 11:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("18446744073709551616", None),
        ] {
            let fields: Fields = [("Retry-After", text)].into_iter().collect();
            assert_eq!(wait(&fields, now).map(|wait| wait.as_secs()), want_s, "{text}");
        }
        assert_eq!(wait(&Fields::new(), now), None);
    }
}
