//! Content codings: which one a client likes best of those a cache can give (RFC 9110 §12.5.3).

use crate::fields::Fields;

/// A coding that is put on and taken off here.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Coding {
    /// gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878), in a window of 8 MiB at most (RFC 9659).
    Zstd,
}

impl Coding {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Brotli, Self::Zstd];

    /// Its name as it is registered.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The coding of this name. `x-gzip` is gzip (RFC 9110 §8.4.1.3).
    pub fn named(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|one| name.eq_ignore_ascii_case(one.name().as_bytes()))
    }

    /// The only coding a body is under; `None` where it is under none, several or another.
    pub fn of(response: &Fields) -> Option<Self> {
        let mut codings = response.tokens("content-encoding");
        match (codings.next(), codings.next()) {
            (Some(only), None) => Self::named(only),
            _ => None,
        }
    }

    /// The coding a request names first, where the cache has brought its `Accept-Encoding` in line
    /// ([`Accepted::words`]). gzip stands for none too: it is taken off on the way to a client.
    pub fn first(request: &Fields) -> Self {
        let first = request.tokens("accept-encoding").next();
        first.and_then(Self::named).unwrap_or(Self::Gzip)
    }
}

/// Members of `Accept-Encoding` that are looked at. Browsers send five; what stands behind so many
/// is as if it were not there.
const MEMBERS_MAX: usize = 32;

/// Weight 1 in the thousandths that RFC 9110 §12.4.2 allows.
const FULL_WEIGHT: u16 = 1000;

/// How much a client wants each coding, in thousandths; 0 is not at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Accepted {
    named: [Option<u16>; Coding::ALL.len()],
    identity: Option<u16>,
    others: Option<u16>,
    is_said: bool,
}

impl Accepted {
    /// What `Accept-Encoding` says. Who says nothing takes any coding by the letter, and may be
    /// unable to unpack it: it is as if only bodies without one were wanted. A member that cannot be
    /// understood is not there. The first of two of the same name holds.
    pub fn of(request: &Fields) -> Self {
        let mut all = Self {
            named: [None; Coding::ALL.len()],
            identity: None,
            others: None,
            is_said: request.contains("accept-encoding"),
        };
        for member in request.tokens("accept-encoding").take(MEMBERS_MAX) {
            let Some((name, weight)) = member_of(member) else { continue };
            let slot = if name == b"*" {
                &mut all.others
            } else if name.eq_ignore_ascii_case(b"identity") {
                &mut all.identity
            } else if let Some(coding) = Coding::named(name) {
                &mut all.named[coding as usize]
            } else {
                continue;
            };
            slot.get_or_insert(weight);
        }
        all
    }

    /// How much it wants a coding.
    pub fn weight(&self, coding: Coding) -> u16 {
        self.named[coding as usize].or(self.others).unwrap_or(0)
    }

    /// Whether it takes a coding.
    pub fn takes(&self, coding: Coding) -> bool {
        self.weight(coding) > 0
    }

    /// Whether it takes a body without a coding, which it does unless it says it does not.
    pub fn takes_identity(&self) -> bool {
        self.identity.or(self.others).is_none_or(|weight| weight > 0)
    }

    /// What it likes best of `offered`, the first of those it likes as much; `None` for no coding:
    /// where it takes none of them, or says that it likes a body without one better.
    pub fn best(&self, offered: &[Coding]) -> Option<Coding> {
        let mut best: Option<(Coding, u16)> = None;
        for coding in offered {
            let weight = self.weight(*coding);
            if weight > best.map_or(0, |(_, weight)| weight) {
                best = Some((*coding, weight));
            }
        }
        let (coding, weight) = best.filter(|_| self.is_said)?;
        self.identity.is_none_or(|identity| identity <= weight).then_some(coding)
    }

    /// The same wish in the words a cache needs that has these codings to offer: the one it is to
    /// get, with gzip behind where it takes that too, or `identity`.
    pub fn words(&self, offered: &[Coding]) -> &'static str {
        let gzip = self.is_said && self.takes(Coding::Gzip);
        match self.best(offered) {
            Some(Coding::Gzip) => "gzip",
            Some(Coding::Brotli) if gzip => "br, gzip",
            Some(Coding::Brotli) => "br",
            Some(Coding::Zstd) if gzip => "zstd, gzip",
            Some(Coding::Zstd) => "zstd",
            None => "identity",
        }
    }
}

/// Name and weight of a member.
fn member_of(text: &[u8]) -> Option<(&[u8], u16)> {
    let Some(at) = text.iter().position(|byte| *byte == b';') else {
        return Some((text, FULL_WEIGHT));
    };
    let (name, rest) = text.split_at_checked(at)?;
    let value = rest.get(1..)?.trim_ascii();
    let value = value.strip_prefix(b"q=").or_else(|| value.strip_prefix(b"Q="))?;
    Some((name.trim_ascii_end(), weight_of(value)?))
}

/// A weight in thousandths (RFC 9110 §12.4.2).
pub(crate) fn weight_of(text: &[u8]) -> Option<u16> {
    let (whole, rest) = text.split_first()?;
    let fraction = match rest.split_first() {
        None => rest,
        Some((b'.', digits)) if digits.len() <= 3 => digits,
        Some(_) => return None,
    };
    let mut weight = 0;
    for place in 0..3 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        weight = weight * 10 + u16::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    match whole {
        b'0' => Some(weight),
        b'1' if weight == 0 => Some(FULL_WEIGHT),
        _ => None,
    }
}

/// Whether `Accept-Encoding` has room for gzip (RFC 9110 §12.5.3). Its old name has no weight.
pub fn accepts_gzip(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|coding| {
        let mut parts = coding.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or(b"");
        let refused = parts.any(|part| {
            part.strip_prefix(b"q=").is_some_and(|q| {
                q.starts_with(b"-") || !q.iter().any(|byte| (b'1'..=b'9').contains(byte))
            })
        });
        name.eq_ignore_ascii_case(b"x-gzip") || (name.eq_ignore_ascii_case(b"gzip") && !refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip, Zstd};

    fn best(value: &str) -> Option<Coding> {
        let request: Fields = [("Accept-Encoding", value)].into_iter().collect();
        Accepted::of(&request).best(&[Zstd, Brotli, Gzip])
    }

    #[test]
    fn the_largest_weight_wins_and_then_the_order_of_the_cache() {
        assert_eq!(best("gzip, deflate, br, zstd"), Some(Zstd));
        assert_eq!(best("gzip, deflate, br"), Some(Brotli));
        assert_eq!(best("gzip;q=1.0, br;q=0.9"), Some(Gzip));
        assert_eq!(best("br;q=0.001, gzip;q=0"), Some(Brotli));
        assert_eq!(best("X-GZip"), Some(Gzip));
        assert_eq!(best("BR ; Q=0.5"), Some(Brotli));
    }

    #[test]
    fn a_star_stands_for_all_that_are_not_named() {
        assert_eq!(best("*"), Some(Zstd));
        assert_eq!(best("zstd;q=0, *"), Some(Brotli));
        assert_eq!(best("*;q=0"), None);
        assert_eq!(best("gzip;q=0.3, *;q=0"), Some(Gzip));
        assert_eq!(best("gzip, *;q=0.5"), Some(Gzip));
    }

    #[test]
    fn no_coding_is_given_to_whom_wants_none() {
        assert_eq!(Accepted::of(&Fields::new()).best(&Coding::ALL), None);
        for none in ["", "identity", "deflate, compress", "identity, gzip;q=0.5", "gzip;q=0"] {
            assert_eq!(best(none), None, "{none}");
        }
        assert_eq!(best("identity;q=0.5, br;q=0.5"), Some(Brotli));
        assert_eq!(best("identity;q=0, gzip;q=0.1"), Some(Gzip));
    }

    #[test]
    fn a_wish_in_other_words_is_the_same_wish() {
        for value in ["gzip, br", "br", "zstd;q=0.4, *;q=0.2", "gzip;q=0.1, identity", "*;q=0", ""]
        {
            let request: Fields = [("Accept-Encoding", value)].into_iter().collect();
            let offered = [Zstd, Brotli, Gzip];
            let accepted = Accepted::of(&request);
            let words = accepted.words(&offered);
            assert_eq!(best(words), accepted.best(&offered), "{value}");
            let said: Fields = [("Accept-Encoding", words)].into_iter().collect();
            assert_eq!(Coding::first(&said), accepted.best(&offered).unwrap_or(Gzip), "{value}");
            assert_eq!(Accepted::of(&said).words(&offered), words);
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_there() {
        assert_eq!(best("br;q=2, gzip"), Some(Gzip));
        assert_eq!(best("br;level=5, gzip;q=0.1"), Some(Gzip));
        assert_eq!(best("zstd;q=0, zstd, br;q=0.0001"), None);
        let flood = "x,".repeat(MEMBERS_MAX) + "gzip";
        assert_eq!(best(&flood), None);
    }

    #[test]
    fn a_body_is_under_one_coding_or_none_that_is_known() {
        let of = |value: &str| Coding::of(&[("Content-Encoding", value)].into_iter().collect());
        assert_eq!((of("br"), of("ZSTD"), of("x-gzip")), (Some(Brotli), Some(Zstd), Some(Gzip)));
        assert_eq!((of("gzip, br"), of("deflate"), of("")), (None, None, None));
    }

    #[test]
    fn a_client_may_refuse_gzip() {
        assert!(accepts_gzip(b"br, GZIP;q=0.1") && accepts_gzip(b"gzip"));
        assert!(accepts_gzip(b"gzip;q=0, x-gzip") && !accepts_gzip(b"gzip;q=-1"));
        assert!(!accepts_gzip(b"gzip;q=0.0") && !accepts_gzip(b"br, deflate"));
    }
}
