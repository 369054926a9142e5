//! How players say they are doing, by session.
//!
//! All of it is claimed by clients. It is counted, shown and believed by nobody: no answer depends on
//! it, and a client that makes sessions up costs others their places here and nothing else.

use super::limits::{SESSION_ACTIVE, SESSIONS_MAX};
use freshet_base::clock::UnixMillis;
use freshet_media::cmcd::{self, Cmcd, Response, Stream};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of the table with a lock each.
const SHARDS: usize = 16;

/// The state of a player that stands still (`sta`, CTA-5004-B).
const REBUFFERING: &str = "r";

/// The sessions that were heard of last, [`SESSIONS_MAX`] at most.
pub struct Sessions {
    shards: [Mutex<Shard>; SHARDS],
    /// Names of sessions are hashed with a secret, and not kept.
    secret: RandomState,
}

/// Sessions in two generations: when the young are many, the old are forgotten and the young are old.
#[derive(Default)]
struct Shard {
    young: HashMap<u64, Session>,
    old: HashMap<u64, Session>,
}

/// What is known of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) first: UnixMillis,
    pub(super) last: UnixMillis,
    pub(super) body_bytes: u64,
    pub(super) starvations: u32,
    pub(super) starved_ms: u32,
    /// The autonomous system of its client; 0 where it is not known.
    pub(super) network: u32,
    /// Hash of its site's name.
    pub(super) site: u64,
    pub(super) values: Values,
    /// Whether it would say for how long it stood still.
    pub(super) is_timed: bool,
    /// Whether it reports: then its requests say of stalls what its reports say too.
    has_reported: bool,
    /// Whether it stands still, by the state it said last, and whether that stall is yet to be told by `bs`.
    is_still: bool,
    is_told_later: bool,
}

/// What of what a player says holds until it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Values {
    pub(super) bitrate_kbps: Option<u32>,
    pub(super) buffer_ms: Option<u32>,
    pub(super) latency_ms: Option<u32>,
    pub(super) start_up_ms: Option<u32>,
    pub(super) stream: Option<Stream>,
}

/// What a player said with one request or report, as far as it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Said {
    /// Hash of the session's name; 0 where it has none.
    session: u64,
    /// Hash of its site's name.
    site: u64,
    values: Values,
    /// How long it stood still since it said so last.
    starved_ms: u32,
    /// Whether it stood still since it said so last.
    is_starved: bool,
    /// Whether it stands still now; `None` where it says no state.
    is_still: Option<bool>,
    /// Whether it is of a version that says for how long.
    is_timed: bool,
    /// Whether it is a report, and no request.
    is_report: bool,
    /// Whether it is about to stand still, does, or waits to begin.
    pub is_urgent: bool,
    /// What it says of a response it got, where it is a report of one.
    pub response: Option<Response>,
}

/// What was new in what a player said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Heard {
    /// Its session.
    pub is_new: bool,
    /// That it stood still, or does.
    pub is_starved: bool,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { shards: Default::default(), secret: RandomState::new() }
    }
}

impl Sessions {
    /// What a request says with this text.
    pub fn said(&self, site: &str, text: &str) -> Said {
        let mut read = Cmcd::default();
        cmcd::read(text, &mut read);
        self.of(site, &read)
    }

    /// What a line of a report says; `None` where it names no session.
    pub fn reported(&self, site: &str, line: &str) -> Option<Said> {
        let mut read = Cmcd::default();
        cmcd::read(line, &mut read);
        let said = self.of(site, &read);
        let said = Said { is_report: true, is_timed: true, response: read.response(), ..said };
        (said.session != 0).then_some(said)
    }

    fn of(&self, site: &str, read: &Cmcd<'_>) -> Said {
        let session = read.session.map_or(0, |name| self.secret.hash_one((site, name)).max(1));
        Said {
            session,
            site: if session == 0 { 0 } else { self.secret.hash_one(site) },
            values: Values {
                bitrate_kbps: read.bitrate_kbps.filter(|_| is_of_pictures(read.object)),
                buffer_ms: read.buffer_ms,
                latency_ms: read.latency_ms,
                start_up_ms: read.start_up_ms,
                stream: read.stream,
            },
            starved_ms: read.starved_ms.unwrap_or(0),
            is_starved: read.is_starved,
            is_still: read.state.map(|state| state == REBUFFERING),
            is_timed: read.starved_ms.is_some() || read.version.is_some_and(|version| version > 1),
            is_report: false,
            is_urgent: read.is_urgent(),
            response: None,
        }
    }

    /// Takes over what a player said with a response of so many bytes. Where its session is new it is looked up
    /// which network its client is in.
    pub fn note(
        &self,
        said: &Said,
        body_bytes: u64,
        now: UnixMillis,
        network: impl FnOnce() -> Option<u32>,
    ) -> Heard {
        if said.session == 0 {
            return Heard { is_new: false, is_starved: said.is_starved };
        }
        self.shard(said).note(said, body_bytes, now, network)
    }

    /// Whether a player says that it began after `since`, or was not heard of at all.
    pub fn began_after(&self, said: &Said, since: UnixMillis) -> bool {
        if said.session == 0 {
            return false;
        }
        let shard = self.shard(said);
        let known = shard.young.get(&said.session).or_else(|| shard.old.get(&said.session));
        known.is_none_or(|session| session.first > since)
    }

    /// Looks at those heard of within a minute. O(sessions).
    pub(super) fn each(&self, now: UnixMillis, mut see: impl FnMut(u64, &Session)) {
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let known = shard.young.iter().chain(&shard.old);
            let active = known.filter(|(_, session)| now.since(session.last) <= SESSION_ACTIVE);
            active.for_each(|(name, session)| see(*name, session));
        }
    }

    /// The hash of a site's name.
    pub(super) fn site_hash(&self, site: &str) -> u64 {
        self.secret.hash_one(site)
    }

    fn shard(&self, said: &Said) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(said.session % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sound has a bit rate too, which is not what a viewer sees.
fn is_of_pictures(object: Option<&str>) -> bool {
    !matches!(object, Some("a" | "c" | "tt" | "i" | "m" | "k"))
}

impl Shard {
    fn note(
        &mut self,
        said: &Said,
        body_bytes: u64,
        now: UnixMillis,
        network: impl FnOnce() -> Option<u32>,
    ) -> Heard {
        let known = self.young.get(&said.session).copied();
        let known = known.or_else(|| self.old.remove(&said.session));
        let is_new = known.is_none();
        let mut session = known.unwrap_or_else(|| Session {
            first: now,
            last: now,
            body_bytes: 0,
            starvations: 0,
            starved_ms: 0,
            network: network().unwrap_or(0),
            site: said.site,
            values: Values::default(),
            is_timed: false,
            has_reported: false,
            is_still: false,
            is_told_later: false,
        });
        session.last = now;
        session.body_bytes = session.body_bytes.saturating_add(body_bytes);
        let starvations = session.starvations_of(said);
        session.starvations = session.starvations.saturating_add(starvations);
        session.values = said.values.or(session.values);
        if self.young.len() >= SESSIONS_MAX / SHARDS / 2 && !self.young.contains_key(&said.session)
        {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(said.session, session);
        Heard { is_new, is_starved: starvations > 0 }
    }
}

impl Session {
    /// How long it was heard of, in milliseconds.
    pub(super) fn heard_ms(&self) -> u64 {
        u64::try_from(self.last.since(self.first).as_millis()).unwrap_or(u64::MAX)
    }

    /// How often it stood still that it has not told before, and takes over for how long. `bs` and `bsd` are of
    /// the time since the last request or since the last report, each on its own: who reports says all twice.
    fn starvations_of(&mut self, said: &Said) -> u32 {
        self.is_timed |= said.is_timed;
        self.has_reported |= said.is_report;
        if self.has_reported && !said.is_report {
            return 0;
        }
        self.starved_ms = self.starved_ms.saturating_add(said.starved_ms);
        let told = said.is_starved && !std::mem::take(&mut self.is_told_later);
        let was_still = self.is_still;
        self.is_still = said.is_still.unwrap_or(was_still);
        let begins = self.is_still && !was_still && !said.is_starved;
        self.is_told_later |= begins;
        u32::from(told || begins)
    }
}

impl Values {
    /// These, and what they do not say as it was `before`.
    fn or(self, before: Self) -> Self {
        Self {
            bitrate_kbps: self.bitrate_kbps.or(before.bitrate_kbps),
            buffer_ms: self.buffer_ms.or(before.buffer_ms),
            latency_ms: self.latency_ms.or(before.latency_ms),
            start_up_ms: self.start_up_ms.or(before.start_up_ms),
            stream: self.stream.or(before.stream),
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::Quality;
    use std::time::Duration;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn known(sessions: &Sessions) -> usize {
        let shards = sessions.shards.iter().map(|shard| shard.lock().expect("nobody panicked"));
        shards.map(|shard| shard.young.len() + shard.old.len()).sum()
    }

    #[test]
    fn a_session_is_what_was_said_of_it_last() {
        let sessions = Sessions::default();
        let say = |fields: &[(&str, &str)], target, bytes| {
            let mut room = [0; cmcd::BYTES_MAX];
            let text = cmcd::said(target, &fields.iter().copied().collect(), &mut room);
            text.is_some_and(|text| {
                sessions.note(&sessions.said("tv", text), bytes, NOW, || None).is_new
            })
        };
        assert!(say(&[], "/a?CMCD=br%3D3000%2Cbl%3D4000%2Csid%3D%22a%22%2Cst%3Dl", 1000));
        assert!(!say(&[("CMCD-Request", "bl=2000"), ("CMCD-Session", "sid=\"a\"")], "/b", 500));
        assert!(!say(&[("CMCD-Status", "bs"), ("CMCD-Session", "sid=\"a\"")], "/b", 0));
        // Sound says nothing about pictures, another session is another, and none is none.
        assert!(!say(&[("CMCD-Object", "br=128,ot=a"), ("CMCD-Session", "sid=\"a\"")], "/b", 0));
        assert!(say(&[("CMCD-Session", "sid=\"b\",st=v")], "/b", 0));
        assert!(!say(&[("CMCD-Object", "br=1")], "/b", 0));
        assert!(!say(&[], "/b?CMCD", 0));
        let [(_, vod), (_, live), (_, low), (_, unknown)] = sessions.quality(NOW);
        assert_eq!((vod.sessions, low.sessions, unknown.sessions), (1, 0, 0));
        let want = Quality {
            sessions: 1,
            starved: 1,
            starvations: 1,
            bitrate_kbps: 3000.0,
            buffer_ms: 2000.0,
            body_bytes: 1500,
            ..Quality::default()
        };
        assert_eq!(live, want);
        let later = NOW.plus(Duration::from_secs(61));
        assert!(sessions.quality(later).iter().all(|(_, quality)| quality.sessions == 0));
    }

    #[test]
    fn who_began_when_and_stood_still_for_how_long_is_known() {
        let sessions = Sessions::default();
        let at = |seconds| NOW.plus(Duration::from_secs(seconds));
        let say = |line: &str, seconds| {
            let said = sessions.reported("tv", line).expect("it has a name");
            sessions.note(&said, 0, at(seconds), || None);
            said
        };
        let said = say("sid=\"a\",st=l", 0);
        say("sid=\"a\",bs,bsd=1500", 10);
        say("sid=\"a\",bsd=500", 20);
        say("sid=\"b\",st=l", 0);
        say("sid=\"b\",st=l", 20);
        let [_, (_, live), ..] = sessions.quality(at(20));
        assert_eq!((live.sessions, live.starved_ratio), (2, 0.05));
        // Who could not say for how long is no part of it.
        for seconds in [0, 20] {
            let said = sessions.said("tv", "sid=\"c\",st=l,bs");
            sessions.note(&said, 0, at(seconds), || None);
        }
        let [_, (_, live), ..] = sessions.quality(at(20));
        assert_eq!((live.sessions, live.starved_ratio), (3, 0.05));
        assert!(!sessions.began_after(&said, at(0)));
        assert!(sessions.began_after(&said, UnixMillis(NOW.0 - 1)));
        assert!(sessions.began_after(&sessions.said("tv", "sid=\"d\""), at(20)));
        assert!(!sessions.began_after(&sessions.said("tv", "br=1"), at(0)), "it says no name");
    }

    #[test]
    fn a_stall_is_counted_once_however_often_it_is_said() {
        let sessions = Sessions::default();
        let hear = |said: Said| sessions.note(&said, 0, NOW, || None).is_starved;
        let report = |line: &str| {
            let line = format!("sid=\"a\",e=ps,{line}");
            hear(sessions.reported("tv", &line).expect("it has a name"))
        };
        let request = |text: &str| hear(sessions.said("tv", &format!("sid=\"a\",{text}")));
        // Requests count as long as there are no reports.
        assert!(request("bs,bsd=100,v=2"));
        assert!(!report("sta=p"));
        assert!(report("sta=r"), "it stands still");
        assert!(!report("sta=r") && !request("bs,bsd=700"), "it still does");
        assert!(!report("sta=p,bs,bsd=700"), "that was this one");
        assert!(report("bs,bsd=200") && report("sta=r,bs") && !report("sta=p"));
        let [.., (_, of)] = sessions.quality(NOW);
        assert_eq!((of.starvations, of.starved), (4, 1));
        let starved_ms = std::cell::Cell::new(0);
        sessions.each(NOW, |_, session| starved_ms.set(session.starved_ms));
        assert_eq!(starved_ms.get(), 1000);
        // Who has no name is counted as it says.
        assert!(hear(sessions.said("tv", "bs")) && !hear(sessions.said("tv", "br=1")));
    }

    #[test]
    fn sessions_of_two_sites_are_two() {
        let sessions = Sessions::default();
        for site in ["a", "b"] {
            let said = sessions.reported(site, "sid=\"x\",e=ps,ts=1").expect("it has a name");
            assert!(sessions.note(&said, 0, NOW, || None).is_new);
        }
        let [a, c] = &sessions.quality_of_sites(&["a", "c"], NOW)[..] else { panic!("two") };
        assert_eq!((a[3].1.sessions, c[3].1.sessions), (1, 0));
        assert_eq!(sessions.quality(NOW)[3].1.sessions, 2);
        assert_eq!(sessions.reported("a", "e=ps,ts=1"), None);
        assert_eq!(known(&sessions), 2);
    }

    #[test]
    fn sessions_that_are_made_up_take_each_others_places() {
        let sessions = Sessions::default();
        for number in 0..3 * SESSIONS_MAX {
            let line = format!("sid=\"{number}\"");
            let said = sessions.reported("", &line).expect("it has a name");
            sessions.note(&said, 0, NOW, || None);
            // One that goes on is not forgotten.
            let kept = sessions.reported("", "sid=\"kept\"").expect("it has a name");
            assert_eq!(sessions.note(&kept, 0, NOW, || None).is_new, number == 0);
        }
        assert!(known(&sessions) <= SESSIONS_MAX + SHARDS, "{}", known(&sessions));
        assert!(size_of::<(u64, Session)>() <= 96);
    }
}
