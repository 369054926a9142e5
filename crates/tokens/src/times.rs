//! From when to when a token is good, who has to have made it, and for whom.

use crate::denied::Denied;

/// Seconds of Unix time between which a token is good.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) not_before_s: Option<f64>,
    pub(crate) expires_s: Option<f64>,
}

impl Times {
    /// Whether it is good now, give or take `leeway_s`. A token is good until the second it names,
    /// not in it (RFC 7519 §4.1.4).
    pub(crate) fn check(&self, now_s: u64, leeway_s: u64) -> Result<(), Denied> {
        let (now, leeway) = (now_s as f64, leeway_s as f64);
        if self.expires_s.is_some_and(|until| now - leeway >= until) {
            return Err(Denied::Expired);
        }
        if self.not_before_s.is_some_and(|from| now + leeway < from) {
            return Err(Denied::NotYet);
        }
        Ok(())
    }
}

/// In the place of an audience: any, and none.
const ANY_AUDIENCE: &str = "*";

/// What a site asks of who made a token, and of its end.
pub(crate) struct Wanted<'a> {
    /// Empty for any.
    pub(crate) issuers: &'a [String],
    /// Empty where a token may name none: who is named is meant, and this node is not (RFC 7519 §4.1.3). `*` is any.
    pub(crate) audiences: &'a [String],
    pub(crate) may_be_endless: bool,
}

/// Whom a token names.
pub(crate) struct Named<'a> {
    pub(crate) issuer: Option<&'a str>,
    pub(crate) audiences: &'a [String],
}

impl Wanted<'_> {
    /// Whether a token with these times is good `now_s`, give or take `leeway_s`, and names whom it has
    /// to.
    pub(crate) fn check(
        &self,
        times: &Times,
        named: &Named<'_>,
        (now_s, leeway_s): (u64, u64),
    ) -> Result<(), Denied> {
        if times.expires_s.is_none() && !self.may_be_endless {
            return Err(Denied::Endless);
        }
        times.check(now_s, leeway_s)?;
        let is_of = |issuer: &str| self.issuers.iter().any(|wanted| wanted == issuer);
        if !self.issuers.is_empty() && !named.issuer.is_some_and(is_of) {
            return Err(Denied::Issuer);
        }
        let is_for = |audience: &String| self.audiences.contains(audience);
        match (self.audiences, named.audiences) {
            ([], []) => Ok(()),
            (wanted, _) if wanted.iter().any(|wanted| wanted == ANY_AUDIENCE) => Ok(()),
            (_, named) if named.iter().any(is_for) => Ok(()),
            _ => Err(Denied::Audience),
        }
    }
}

/// Whole seconds as text: digits only, and no more than any clock shows. What is longer is no time,
/// so that none can be beyond what is compared.
pub(crate) fn seconds(text: &str) -> Result<u64, Denied> {
    let is_number =
        (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or(Denied::Malformed)
}

/// A time that a token names as a number, in seconds: finite, and not before 1970.
pub(crate) fn time(number: f64) -> Result<f64, Denied> {
    if number.is_finite() && (0.0..1e12).contains(&number) {
        Ok(number)
    } else {
        Err(Denied::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_digits_that_a_clock_can_show() {
        assert_eq!(seconds("2147483647"), Ok(2_147_483_647));
        for text in ["", "+1", "-1", " 1", "1e9", "18446744073709551616", "9999999999999", "١"] {
            assert_eq!(seconds(text), Err(Denied::Malformed), "{text}");
        }
        for number in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(time(number), Err(Denied::Malformed));
        }
    }

    #[test]
    fn a_token_is_good_until_the_second_it_names() {
        let times = Times { not_before_s: Some(10.0), expires_s: Some(20.5) };
        assert_eq!(times.check(9, 0), Err(Denied::NotYet));
        assert_eq!(times.check(10, 0), Ok(()));
        assert_eq!(times.check(20, 0), Ok(()));
        assert_eq!(times.check(21, 0), Err(Denied::Expired));
        assert_eq!((times.check(7, 3), times.check(23, 3)), (Ok(()), Ok(())));
        assert_eq!(times.check(24, 3), Err(Denied::Expired));
        let whole = Times { expires_s: Some(20.0), ..times };
        assert_eq!(whole.check(20, 0), Err(Denied::Expired));
    }
}
