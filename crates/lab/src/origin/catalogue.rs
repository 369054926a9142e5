//! From a path to what it names, at a time.

use super::Settings;
use super::growth::{self, Parts};
use crate::calendar::TIMELINE_START;
use crate::ladder::{self, Rung};
use crate::manifest::{INIT, MANIFEST, MASTER, PLAYLIST, SEGMENT_SUFFIX, dash, hls};
use crate::media;
use crate::programme::{Availability, Edge, Kind, Programme, Schedule, parse_number};
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_base::units::parse_bytes;
use freshet_load::content::{Content, mix};
use freshet_media::mpd::time::instant_text;
use std::ops::Range;

/// The largest file to download: 1 TiB, more than any disk here holds.
const DOWNLOAD_BYTES_MAX: u64 = 1 << 40;

/// How long playlists of a channel may be kept. A playlist lives for a segment; one second of age costs
/// a viewer nothing, since players start three segments behind the newest.
const PLAYLIST_MAX_AGE_S: u64 = 1;
/// Target durations that what was waited for stays the answer to what named it: who comes late gets it from a cache
/// (Apple, "Reduce latency with HLS Blocking Playlist Reload", WWDC 2020).
const TARGETS_OF_WAITED_FOR: u64 = 6;

/// How long the page may be kept: browsers keep it too, and the next program may have another one.
const PAGE_MAX_AGE_S: u64 = 10;

/// How long things that never change may be kept.
pub(super) const STATIC_MAX_AGE_S: u64 = 86_400;

/// What a path names, before any of it is made.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) body: Body,
    pub(super) content_type: &'static str,
    /// Seconds; 0 means `no-store`.
    pub(super) max_age_s: u64,
    pub(super) etag: String,
    pub(super) modified: UnixMillis,
    /// The value of `Surrogate-Key`.
    pub(super) tags: String,
}

/// How to make the bytes.
#[derive(Debug)]
pub(super) enum Body {
    Bytes(Bytes),
    Segment {
        programme: Programme,
        rung: &'static Rung,
        number: u64,
        segment_ms: u64,
    },
    /// A segment in parts, or one of them.
    Parts(Parts),
    /// One that is being made.
    Growing(Parts),
    Download {
        bytes: u64,
        seed: u64,
    },
}

impl Body {
    pub(super) fn make(self) -> Content {
        match self {
            Self::Bytes(bytes) => Content::new(bytes, 0, 0),
            Self::Segment { programme, rung, number, segment_ms } => {
                media::segment(programme, rung, number, segment_ms)
            }
            Self::Parts(parts) | Self::Growing(parts) => parts.make(),
            Self::Download { bytes, seed } => Content::new("", bytes, seed),
        }
    }
}

/// Why there is nothing at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Missing {
    /// No such path, at any time.
    Unknown,
    /// A segment of the future.
    Early,
    /// A segment that has left.
    Gone,
}

/// What lies at `path` (no query) at `now`. Playlists of low latency look at the `query`.
pub(super) fn find(
    settings: &Settings,
    schedule: &Schedule,
    path: &str,
    query: &str,
    now: UnixMillis,
) -> Result<Resource, Missing> {
    let name = path.strip_prefix('/').ok_or(Missing::Unknown)?;
    if name.is_empty() {
        let page = super::page::index(settings);
        return Ok(text(path, page, "text/html; charset=utf-8", PAGE_MAX_AGE_S, "page"));
    }
    if let Some((content, content_type)) = super::page::file(path) {
        return Ok(text(path, content.to_owned(), content_type, PAGE_MAX_AGE_S, "page"));
    }
    if path == dash::TIME_PATH {
        let mut resource = text(path, instant_text(now), "text/plain; charset=utf-8", 0, "time");
        resource.modified = now;
        return Ok(resource);
    }
    let (first, rest) = name.split_once('/').ok_or(Missing::Unknown)?;
    if first == "download" {
        return download(path, rest);
    }
    if settings.any_channel
        && let Some(resource) = object(path)
    {
        return Ok(resource);
    }
    let programme = Programme::parse(first).ok_or(Missing::Unknown)?;
    let count = match programme.kind {
        Kind::Live => settings.channels,
        Kind::OnDemand => settings.titles,
    };
    if programme.number == 0 || programme.number > count {
        return Err(Missing::Unknown);
    }
    Place { programme, schedule, path, query, now }.find(rest)
}

/// A programme at a time, and the whole path that was asked for.
struct Place<'a> {
    programme: Programme,
    schedule: &'a Schedule,
    path: &'a str,
    query: &'a str,
    now: UnixMillis,
}

impl Place<'_> {
    fn find(&self, rest: &str) -> Result<Resource, Missing> {
        let kind = self.programme.kind;
        match rest {
            MASTER => {
                return Ok(self.manifest(hls::master(self.schedule), HLS_TYPE, STATIC_MAX_AGE_S));
            }
            MANIFEST => {
                let max_age_s = match kind {
                    Kind::Live => PLAYLIST_MAX_AGE_S,
                    Kind::OnDemand => STATIC_MAX_AGE_S,
                };
                let manifest = dash::manifest(kind, self.schedule);
                return Ok(self.manifest(manifest, "application/dash+xml", max_age_s));
            }
            _ => {}
        }
        let (rung, file) = rest.rsplit_once('/').ok_or(Missing::Unknown)?;
        let rung = ladder::find(rung).ok_or(Missing::Unknown)?;
        match file {
            PLAYLIST if rung.in_hls => Ok(self.playlist(rung)),
            INIT => Ok(self.init(rung)),
            _ => {
                if let Some((number, part)) = growth::parse_part(file) {
                    return self.part(rung, number, part);
                }
                let digits = file.strip_suffix(SEGMENT_SUFFIX).unwrap_or(file);
                self.segment(rung, parse_number(digits).ok_or(Missing::Unknown)?)
            }
        }
    }

    fn manifest(&self, content: String, content_type: &'static str, max_age_s: u64) -> Resource {
        text(self.path, content, content_type, max_age_s, &self.tags("manifest"))
    }

    fn playlist(&self, rung: &Rung) -> Resource {
        let kind = self.programme.kind;
        let skips = self.query.split('&').any(|one| one.starts_with("_HLS_skip="));
        let content = hls::playlist(kind, rung, self.schedule, self.now, skips);
        match kind {
            Kind::OnDemand => self.manifest(content, HLS_TYPE, STATIC_MAX_AGE_S),
            Kind::Live => {
                let end = self.schedule.listed(kind, self.now).end;
                let max_age_s = match growth::is_news(PLAYLIST, self.query) {
                    true => TARGETS_OF_WAITED_FOR * self.schedule.segment_ms.div_ceil(1000),
                    false => PLAYLIST_MAX_AGE_S,
                };
                let mut resource = self.manifest(content, HLS_TYPE, max_age_s);
                resource.modified = match self.schedule.edge(self.now) {
                    Some(edge) => self.schedule.parts_end(edge.parts),
                    None => self.schedule.live_start(end),
                };
                resource
            }
        }
    }

    fn init(&self, rung: &Rung) -> Resource {
        let body = Body::Bytes(media::init_segment(rung));
        self.media(rung, body, TIMELINE_START, STATIC_MAX_AGE_S, "init")
    }

    fn segment(&self, rung: &'static Rung, number: u64) -> Result<Resource, Missing> {
        let (kind, schedule) = (self.programme.kind, self.schedule);
        let edge = schedule.edge(self.now).filter(|_| kind == Kind::Live);
        let whole = |edge: Edge| self.parts(rung, edge, number, 0..edge.parts_of_segment);
        let body = match (schedule.availability(kind, number, self.now), edge) {
            (Availability::Ready, None) => {
                let segment_ms = schedule.segment_ms;
                Body::Segment { programme: self.programme, rung, number, segment_ms }
            }
            (Availability::Ready, Some(edge)) => Body::Parts(whole(edge)),
            (Availability::Early, Some(edge)) if number == edge.sequence() => {
                Body::Growing(whole(edge))
            }
            (Availability::Early, _) => return Err(Missing::Early),
            (Availability::Gone, _) => return Err(Missing::Gone),
        };
        Ok(self.numbered(rung, body, number, "segment"))
    }

    /// Part `part` of segment `number`.
    fn part(&self, rung: &'static Rung, number: u64, part: u64) -> Result<Resource, Missing> {
        let kind = self.programme.kind;
        let edge = self.schedule.edge(self.now).filter(|_| kind == Kind::Live);
        let edge = edge.filter(|edge| part < edge.parts_of_segment).ok_or(Missing::Unknown)?;
        if edge.upto(number, part) > edge.parts {
            return Err(Missing::Early);
        }
        if self.schedule.availability(kind, number, self.now) == Availability::Gone {
            return Err(Missing::Gone);
        }
        let body = Body::Parts(self.parts(rung, edge, number, part..part + 1));
        Ok(self.numbered(rung, body, number, "part"))
    }

    fn parts(&self, rung: &'static Rung, edge: Edge, number: u64, within: Range<u64>) -> Parts {
        Parts::of(self.programme, rung, *self.schedule, edge, (number, within))
    }

    /// A segment or a part of it.
    fn numbered(&self, rung: &'static Rung, body: Body, number: u64, role: &str) -> Resource {
        let (kind, schedule) = (self.programme.kind, self.schedule);
        let (modified, max_age_s) = match kind {
            Kind::OnDemand => (TIMELINE_START, STATIC_MAX_AGE_S),
            Kind::Live => {
                let kept_ms = schedule.kept_segments() * schedule.segment_ms;
                (schedule.live_start(number + 1), kept_ms.div_ceil(1000))
            }
        };
        self.media(rung, body, modified, max_age_s, role)
    }

    fn media(
        &self,
        rung: &Rung,
        body: Body,
        modified: UnixMillis,
        max_age_s: u64,
        role: &str,
    ) -> Resource {
        // The same number is another segment where segments have another length.
        let etag = etag(&[self.path.as_bytes(), &self.schedule.segment_ms.to_be_bytes()]);
        let content_type = if rung.is_video() { "video/mp4" } else { "audio/mp4" };
        Resource { body, content_type, max_age_s, etag, modified, tags: self.tags(role) }
    }

    /// Tags by programme, by kind and by role: what an operator would purge together.
    fn tags(&self, role: &str) -> String {
        let kind = match self.programme.kind {
            Kind::Live => "live",
            Kind::OnDemand => "vod",
        };
        format!("{} {kind} {role}", self.programme)
    }
}

const HLS_TYPE: &str = "application/vnd.apple.mpegurl";

fn text(
    path: &str,
    content: String,
    content_type: &'static str,
    max_age_s: u64,
    tags: &str,
) -> Resource {
    let etag = etag(&[path.as_bytes(), content.as_bytes()]);
    Resource {
        body: Body::Bytes(content.into()),
        content_type,
        max_age_s,
        etag,
        modified: TIMELINE_START,
        tags: tags.to_owned(),
    }
}

/// `SIZE/NAME`, with a size as people write it.
fn download(path: &str, rest: &str) -> Result<Resource, Missing> {
    let (size, name) = rest.split_once('/').ok_or(Missing::Unknown)?;
    let bytes = parse_bytes(size).map_err(|_| Missing::Unknown)?;
    if bytes > DOWNLOAD_BYTES_MAX || name.is_empty() || name.contains('/') {
        return Err(Missing::Unknown);
    }
    let seed = digest(&[path.as_bytes()]);
    Ok(Resource {
        body: Body::Download { bytes, seed },
        content_type: "application/octet-stream",
        max_age_s: STATIC_MAX_AGE_S,
        etag: etag(&[path.as_bytes()]),
        modified: TIMELINE_START,
        tags: "download".to_owned(),
    })
}

/// `…/variant01/hlsha/405KB/NUMBER`: bytes of the size of that object.
fn object(path: &str) -> Option<Resource> {
    let (before, number) = path.rsplit_once('/')?;
    parse_number(number)?;
    // The middle of such a path has three parts.
    let cut = before.rmatch_indices('/').nth(2)?.0;
    let rung = ladder::find(before.get(cut + 1..)?)?;
    let mut resource = download(path, &format!("{}/{number}", rung.segment_bytes)).ok()?;
    resource.content_type = if rung.is_video() { "video/mp4" } else { "audio/mp4" };
    Some(resource)
}

fn etag(parts: &[&[u8]]) -> String {
    format!("\"{:016x}\"", digest(parts))
}

/// 64 bits of `parts`, the same in every process; collisions are a nuisance here, not a danger.
fn digest(parts: &[&[u8]]) -> u64 {
    parts.iter().fold(0, |digest, part| {
        part.chunks(8).fold(mix(digest), |digest, chunk| {
            let word = chunk.iter().fold(1_u64, |word, byte| word << 8 | u64::from(*byte));
            mix(digest ^ word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Noon on a day of the year the timeline began.
    const NOW: UnixMillis = UnixMillis(TIMELINE_START.0 + 100 * 86_400_000 + 43_200_000);

    fn found(path: &str) -> Result<Resource, Missing> {
        let settings = Settings::default();
        find(&settings, &settings.schedule().unwrap(), path, "", NOW)
    }

    #[test]
    fn the_newest_segment_is_there_under_both_names_and_the_next_is_not_yet() {
        let newest = 100 * 14_400 + 7200 - 1;
        for suffix in ["", ".m4s"] {
            let path = format!("/channel-1/variant02/hlshv/4770KB/{newest}{suffix}");
            let resource = found(&path).unwrap();
            assert_eq!(resource.modified, NOW);
            assert_eq!(resource.max_age_s, 726);
            assert_eq!(resource.tags, "channel-1 live segment");
            assert_eq!(resource.body.make().len(), 4096 * 1024);
        }
        let path = |number| format!("/channel-1/variant02/hlshv/4770KB/{number}");
        assert_eq!(found(&path(newest + 1)).unwrap_err(), Missing::Early);
        assert_eq!(found(&path(newest - 121)).unwrap_err(), Missing::Gone);
    }

    #[test]
    fn playlists_are_short_lived_and_change_with_the_window() {
        let path = "/channel-4/variant01/hlsha/405KB/playlist.m3u8";
        let settings = Settings::default();
        let schedule = settings.schedule().unwrap();
        let asked =
            |query, ms| find(&settings, &schedule, path, query, UnixMillis(NOW.0 + ms)).unwrap();
        let at = |ms| asked("", ms);
        assert_eq!(at(0).max_age_s, 1);
        assert_eq!(asked("_HLS_msn=9&_HLS_part=1", 0).max_age_s, 36);
        assert_eq!(at(0).etag, at(5999).etag);
        assert_ne!(at(0).etag, at(6000).etag);
        assert_eq!(at(6000).modified, UnixMillis(NOW.0 + 6000));
    }

    #[test]
    fn a_segment_of_low_latency_is_its_parts_and_grows() {
        let part = Some(Duration::from_secs(2));
        let settings = Settings { part, ..Settings::default() };
        let schedule = settings.schedule().unwrap();
        let at = |file: &str, ms: u64| {
            let path = format!("/channel-1/variant01/dshmv/443KB/{file}");
            find(&settings, &schedule, &path, "", UnixMillis(NOW.0 + ms))
        };
        let number = 100 * 14_400 + 7200;
        let files = (0..3).map(|part| format!("{number}.{part}.m4s"));
        let parts: Vec<u8> =
            files.flat_map(|file| at(&file, 6000).unwrap().body.make().to_vec()).collect();
        let whole = at(&format!("{number}.m4s"), 6000).unwrap();
        assert!(matches!(whole.body, Body::Parts(_)));
        assert!(whole.body.make().to_vec() == parts);
        assert_eq!(parts.len(), 524_288);
        let growing = at(&format!("{number}.m4s"), 2000).unwrap();
        assert!(matches!(growing.body, Body::Growing(_)));
        assert_eq!(at(&format!("{number}.1.m4s"), 3999).unwrap_err(), Missing::Early);
        assert_eq!(at(&format!("{number}.3.m4s"), 9000).unwrap_err(), Missing::Unknown);
        assert_eq!(at(&format!("{}.m4s", number + 1), 2000).unwrap_err(), Missing::Early);
        let title = find(&settings, &schedule, "/vod-1/variant01/dshmv/443KB/3.0.m4s", "", NOW);
        assert_eq!(title.unwrap_err(), Missing::Unknown);
    }

    #[test]
    fn downloads_have_the_size_in_their_path() {
        let body = |path| found(path).unwrap().body.make();
        assert_eq!(body("/download/1.5GiB/a").len(), 1_610_612_736);
        let slice = |path| body(path).slice(0..100).to_vec();
        assert_ne!(slice("/download/1MB/a"), slice("/download/1MB/b"));
    }

    #[test]
    fn any_channel_has_the_eleven_objects_when_that_is_wanted() {
        let mut settings = Settings { any_channel: true, ..Settings::default() };
        let schedule = settings.schedule().unwrap();
        for (path, bytes) in [
            ("/channel-7777/variant01/hlsha/405KB/3", 384 * 1024),
            ("/x81j/channel-1/variant01/4K/15360KB/99", 12_000 * 1024),
        ] {
            let found = find(&settings, &schedule, path, "", NOW).unwrap();
            assert_eq!(found.max_age_s, STATIC_MAX_AGE_S);
            assert_eq!(found.body.make().len(), bytes);
        }
        settings.any_channel = false;
        let gone = find(&settings, &schedule, "/channel-7/variant01/hlsha/405KB/3", "", NOW);
        assert_eq!(gone.map(|_| ()), Err(Missing::Unknown));
    }

    #[test]
    fn other_paths_name_nothing() {
        for path in [
            "",
            "//",
            "/channel-0/master.m3u8",
            "/channel-5/master.m3u8",
            "/vod-13/master.m3u8",
            "/channel-1/variant02/hlshv/4770KB/playlist.m3u",
            "/channel-1/variant02/dshhv/2418KB/playlist.m3u8",
            "/channel-1/variant02/hlshv/4770KB/01",
            "/vod-1/variant02/hlshv/4770KB/",
            "/download/9999TB/a",
            "/download/1MB/",
        ] {
            assert_eq!(found(path).map(|_| ()), Err(Missing::Unknown), "{path}");
        }
        let gone = found("/vod-1/variant02/hlshv/4770KB/100").map(|_| ());
        assert_eq!(gone, Err(Missing::Gone));
    }
}
