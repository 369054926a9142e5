//! Hours of live channels beside films, in virtual time: what is decided about them, with a real cache.
//!
//! Of the channels two are HLS; one is DASH with a timeline, and one by the clock that can be seen from its start.
//! A world is made of a seed. Viewers of channels read playlists and fetch what is new, and change channels at
//! times; films are watched by their popularity, and left at times. The origin says an hour of everything but
//! live playlists, as packagers do. `FRESHET_HOURS` and `FRESHET_SEEDS` make it longer; see `bench/media/day`.

use super::*;
use freshet_cache::{Cache, Lookup, Object, ObjectSpec, Selecting, Settings, StoredHead, Use};
use freshet_http::freshness::Reuse;
use freshet_http::message::RequestHead;
use freshet_media::Kind;
use freshet_store::{Arena, Body};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::task::{Context, Poll, Waker};

const CHANNELS: u64 = 4;
const VIEWERS: u64 = 24;
const FILMS: usize = 300;
const FILM_SEGMENTS: u64 = 60;
const SEGMENT_BYTES: usize = 8 << 10;
const MEMORY_BYTES: u64 = 48 << 20;
const TARGET_MS: u64 = 2000;
const WINDOW: u64 = 15;
/// How much earlier each channel has its segments than the one before.
const STEP_MS: u64 = 400;

/// What comes next at a time: a viewer of a channel looks for news, a film is begun or goes on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Look {
        viewer: usize,
    },
    Begin,
    Watch {
        film: usize,
        segment: u64,
    },
    /// It is looked whether a quality of DASH, by its place among those that are followed, goes on.
    Follow {
        place: usize,
    },
}

/// What a world is.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    hours: u64,
    /// Whether there are channels.
    has_live: bool,
    /// Whether manifests are read.
    reads: bool,
    /// Whether what comes next is fetched before it is asked for.
    goes_ahead: bool,
    /// How many of a thousand viewers of a film leave it with each segment.
    leaving: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    film_requests: u64,
    film_hits: u64,
    /// Requests for segments of films that waited for the origin, and what it was asked for.
    film_segments: u64,
    film_waits: u64,
    film_fetches: u64,
    live_requests: u64,
    /// Requests for live segments that waited for the origin.
    live_waits: u64,
    /// Live segments the origin was asked for, and how many of them nobody asked the node for.
    live_fetches: u64,
    /// Bytes that may go to disks.
    live_disk_bytes: u64,
    film_disk_bytes: u64,
}

impl Figures {
    fn film_hit_share(&self) -> f64 {
        self.film_hits as f64 / self.film_requests.max(1) as f64
    }

    fn film_wait_share(&self) -> f64 {
        self.film_waits as f64 / self.film_segments.max(1) as f64
    }

    fn wait_share(&self) -> f64 {
        self.live_waits as f64 / self.live_requests.max(1) as f64
    }
}

type LookUp =
    fn(&Arc<Cache>, &Key, &dyn Selecting, UnixMillis, &mut dyn FnMut(&Object) -> Use) -> Lookup;

struct Viewer {
    channel: u64,
    /// The number after that of the last segment it has.
    next: u64,
}

struct World {
    plan: Plan,
    random: Random,
    /// What films are chosen by, so that they are the same whatever is beside them.
    taste: Random,
    now: UnixMillis,
    cache: Arc<Cache>,
    channels: Channels,
    films: Films,
    viewers: Vec<Viewer>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// One past the newest segment of the playlist that is stored for a channel.
    stored_ends: HashMap<u64, u64>,
    /// Templates of the qualities of DASH that are followed.
    followed: Vec<Box<str>>,
    /// What leaves at a time.
    leaving: BTreeMap<(u64, u64), Arc<Object>>,
    popularity: Vec<f64>,
    figures: Figures,
}

impl World {
    fn new(plan: Plan) -> Self {
        let arena = Arena::new(MEMORY_BYTES).expect("the limit is large enough");
        let cache = Cache::new(arena, Secret::from_bytes([1; 16]), Settings::default());
        let mut random = Random(plan.seed);
        let mut events = BinaryHeap::new();
        let viewers = if plan.has_live { VIEWERS } else { 0 };
        let viewers: Vec<_> =
            (0..viewers).map(|_| Viewer { channel: random.below(CHANNELS), next: 0 }).collect();
        for viewer in 0..viewers.len() {
            events.push(Reverse((NOW.0 + random.below(TARGET_MS), Event::Look { viewer })));
        }
        events.push(Reverse((NOW.0, Event::Begin)));
        let mut sum = 0.0;
        let popularity = (1..=FILMS).map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        });
        Self {
            plan,
            now: NOW,
            cache: cache.expect("the settings are sound"),
            channels: Channels::default(),
            films: Films::default(),
            viewers,
            events,
            stored_ends: HashMap::new(),
            followed: Vec::new(),
            leaving: BTreeMap::new(),
            popularity: popularity.collect(),
            figures: Figures::default(),
            random,
            taste: Random(!plan.seed),
        }
    }

    fn run(mut self) -> Figures {
        let end = NOW.0 + self.plan.hours * 3_600_000;
        while let Some(Reverse((at, event))) = self.events.pop().filter(|event| event.0.0 < end) {
            self.now = UnixMillis(at);
            while let Some(entry) = self.leaving.first_entry().filter(|entry| entry.key().0 <= at) {
                self.cache.forget(&entry.remove());
            }
            let next = match event {
                Event::Look { viewer } => Some((self.look(viewer), event)),
                Event::Begin => {
                    let film = self.choose();
                    self.film(&format!("/film/{film}/v.m3u8"));
                    self.film(&format!("/film/{film}/init.mp4"));
                    self.later(0, Event::Watch { film, segment: 0 });
                    Some((self.taste.below(6000), Event::Begin))
                }
                Event::Watch { film, segment } => {
                    self.film(&format!("/film/{film}/{segment}.m4s"));
                    let segment = segment + 1;
                    let goes_on =
                        segment < FILM_SEGMENTS && self.taste.below(1000) >= self.plan.leaving;
                    goes_on.then_some((4000, Event::Watch { film, segment }))
                }
                Event::Follow { place } => Some((self.follow(place), event)),
            };
            if let Some((ms, event)) = next {
                self.later(ms, event);
            }
        }
        self.figures
    }

    fn later(&mut self, ms: u64, event: Event) {
        self.events.push(Reverse((self.now.0 + ms, event)));
    }

    /// A film, by how popular they are.
    fn choose(&mut self) -> usize {
        let all = self.popularity.last().copied().unwrap_or(0.0);
        let at = all * self.taste.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        self.popularity.partition_point(|sum| *sum <= at)
    }

    fn film(&mut self, target: &str) {
        let is_hit = self.ask(target);
        self.figures.film_requests += 1;
        self.figures.film_hits += u64::from(is_hit);
        if target.ends_with(".m4s") {
            self.figures.film_segments += 1;
            self.figures.film_waits += u64::from(!is_hit);
        }
        if self.plan.goes_ahead {
            for wanted in self.films.after(&key(target), 0, self.now) {
                self.foresee(&wanted.target);
            }
        }
    }

    /// A viewer reads its playlist and fetches what is new; when it looks again, in milliseconds.
    fn look(&mut self, viewer: usize) -> u64 {
        if self.random.below(300) == 0 {
            self.viewers[viewer] = Viewer { channel: self.random.below(CHANNELS), next: 0 };
        }
        let Viewer { channel, next } = self.viewers[viewer];
        self.ask(&format!("/live/{channel}/{}", if channel < 2 { "v.m3u8" } else { "v.mpd" }));
        let end = self.end_for_players(channel);
        for number in next.max(end.saturating_sub(3))..end {
            let is_hit = self.ask(&format!("/live/{channel}/{number}.m4s"));
            self.figures.live_requests += 1;
            self.figures.live_waits += u64::from(!is_hit);
        }
        self.viewers[viewer].next = end;
        if next == end { TARGET_MS / 2 } else { TARGET_MS }
    }

    /// One past the newest segment that players of a channel ask for. Those of DASH keep a segment's delay.
    fn end_for_players(&self, channel: u64) -> u64 {
        match channel {
            0 | 1 => self.stored_ends[&channel],
            _ if is_by_clock(channel) => self.end(channel) - 1,
            _ => self.stored_ends[&channel] - 1,
        }
    }

    /// One past the newest segment of a channel. Channels do not have their segments at the same moment.
    fn end(&self, channel: u64) -> u64 {
        (self.now.0 - NOW.0 + channel * STEP_MS) / TARGET_MS + WINDOW
    }

    /// Makes sure of the next segment of a quality of DASH, where the one before was asked for; when it is looked
    /// again, in milliseconds.
    fn follow(&mut self, place: usize) -> u64 {
        let coming = self.channels.coming(&self.followed[place]).expect("channels go on");
        let is_taken = coming.before.is_none_or(|text| {
            let known = self.cache.peek(&key(target_of(&text))).variants;
            known.iter().any(|object| object.hits() > 0)
        });
        if let Some((value, text, at)) = coming.next.filter(|_| is_taken) {
            if at > self.now {
                return at.0 - self.now.0;
            }
            self.foresee(target_of(&text));
            self.channels.advance(&self.followed[place], value);
        }
        TARGET_MS / 8
    }

    /// A request to the node; whether it has it.
    fn ask(&mut self, target: &str) -> bool {
        self.look_up(target, Cache::lookup)
    }

    /// Has the node make sure of what is asked for next.
    fn foresee(&mut self, target: &str) {
        self.look_up(target, Cache::lookup_ahead);
    }

    fn look_up(&mut self, target: &str, look_up: LookUp) -> bool {
        let (now, key) = (self.now, key(target));
        let classify = &mut |object: &Object| match object.reuse(now) {
            Reuse::Fresh => Use::Serve,
            _ => Use::Validate,
        };
        match look_up(&self.cache, &key, &RequestHead::default(), now, classify) {
            Lookup::Hit { .. } => true,
            Lookup::Miss { ticket, .. } => {
                let (mut answer, bytes, new) = self.fetch(target);
                if self.plan.reads {
                    advised(&self.channels, target, &mut answer, now);
                }
                let head = stored_head(&answer);
                let leaves = answer.keep.map(|keep| head.freshness.lifetime() + keep);
                let spec = ObjectSpec {
                    head,
                    body: self.body(bytes),
                    variation: None,
                    tags: Box::default(),
                    objective: None,
                };
                let object = ticket.insert(spec);
                if let Some(span) = leaves {
                    self.leaving.insert((now.plus(span).0, object.id()), object);
                }
                if answer.storage == Storage::Configured {
                    let is_live = target.starts_with("/live/");
                    let figures = &mut self.figures;
                    let written = if is_live {
                        &mut figures.live_disk_bytes
                    } else {
                        &mut figures.film_disk_bytes
                    };
                    *written += bytes as u64;
                }
                if let Some(newest) = new.filter(|_| self.plan.goes_ahead) {
                    self.foresee(&newest);
                }
                if self.plan.goes_ahead
                    && let Some(template) = self.channels.note_front(&key)
                {
                    self.later(0, Event::Follow { place: self.followed.len() });
                    self.followed.push(template);
                }
                false
            }
            other => panic!("nobody else fetches {target}: {other:?}"),
        }
    }

    /// What the origin says, how large it is, and the newest segment that a playlist has since the last.
    fn fetch(&mut self, target: &str) -> (Answer, usize, Option<String>) {
        let mut parts = target.split('/').skip(1);
        let (kind, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let channel: u64 = number.parse().expect("it has a number");
        let is_live = kind == "live";
        if target.ends_with(".m4s") || target.ends_with(".mp4") {
            self.figures.live_fetches += u64::from(is_live);
            self.figures.film_fetches += u64::from(!is_live);
            return (self.answer(3600), SEGMENT_BYTES, None);
        }
        if !is_live {
            let text =
                playlist(0, FILM_SEGMENTS, "#EXT-X-PLAYLIST-TYPE:VOD\n") + "#EXT-X-ENDLIST\n";
            self.note(target, &text);
            if self.plan.goes_ahead {
                let manifest = read(Format::Hls, text.as_bytes()).expect("it is a manifest");
                for wanted in self.films.note(opened(target, &manifest, &text), self.now) {
                    self.foresee(&wanted.target);
                }
            }
            return (self.answer(3600), text.len(), None);
        }
        let end = self.end(channel);
        self.stored_ends.insert(channel, end);
        let text = match channel {
            0 | 1 => playlist(end - WINDOW, WINDOW, ""),
            _ => presentation(channel, end),
        };
        let newest = self.note(target, &text);
        (self.answer(1), text.len(), newest)
    }

    fn answer(&self, seconds: u64) -> Answer {
        let mut answer = answer(200, seconds);
        answer.freshness.received = self.now;
        answer
    }

    /// Reads a manifest as the node does; the newest segment it names for the first time.
    fn note(&self, target: &str, text: &str) -> Option<String> {
        if !self.plan.reads {
            return None;
        }
        let format = if target.ends_with(".mpd") { Format::Mpd } else { Format::Hls };
        let manifest = read(format, text.as_bytes()).expect("it is a manifest");
        let new = note_read(&self.channels, target, &manifest, text, self.now);
        let mut segments = new.iter().filter_map(|at| manifest.names.get(*at));
        let newest = segments.rfind(|name| name.kind == Kind::Segment)?;
        let reference = manifest.reference(newest, text.as_bytes());
        target::resolve("tv", target, reference).map(|(_, target)| target)
    }

    fn body(&self, bytes: usize) -> Arc<Body> {
        let body = Body::new(self.cache.arena(), Some(bytes as u64));
        let mut writer = body.writer(0, None);
        let mut left = bytes;
        while left > 0 {
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(Ok(room)) = writer.poll_reserve(&mut context, left) else {
                panic!("nothing can be evicted")
            };
            let length = room.len().min(left);
            room[..length].fill(0);
            writer.commit(length);
            left -= length;
        }
        writer.finish().expect("all was written");
        body
    }
}

/// Whether the players of a channel count by the clock.
fn is_by_clock(channel: u64) -> bool {
    channel == 3
}

/// The MPD of a channel, one past whose newest segment is `end`.
fn presentation(channel: u64, end: u64) -> String {
    // One of a timeline has the window of playlists, and one by the clock all that there ever was.
    let (depth, template) = if is_by_clock(channel) {
        let early = channel as f64 * STEP_MS as f64 / 1000.0;
        let early =
            format!("startNumber='{WINDOW}' duration='2' availabilityTimeOffset='{early}'>");
        ("availabilityStartTime='2027-01-15T08:00:00Z'", early)
    } else {
        let (first, more) = (end - WINDOW, WINDOW - 1);
        let start = first * TARGET_MS / 1000;
        let timeline =
            format!("<SegmentTimeline><S t='{start}' d='2' r='{more}'/></SegmentTimeline>");
        ("timeShiftBufferDepth='PT30S'", format!("startNumber='{first}'>{timeline}"))
    };
    format!(
        "<MPD type='dynamic' {depth}><Period><AdaptationSet><SegmentTemplate \
         media='$Number$.m4s' {template}</SegmentTemplate><Representation id='v'/></AdaptationSet>\
         </Period></MPD>"
    )
}

/// The target in the text of a key.
fn target_of(text: &str) -> &str {
    text.rsplit('\0').next().expect("it has one")
}

/// A film's playlist as the node takes it over.
fn opened(target: &str, manifest: &Manifest, text: &str) -> Opened {
    let pieces = manifest.names.iter().map(|name| {
        let reference = manifest.reference(name, text.as_bytes());
        let (_, target) = target::resolve("tv", target, reference).expect("it is a reference");
        let wanted = Wanted { target, range: name.range.clone() };
        Piece { key: key(&wanted.target), wanted, kind: name.kind, sequence: name.sequence }
    });
    Opened { id: key(target), pieces: pieces.collect(), tracks: Vec::new(), is_of_all: false }
}

fn stored_head(answer: &Answer) -> StoredHead {
    StoredHead::new(200, Default::default(), answer.freshness.clone())
}

/// Numbers that follow from a seed (SplitMix64).
struct Random(u64);

impl Random {
    /// One of `0..end`; `end` > 0.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let n = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (n ^ (n >> 31)) % end
    }
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("it is a number"))
}

#[test]
fn live_beside_films_writes_nothing_and_costs_films_little() {
    let hours = setting("FRESHET_HOURS", 1);
    for seed in 1..=setting("FRESHET_SEEDS", 2) {
        let all = Plan { seed, hours, has_live: true, reads: true, goes_ahead: true, leaving: 30 };
        let [films, unread, waiting, read] = [
            Plan { has_live: false, ..all },
            Plan { reads: false, goes_ahead: false, ..all },
            Plan { goes_ahead: false, ..all },
            all,
        ]
        .map(|plan| World::new(plan).run());
        println!("seed {seed}, {hours} h");
        for (name, of) in [
            ("films only", films),
            ("not read", unread),
            ("read", waiting),
            ("fetched ahead", read),
        ] {
            println!(
                "{name:14} films {:6} {:6.2} % hits, {:5} MB to disks; live {:7} {:5.2} % wait, {:6} \
                 at the origin, {:5} MB to disks",
                of.film_requests,
                of.film_hit_share() * 100.0,
                of.film_disk_bytes >> 20,
                of.live_requests,
                of.wait_share() * 100.0,
                of.live_fetches,
                of.live_disk_bytes >> 20,
            );
        }
        assert!(unread.live_disk_bytes > 0, "{unread:?}");
        assert_eq!((read.live_disk_bytes, waiting.live_disk_bytes), (0, 0), "{read:?}");
        assert!(read.film_disk_bytes > 0, "{read:?}");
        assert!(read.wait_share() <= 0.02 && waiting.wait_share() > 0.02, "{read:?} {waiting:?}");
        let more = read.live_fetches as f64 / waiting.live_fetches as f64;
        assert!(more <= 1.01, "{more}");
        let lost = films.film_hit_share() - read.film_hit_share();
        assert!(lost <= 0.005, "{lost}: {films:?} {read:?}");
    }
}

#[test]
fn films_wait_for_little_and_cost_their_origin_no_more() {
    let hours = setting("FRESHET_HOURS", 1);
    // Who leaves sooner has more fetched that nobody takes.
    for (leaving, origin_share_max) in [(30, 1.05), (3, 1.01)] {
        for seed in 1..=setting("FRESHET_SEEDS", 2) {
            let ahead =
                Plan { seed, hours, has_live: false, reads: true, goes_ahead: true, leaving };
            let [without, with] =
                [Plan { goes_ahead: false, ..ahead }, ahead].map(|plan| World::new(plan).run());
            let share = with.film_fetches as f64 / without.film_fetches as f64;
            println!(
                "films, seed {seed}, {leaving} of a thousand leave with a segment: {:.2} % wait, {:.2} % \
                 fetched ahead; {:+.2} % at the origin",
                without.film_wait_share() * 100.0,
                with.film_wait_share() * 100.0,
                share * 100.0 - 100.0,
            );
            assert!(without.film_wait_share() > 0.02, "{without:?}");
            assert!(with.film_wait_share() <= 0.02, "{with:?}");
            assert!(share <= origin_share_max, "{share}: {without:?} {with:?}");
        }
    }
}
