//! What there is to ask for: each byte of it follows from whose it is.

use crate::random::Random;
use freshet_base::splitmix::mixed;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Sites, each with an origin of its own and with the same paths.
pub(crate) const SITES: [&str; 2] = ["a.example", "b.example"];

/// Paths of each site.
pub(crate) const PATHS: usize = 6;
/// Tags that responses have, and purges are for.
pub(crate) const TAGS: usize = 3;

/// Whose bytes: a site's, of a path, in a version, for a user (0: for everybody), of one of the site's origins
/// (0 where all have the same), for what else was asked (0 where nothing else matters).
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Identity {
    pub(crate) site: usize,
    pub(crate) path: usize,
    pub(crate) version: u64,
    pub(crate) user: u64,
    pub(crate) origin: u64,
    pub(crate) asked: u64,
}

impl fmt::Display for Identity {
    /// As responses and tags say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { site, path, version, user, origin, asked } = self;
        write!(f, "{site}-{path}-{version}-{user}-{origin}-{asked}")
    }
}

impl Identity {
    /// What a response says that it is.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('-').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            site: next()? as usize,
            path: next()? as usize,
            version: next()?,
            user: next()?,
            origin: next()?,
            asked: next()?,
        })
    }

    /// Its bytes at these places.
    pub(crate) fn bytes(self, range: Range<u64>) -> Vec<u8> {
        let Self { site, path, version, user, origin, asked } = self;
        let own = mixed((site as u64) << 32 | path as u64)
            ^ mixed(version << 16 | user)
            ^ mixed(1 << 32 | origin << 8 | asked);
        let own = mixed(own);
        let mut out = Vec::with_capacity((range.end - range.start) as usize + 16);
        let skip = (range.start % 8) as usize;
        for word in range.start / 8..range.end.div_ceil(8) {
            out.extend_from_slice(&mixed(own.wrapping_add(word)).to_le_bytes());
        }
        out[skip..skip + (range.end - range.start) as usize].to_vec()
    }
}

/// How an entity is told from its other versions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Validator {
    Strong,
    Weak,
    Modified,
    Nothing,
}

/// How a response's length is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Framing {
    Length,
    Chunked,
}

/// What may be done with a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sharing {
    /// Kept for so long, and stale for so long while it is refreshed or where the origin fails.
    Shared { max_age_s: u64, while_refreshed_s: u64, if_error_s: u64, must_revalidate: bool },
    /// Given to the one who asked, and to nobody else.
    Private,
    /// As private, by `Set-Cookie` alone.
    Cookie,
    /// As private, because it was asked for with `Authorization` and nothing allows more.
    Authorized,
    /// Kept by nobody.
    NotStored,
}

/// What a path is like, the same as long as the world lasts.
#[derive(Clone, Debug)]
pub(crate) struct Nature {
    pub(crate) bytes: u64,
    pub(crate) sharing: Sharing,
    pub(crate) validator: Validator,
    pub(crate) framing: Framing,
    pub(crate) has_ranges: bool,
    /// How long a version is there.
    pub(crate) changes_every: Duration,
}

impl Nature {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let sharing = match random.within(0..10) {
            0 => Sharing::Private,
            1 => Sharing::Cookie,
            2 => Sharing::Authorized,
            3 => Sharing::NotStored,
            _ => Sharing::Shared {
                max_age_s: random.of(&[0, 1, 2, 10, 60]),
                while_refreshed_s: random.of(&[0, 0, 1, 5]),
                if_error_s: random.of(&[0, 0, 3, 20]),
                must_revalidate: random.chance(200),
            },
        };
        let bytes = match random.within(0..6) {
            0 => random.within(0..2),
            1 => random.within(1..200),
            2 | 3 => random.within(200..20_000),
            _ => random.within(20_000..150_000),
        };
        Self {
            bytes,
            sharing,
            validator: random.of(&[
                Validator::Strong,
                Validator::Strong,
                Validator::Weak,
                Validator::Modified,
                Validator::Nothing,
            ]),
            framing: random.of(&[Framing::Length, Framing::Length, Framing::Chunked]),
            has_ranges: random.chance(700),
            changes_every: Duration::from_millis(random.of(&[300, 2000, 7000, 60_000])),
        }
    }

    /// Whether what it gives depends on who asks.
    pub(crate) const fn is_personal(&self) -> bool {
        matches!(self.sharing, Sharing::Private | Sharing::Cookie | Sharing::Authorized)
    }

    pub(crate) fn cache_control(&self) -> String {
        match self.sharing {
            Sharing::Private => "private, max-age=30".into(),
            Sharing::Cookie | Sharing::Authorized => "max-age=30".into(),
            Sharing::NotStored => "no-store".into(),
            Sharing::Shared { max_age_s, while_refreshed_s, if_error_s, must_revalidate } => {
                let revalidate = if must_revalidate { ", must-revalidate" } else { "" };
                format!(
                    "max-age={max_age_s}, stale-while-revalidate={while_refreshed_s}, \
                     stale-if-error={if_error_s}{revalidate}"
                )
            }
        }
    }

    /// The field that tells a version from others, as it is sent.
    pub(crate) fn validator_field(&self, identity: Identity) -> Option<(&'static str, String)> {
        let Identity { version, user, asked, .. } = identity;
        match self.validator {
            Validator::Strong => Some(("ETag", format!("\"{identity}\""))),
            Validator::Weak => Some(("ETag", format!("W/\"{identity}\""))),
            // A date for each second; what changes more often is told apart by nothing. What one user gets
            // is younger than what all get: with one date for both, a cache that has the one may keep it
            // where the origin would send the other (RFC 9110 §13.1.3).
            Validator::Modified => {
                let apart = user + 10 * asked;
                let seconds = 1_600_000_000 + version + 1_000_000 * apart;
                Some(("Last-Modified", crate::time::http_date(seconds)))
            }
            Validator::Nothing => None,
        }
    }
}

/// The path of an entity.
pub(crate) fn target(path: usize) -> String {
    format!("/e{path}")
}

/// The number in a path, whatever the query.
pub(crate) fn path_of(target: &str) -> Option<usize> {
    target.split('?').next()?.strip_prefix("/e")?.parse().ok()
}

/// A tag, as responses say it.
pub(crate) fn tag(number: usize) -> String {
    format!("t{number}")
}

/// Whether what is at a path has a tag: each has one that others have as well, and every second one more.
pub(crate) fn has_tag(path: usize, number: usize) -> bool {
    path % TAGS == number || (path % 2 == 1 && number == 0)
}
