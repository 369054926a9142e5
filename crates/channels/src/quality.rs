//! What sessions of players come to: by kind of stream and site, by network, by rendition.

use super::limits::NETWORKS_MAX;
use super::sessions::{Session, Sessions};
use freshet_base::clock::UnixMillis;
use freshet_media::cmcd::Stream;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The highest bit rates of renditions that are told apart, in kbit/s: about those of usual ladders.
const RENDITIONS_KBPS: [u32; 6] = [400, 800, 1600, 3200, 6400, 12_800];

/// What they are called, with those above and those that do not say.
const RENDITIONS: [&str; 8] = ["400", "800", "1600", "3200", "6400", "12800", "more", "unknown"];

/// Kinds of streams.
const STREAMS: [&str; 4] = ["vod", "live", "low-latency", "unknown"];

/// What sessions come to, of those heard of within a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// How many there are.
    pub sessions: u64,
    /// How many of them ever stood still.
    pub starved: u64,
    /// How often all of them stood still.
    pub starvations: u64,
    /// Mean bit rate of what they ask for, in kbit/s; of those that say it.
    pub bitrate_kbps: f64,
    /// Mean of what they have buffered, in milliseconds.
    pub buffer_ms: f64,
    /// Mean distance from the event, in milliseconds.
    pub latency_ms: f64,
    /// Mean time to the first picture, in milliseconds.
    pub start_up_ms: f64,
    /// How much of their time they stood still, of those whose version says for how long; 0 to 1.
    pub starved_ratio: f64,
    /// Body bytes sent to them.
    pub body_bytes: u64,
    /// What that is a second, in kbit/s, since each was heard of first: sound and what was sent again count as well.
    pub delivered_kbps: f64,
}

/// One session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct One {
    /// Hash of its name, by a secret of this process.
    pub name: u64,
    /// The kind of stream: one of the names of [`ByStream`].
    pub stream: &'static str,
    /// The number of the autonomous system of its client, where that is known.
    pub network: Option<u32>,
    /// When it was heard of first and last.
    pub first: UnixMillis,
    /// See [`Self::first`].
    pub last: UnixMillis,
    /// How often it stood still.
    pub starvations: u32,
    /// For how long, in milliseconds; `None` where its version does not say.
    pub starved_ms: Option<u32>,
    /// What it said last: the bit rate of what it asks for, in kbit/s.
    pub bitrate_kbps: Option<u32>,
    /// What it has buffered, in milliseconds.
    pub buffer_ms: Option<u32>,
    /// How far behind the event it is, in milliseconds.
    pub latency_ms: Option<u32>,
    /// How long it took to the first picture, in milliseconds.
    pub start_up_ms: Option<u32>,
    /// Body bytes sent to it.
    pub body_bytes: u64,
    /// What that is a second, in kbit/s; `None` where it was heard of at one moment only.
    pub delivered_kbps: Option<f64>,
}

/// What sessions come to by kind of stream: films, channels, channels with low latency, and those that
/// do not say.
pub type ByStream = [(&'static str, Quality); 4];

impl Sessions {
    /// What all of them come to. O(sessions), for who asks for metrics.
    pub fn quality(&self, now: UnixMillis) -> ByStream {
        self.sums(now, 1, |_| Some(0)).into_iter().map(quality).next().unwrap_or_default()
    }

    /// What those of each of these sites come to, in their order. O(sessions).
    pub fn quality_of_sites(&self, sites: &[&str], now: UnixMillis) -> Vec<ByStream> {
        let places = self.places(sites);
        let sums = self.sums(now, sites.len(), |site| places.get(&site).copied());
        sums.into_iter().map(quality).collect()
    }

    /// Those of each of these sites, by the place of the site, `most` of all. O(sessions).
    pub fn list(&self, sites: &[&str], now: UnixMillis, most: usize) -> Vec<(usize, One)> {
        let places = self.places(sites);
        let mut all = Vec::new();
        self.each(now, |name, session| {
            if let Some(place) = places.get(&session.site)
                && all.len() < most
            {
                all.push((*place, one(name, session)));
            }
        });
        all
    }

    fn places(&self, sites: &[&str]) -> HashMap<u64, usize> {
        sites.iter().enumerate().map(|(place, site)| (self.site_hash(site), place)).collect()
    }

    /// What those of each network come to, by the number of its autonomous system as `AS64496`: of the
    /// `NETWORKS_MAX` with the most sessions, and of the `other` and the `unknown` ones. O(sessions).
    pub fn quality_by_network(&self, now: UnixMillis) -> Vec<(String, Quality)> {
        let mut by_number: HashMap<u32, Sum> = HashMap::new();
        self.each(now, |_, session| by_number.entry(session.network).or_default().add(session));
        let unknown = by_number.remove(&0);
        let mut known: Vec<_> = by_number.into_iter().collect();
        known.sort_unstable_by_key(|(number, sum)| (Reverse(sum.sessions), *number));
        let rest = known.split_off(known.len().min(NETWORKS_MAX));
        let other = rest.iter().map(|(_, sum)| *sum).reduce(Sum::and);
        let known = known.into_iter().map(|(number, sum)| (format!("AS{number}"), sum));
        let named = |name: &str, sum: Option<Sum>| sum.map(|sum| (name.to_owned(), sum));
        let all = known.chain(named("other", other)).chain(named("unknown", unknown));
        all.map(|(name, sum)| (name, sum.quality())).collect()
    }

    /// What those of each rendition come to, by the bit rate they ask for now: up to each of
    /// `RENDITIONS_KBPS`, above all of these, and of those that do not say. O(sessions).
    pub fn quality_by_rendition(&self, now: UnixMillis) -> [(&'static str, Quality); 8] {
        let mut sums = [Sum::default(); 8];
        self.each(now, |_, session| {
            let place = session.values.bitrate_kbps.map_or(RENDITIONS.len() - 1, |kbps| {
                RENDITIONS_KBPS.partition_point(|most| *most < kbps)
            });
            sums[place].add(session);
        });
        std::array::from_fn(|place| (RENDITIONS[place], sums[place].quality()))
    }

    /// Adds them up in `count` places.
    fn sums(
        &self,
        now: UnixMillis,
        count: usize,
        place_of: impl Fn(u64) -> Option<usize>,
    ) -> Vec<[Sum; 4]> {
        let mut sums = vec![[Sum::default(); 4]; count];
        self.each(now, |_, session| {
            if let Some(sums) = place_of(session.site).and_then(|at| sums.get_mut(at)) {
                sums[place(session.values.stream)].add(session);
            }
        });
        sums
    }
}

fn quality(sums: [Sum; 4]) -> ByStream {
    std::array::from_fn(|place| (STREAMS[place], sums[place].quality()))
}

fn one(name: u64, of: &Session) -> One {
    let said = &of.values;
    let heard_ms = of.heard_ms();
    One {
        name,
        stream: STREAMS[place(said.stream)],
        network: Some(of.network).filter(|number| *number > 0),
        first: of.first,
        last: of.last,
        starvations: of.starvations,
        starved_ms: Some(of.starved_ms).filter(|_| of.is_timed),
        bitrate_kbps: said.bitrate_kbps,
        buffer_ms: said.buffer_ms,
        latency_ms: said.latency_ms,
        start_up_ms: said.start_up_ms,
        body_bytes: of.body_bytes,
        delivered_kbps: (heard_ms > 0).then(|| kbps(of.body_bytes, heard_ms)),
    }
}

/// So many bytes in so many milliseconds.
fn kbps(bytes: u64, ms: u64) -> f64 {
    bytes as f64 * 8.0 / ms.max(1) as f64
}

fn place(stream: Option<Stream>) -> usize {
    match stream {
        Some(Stream::Vod) => 0,
        Some(Stream::Live) => 1,
        Some(Stream::LowLatency) => 2,
        None => 3,
    }
}

#[derive(Clone, Copy, Default)]
struct Sum {
    sessions: u64,
    starved: u64,
    starvations: u64,
    body_bytes: u64,
    /// Milliseconds that those who say it stood still, and that they were heard of.
    starved_ms: u64,
    heard_ms: u64,
    /// Bytes and milliseconds of those heard of for longer than a moment.
    delivered: (u64, u64),
    /// Sum and count of each of the means.
    means: [(u64, u64); 4],
}

impl Sum {
    fn add(&mut self, session: &Session) {
        self.sessions += 1;
        self.starved += u64::from(session.starvations > 0);
        self.starvations += u64::from(session.starvations);
        self.body_bytes = self.body_bytes.saturating_add(session.body_bytes);
        let heard_ms = session.heard_ms();
        if heard_ms > 0 {
            let (bytes, ms) = &mut self.delivered;
            *bytes = bytes.saturating_add(session.body_bytes);
            *ms = ms.saturating_add(heard_ms);
        }
        if session.is_timed {
            self.starved_ms = self.starved_ms.saturating_add(session.starved_ms.into());
            self.heard_ms = self.heard_ms.saturating_add(heard_ms.max(session.starved_ms.into()));
        }
        let said = &session.values;
        let values = [said.bitrate_kbps, said.buffer_ms, said.latency_ms, said.start_up_ms];
        for (mean, value) in self.means.iter_mut().zip(values) {
            if let Some(value) = value {
                *mean = (mean.0 + u64::from(value), mean.1 + 1);
            }
        }
    }

    fn and(self, other: Self) -> Self {
        let means = std::array::from_fn(|at| {
            let ((sum, count), (more, counted)) = (self.means[at], other.means[at]);
            (sum + more, count + counted)
        });
        Self {
            sessions: self.sessions + other.sessions,
            starved: self.starved + other.starved,
            starvations: self.starvations + other.starvations,
            body_bytes: self.body_bytes.saturating_add(other.body_bytes),
            starved_ms: self.starved_ms.saturating_add(other.starved_ms),
            heard_ms: self.heard_ms.saturating_add(other.heard_ms),
            delivered: (
                self.delivered.0.saturating_add(other.delivered.0),
                self.delivered.1.saturating_add(other.delivered.1),
            ),
            means,
        }
    }

    fn quality(&self) -> Quality {
        let [bitrate_kbps, buffer_ms, latency_ms, start_up_ms] =
            self.means.map(|(sum, count)| sum as f64 / count.max(1) as f64);
        let Self { sessions, starved, starvations, body_bytes, .. } = *self;
        Quality {
            sessions,
            starved,
            starvations,
            bitrate_kbps,
            buffer_ms,
            latency_ms,
            start_up_ms,
            starved_ratio: self.starved_ms as f64 / self.heard_ms.max(1) as f64,
            body_bytes,
            delivered_kbps: kbps(self.delivered.0, self.delivered.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn say(sessions: &Sessions, line: &str, network: Option<u32>) {
        let said = sessions.reported("tv", line).expect("it has a name");
        sessions.note(&said, 10, NOW, || network);
    }

    #[test]
    fn networks_are_told_apart_as_far_as_there_is_room() {
        let sessions = Sessions::default();
        say(&sessions, "sid=\"a\",bs,br=1000", Some(7));
        say(&sessions, "sid=\"b\",br=3000", Some(7));
        // A client that moves stays where it was first.
        say(&sessions, "sid=\"b\",br=3000", Some(8));
        say(&sessions, "sid=\"c\"", None);
        let names = |sessions: &Sessions| {
            let all = sessions.quality_by_network(NOW);
            all.into_iter().map(|(name, of)| (name, of.sessions)).collect::<Vec<_>>()
        };
        let of = |name: &str| {
            let all = sessions.quality_by_network(NOW);
            all.into_iter().find(|(of, _)| of == name).expect("it is there").1
        };
        assert_eq!(names(&sessions), [("AS7".to_owned(), 2), ("unknown".to_owned(), 1)]);
        let seven = of("AS7");
        assert_eq!((seven.starved, seven.bitrate_kbps, seven.body_bytes), (1, 2000.0, 30));
        for number in 100..100 + 2 * NETWORKS_MAX as u32 {
            say(&sessions, &format!("sid=\"{number}\",br=500"), Some(number));
        }
        let all = names(&sessions);
        assert_eq!(all.len(), NETWORKS_MAX + 2);
        assert_eq!(all[0], ("AS7".to_owned(), 2));
        assert_eq!(all[NETWORKS_MAX], ("other".to_owned(), NETWORKS_MAX as u64 + 1));
        assert_eq!(of("other").bitrate_kbps, 500.0);
        let later = NOW.plus(std::time::Duration::from_secs(61));
        assert_eq!(sessions.quality_by_network(later), []);
    }

    #[test]
    fn what_was_delivered_stands_beside_what_was_asked_for() {
        let sessions = Sessions::default();
        let say = |line: &str, bytes, seconds| {
            let said = sessions.said("tv", line);
            sessions
                .note(&said, bytes, NOW.plus(std::time::Duration::from_secs(seconds)), || Some(7));
        };
        say("sid=\"a\",br=3000,st=l", 1_000_000, 0);
        say("sid=\"a\",br=2000,bs", 1_500_000, 10);
        say("sid=\"b\",br=3000", 9_000_000, 0);
        let now = NOW.plus(std::time::Duration::from_secs(10));
        let [_, (_, live), _, (_, unknown)] = sessions.quality(now);
        assert_eq!((live.delivered_kbps, live.bitrate_kbps), (2000.0, 2000.0));
        assert_eq!(unknown.delivered_kbps, 0.0, "it was heard of once");
        let mut all = sessions.list(&["other", "tv"], now, 10);
        all.sort_unstable_by_key(|(_, one)| one.body_bytes);
        let [(1, a), (1, b)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((a.stream, a.starvations, a.starved_ms), ("live", 1, None));
        assert_eq!((a.delivered_kbps, a.network), (Some(2000.0), Some(7)));
        assert_eq!((b.delivered_kbps, b.stream), (None, "unknown"));
        assert_ne!(a.name, b.name);
        assert_eq!(sessions.list(&["tv"], now, 1).len(), 1);
        assert_eq!(sessions.list(&["other"], now, 10), []);
    }

    #[test]
    fn renditions_are_told_apart_by_what_is_asked_for_now() {
        let sessions = Sessions::default();
        for (line, network) in [
            ("sid=\"a\",br=400", None),
            ("sid=\"b\",br=401,bs", None),
            ("sid=\"b\",br=6000", None),
            ("sid=\"c\",br=99999", None),
            ("sid=\"d\",br=128,ot=a", None),
        ] {
            say(&sessions, line, network);
        }
        let all = sessions.quality_by_rendition(NOW);
        let heard = all.iter().filter(|(_, of)| of.sessions > 0);
        let heard: Vec<_> = heard.map(|(name, of)| (*name, of.sessions, of.starved)).collect();
        assert_eq!(heard, [("400", 1, 0), ("6400", 1, 1), ("more", 1, 0), ("unknown", 1, 0)]);
    }
}
