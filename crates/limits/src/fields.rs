//! What clients are told of limits (RFC 9110 §10.2.3, draft-ietf-httpapi-ratelimit-headers-10).

use crate::rate::{Rate, Verdict};
use std::time::Duration;

/// A member of `RateLimit-Policy` (§3): `"name";q=100;w=60` is 100 requests in 60 seconds.
pub fn policy_field(name: &str, rate: &Rate) -> String {
    format!("{};q={};w={}", quoted(name), rate.burst(), seconds(rate.refill()).max(1))
}

/// A member of `RateLimit` (§4): `"name";r=50;t=30` is 50 that are left, and all again in 30 seconds.
pub fn state_field(name: &str, verdict: &Verdict) -> String {
    format!("{};r={};t={}", quoted(name), verdict.remaining(), seconds(verdict.reset()))
}

/// Whole seconds for `Retry-After`, at least one.
pub fn retry_after_s(wait: Duration) -> u64 {
    seconds(wait).max(1)
}

/// Rounded up: who comes back when told is let in.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// A string of structured fields (RFC 9651 §3.3.3); what cannot stand in one is left out.
fn quoted(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('"');
    for sign in name.chars().filter(|sign| sign.is_ascii_graphic() || *sign == ' ') {
        if matches!(sign, '"' | '\\') {
            out.push('\\');
        }
        out.push(sign);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_draft_writes_them() {
        let rate = Rate::parse("100/m", None).unwrap();
        assert_eq!(policy_field("default", &rate), "\"default\";q=100;w=60");
        assert_eq!(
            policy_field("a\"\\é", &Rate::parse("1/10ms", None).unwrap()),
            "\"a\\\"\\\\\";q=1;w=1"
        );
        let verdict = rate.verdict(0);
        assert_eq!(state_field("default", &verdict), "\"default\";r=99;t=1");
    }

    #[test]
    fn who_comes_back_when_told_is_let_in() {
        assert_eq!(retry_after_s(Duration::ZERO), 1);
        assert_eq!(retry_after_s(Duration::from_millis(1001)), 2);
        assert_eq!(retry_after_s(Duration::from_secs(5)), 5);
    }
}
