//! What follows for an answer from the channel it belongs to.

use super::channels::{About, Belongs};
use super::directives::Directives;
use super::limits::{LATE_LIFETIME_MAX, PARTS_LIFETIME_MAX, TARGETS_OF_PARTS};
use freshet_base::clock::UnixMillis;
use freshet_config::storage::Storage;
use freshet_http::freshness::{Freshness, Given, InPlaceOf, LifetimeSource, Storability};
use freshet_http::reason::Reason;
use freshet_media::cmsd::Static;
use freshet_media::{Class, Kind};
use std::time::Duration;

/// The shortest time in which an MPD is asked for again, whatever it says.
const REFRESH_MIN: Duration = Duration::from_secs(1);

/// How an answer is kept that belongs to a channel. It only ever shortens what the origin allows,
/// unless that said nothing, or a site overrides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// What kind of channel it belongs to; `None` where it is of none by itself.
    pub class: Option<Class>,
    /// Why, for people.
    pub reason: Reason,
    /// How long it may be fresh from now on.
    lifetime_max: Duration,
    /// How long it is fresh where its origin says nothing of that.
    lifetime_unsaid: Duration,
    /// How long it may be stale while it is refreshed.
    stale_max: Duration,
    /// How long it may be stale while the origin fails.
    error_max: Duration,
    /// How long it is of use after that; `None` for what is kept as any content is.
    keep: Option<Duration>,
    is_memory_only: bool,
    /// What it is; `None` where that is not known, of an error.
    kind: Option<Kind>,
    /// The number of its segment, where it has one, and how long it plays.
    sequence: Option<u64>,
    duration_ms: Option<u64>,
    /// Its kilobits a second, where they are known.
    bitrate_kbps: Option<u64>,
}

/// How an answer is to be kept, as far as it is known before its policy sees it.
pub struct Keeping<'a> {
    /// How long it is fresh, and what is allowed afterwards.
    pub freshness: &'a mut Freshness,
    /// Why it may not be kept, where it may not.
    pub uncacheable: &'a mut Option<Reason>,
    /// Where it may be kept.
    pub storage: &'a mut Storage,
    /// How long it is kept beyond that, where that is known.
    pub keep: &'a mut Option<Duration>,
    /// How it would be kept with a lifetime that is given to it, and with all else that its origin says.
    pub judge: &'a dyn Fn(Given) -> Storability,
}

impl Advice {
    /// Whether it is of a playlist or manifest.
    pub fn is_of_playlist(&self) -> bool {
        self.kind == Some(Kind::Playlist)
    }

    /// What players are told of it, where its origin tells them nothing.
    pub fn told(&self) -> Static {
        Static {
            bitrate_kbps: self.bitrate_kbps,
            duration_ms: self.duration_ms,
            kind: self.kind,
            is_live: self.class.is_some(),
            ..Static::default()
        }
    }

    /// For an answer of this status to a request for `target`, which belongs to a channel like this.
    pub fn of(belongs: Belongs, target: &str, status: u16, now: UnixMillis) -> Option<Self> {
        let is_late = matches!(status, 404 | 410);
        match belongs {
            Belongs::Manifest(about) | Belongs::Named(about, ..) | Belongs::Beside(about)
                if is_late =>
            {
                Self::late(about)
            }
            Belongs::Manifest(about) | Belongs::Named(about, Kind::Playlist, _)
                if status == 200 =>
            {
                Self::manifest(about, target)
            }
            Belongs::Key if matches!(status, 200 | 206) => Some(Self::key()),
            Belongs::Named(about, kind, until) if matches!(status, 200 | 206) => {
                Some(Self::named(about, kind, until, now))
            }
            _ => None,
        }
    }

    /// A playlist or manifest.
    pub fn manifest(about: About, target: &str) -> Option<Self> {
        if about.target.is_zero() && about.refresh.is_none() {
            return None;
        }
        let lifetime_max = if Directives::of(target).sequence.is_some() {
            about.target * TARGETS_OF_PARTS
        } else if let Some(part) = about.part_target.filter(|part| !part.is_zero()) {
            part.min(PARTS_LIFETIME_MAX)
        } else if let Some(refresh) = about.refresh {
            refresh.max(REFRESH_MIN)
        } else {
            about.target / 2
        };
        // An MPD may want to be asked again in minutes, and a packager that starts again writes another one.
        let lifetime_unsaid = match about.refresh {
            Some(_) if !about.target.is_zero() => {
                lifetime_max.min((about.target / 2).max(REFRESH_MIN))
            }
            _ => lifetime_max,
        };
        Some(Self {
            class: Some(about.class),
            reason: Reason::MediaLive,
            lifetime_max,
            lifetime_unsaid,
            // Together with its lifetime no longer than a player waits for the next segment.
            stale_max: lifetime_max.min(about.target / 2),
            // What it names is gone then.
            error_max: about.window,
            keep: Some(about.window),
            is_memory_only: true,
            kind: Some(Kind::Playlist),
            sequence: about.sequence,
            duration_ms: Some(about.duration_ms).filter(|ms| *ms > 0),
            bitrate_kbps: about.bitrate_kbps(),
        })
    }

    /// A segment, a part, or what starts a decoder.
    fn named(about: About, kind: Kind, until: UnixMillis, now: UnixMillis) -> Self {
        let reason = about.reason();
        let lifetime_max = Duration::from_millis(until.0.saturating_sub(now.0));
        // A packager that starts again writes what starts a decoder anew, under the same name.
        Self {
            class: Some(about.class),
            reason,
            lifetime_max,
            lifetime_unsaid: if kind.is_init() {
                lifetime_max.min(about.target / 2)
            } else {
                lifetime_max
            },
            stale_max: about.target,
            error_max: about.target,
            keep: Some(Duration::ZERO),
            is_memory_only: reason == Reason::MediaLive,
            kind: Some(kind),
            sequence: about.sequence,
            duration_ms: Some(about.duration_ms).filter(|ms| *ms > 0),
            bitrate_kbps: about.bitrate_kbps(),
        }
    }

    /// What segments are deciphered with: as its origin says, but on no disk. Where it says nothing it is
    /// asked each time, as how old a key is does not tell how long it will be.
    fn key() -> Self {
        Self {
            class: None,
            reason: Reason::MediaKey,
            lifetime_max: Duration::MAX,
            lifetime_unsaid: Duration::ZERO,
            stale_max: Duration::MAX,
            error_max: Duration::MAX,
            keep: None,
            is_memory_only: true,
            kind: Some(Kind::Key),
            sequence: None,
            duration_ms: None,
            bitrate_kbps: None,
        }
    }

    /// What is not there, and may be in a moment: packagers are late by milliseconds.
    fn late(about: About) -> Option<Self> {
        let part = about.part_target.filter(|part| !part.is_zero()).unwrap_or(Duration::MAX);
        let lifetime_max = part.min(about.target / 2).min(LATE_LIFETIME_MAX);
        (!about.target.is_zero()).then_some(Self {
            class: Some(about.class),
            reason: Reason::MediaLate,
            lifetime_max,
            lifetime_unsaid: Duration::ZERO,
            stale_max: Duration::ZERO,
            error_max: Duration::ZERO,
            keep: Some(Duration::ZERO),
            is_memory_only: true,
            kind: None,
            sequence: None,
            duration_ms: None,
            bitrate_kbps: None,
        })
    }

    /// Brings an answer in line, before its policy sees it. `overrides`: what an origin says against
    /// keeping a manifest does not count.
    pub fn apply(&self, mut answer: Keeping<'_>, overrides: bool, now: UnixMillis) {
        match self.reason {
            Reason::MediaLate => {}
            Reason::MediaKey if !is_unsaid(answer.freshness) => {}
            Reason::MediaKey => *answer.freshness = Freshness::from_policy(now, Duration::ZERO),
            _ => self.allow(&mut answer, overrides && self.kind == Some(Kind::Playlist), now),
        }
        self.shorten(answer.freshness, now);
        self.place(answer.storage, answer.keep, answer.freshness, now);
    }

    /// Gives the lifetime about which the origin says nothing, or nothing that counts: a guess knows
    /// less than the channel does. What else it says stands, as that it is to be asked before each use.
    fn allow(&self, answer: &mut Keeping<'_>, overrides: bool, now: UnixMillis) {
        let freshness = &*answer.freshness;
        let in_place_of = match answer.uncacheable {
            Some(Reason::NoFreshness) => InPlaceOf::Silence,
            Some(Reason::NoCacheNoValidator | Reason::NoStore | Reason::StaleOnArrival)
                if overrides =>
            {
                InPlaceOf::Everything
            }
            None if overrides && (freshness.no_cache || freshness.ttl_ms(now) <= 0) => {
                InPlaceOf::Everything
            }
            None if is_unsaid(freshness) => InPlaceOf::Silence,
            Some(_) | None => return,
        };
        let given = Given { lifetime: self.lifetime_unsaid, in_place_of };
        if let Storability::Store(freshness) = (answer.judge)(given) {
            *answer.uncacheable = None;
            *answer.freshness = freshness;
        }
    }

    /// Shortens what is allowed.
    pub fn shorten(&self, freshness: &mut Freshness, now: UnixMillis) {
        let until = freshness.age(now).saturating_add(self.lifetime_max);
        freshness.set_lifetime(freshness.lifetime().min(until));
        freshness
            .set_stale_while_revalidate(freshness.stale_while_revalidate().min(self.stale_max));
        freshness.set_stale_if_error(freshness.stale_if_error().min(self.error_max));
    }

    /// The same for a policy, which may lengthen it again.
    pub fn shorten_knobs(&self, knobs: &mut freshet_vcl::Answer) {
        knobs.media_class = self.class.map(Class::name);
        knobs.media_kind = self.kind.map(Kind::name);
        (knobs.media_sequence, knobs.media_bitrate) = (self.sequence, self.bitrate_kbps);
        knobs.ttl = knobs.ttl.min(self.lifetime_max.as_secs_f64());
        knobs.grace = knobs.grace.min(self.stale_max.as_secs_f64());
        knobs.keep = self.keep.map_or(knobs.keep, |keep| knobs.keep.min(keep.as_secs_f64()));
    }

    /// Says where it is kept, and that it leaves when it is of no use any more: until then it can be validated.
    pub fn place(
        &self,
        storage: &mut Storage,
        keep: &mut Option<Duration>,
        freshness: &Freshness,
        now: UnixMillis,
    ) {
        if self.is_memory_only && *storage == Storage::Configured {
            *storage = Storage::Memory;
        }
        let stale = freshness.fresh_until().plus(freshness.stale_while_revalidate());
        let is_of_use = now.plus(self.lifetime_max).since(stale);
        *keep = keep.or_else(|| self.keep.map(|keep| keep.max(is_of_use)));
    }
}

/// Whether an origin has said nothing of how long an answer is fresh.
fn is_unsaid(freshness: &Freshness) -> bool {
    matches!(freshness.source, LifetimeSource::Heuristic | LifetimeSource::None)
}
