//! What a player fetches next, for both formats.

use super::client::{Client, Fault};
use super::dash::{self, Live, Representation};
use super::low_latency::{self, Position};
use super::{Format, Quality, Viewing, uri};
use freshet_base::clock::UnixMillis;
use freshet_media::hls::{self, Multivariant, Part, Playlist};
use std::time::Duration;
use tokio::time::Instant;

/// How many segments before the newest a player of a channel starts (RFC 8216 §6.3.3).
const START_SEGMENTS: u64 = 3;

/// The shortest wait for a segment that is not there yet.
const WAIT_MIN: Duration = Duration::from_millis(10);

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Fetch these segments or parts, one per track.
    Fetch(Piece),
    /// Ask again after this time: the channel has no more yet.
    Wait(Duration),
    /// The title is over.
    End,
}

/// What is fetched and played as one.
#[derive(Debug, PartialEq)]
pub(super) struct Piece {
    /// One path per track.
    pub(super) paths: Vec<String>,
    /// How long it plays.
    pub(super) duration: Duration,
    /// When it ends on the clock, where it is of a channel that says so.
    pub(super) end: Option<UnixMillis>,
    /// Whether it was waited for: the newest there is.
    pub(super) is_newest: bool,
    /// How long each of the chunks of pictures is, where it may be asked for while it is being made.
    pub(super) chunk: Option<Duration>,
    /// The reference of the pictures that follow, where they are known.
    pub(super) next: Option<String>,
}

/// A programme that is open.
#[derive(Debug)]
pub(super) enum Source {
    Hls(Hls),
    Dash(Dash),
}

impl Source {
    /// Reads the manifests of `viewing` and the track headers they name. `choice` picks among
    /// qualities where `quality` leaves it open.
    pub(super) async fn open(
        client: &mut Client,
        viewing: &Viewing,
        quality: Quality,
        choice: u64,
    ) -> Result<Self, Fault> {
        match viewing.format {
            Format::Hls => Hls::open(client, &viewing.path, quality, choice).await.map(Self::Hls),
            Format::Dash => {
                Dash::open(client, &viewing.path, quality, choice).await.map(Self::Dash)
            }
        }
    }

    /// Bit rates of the pictures that there are, ascending.
    pub(super) fn bandwidths(&self) -> &[u64] {
        match self {
            Self::Hls(hls) => &hls.bandwidths,
            Self::Dash(dash) => &dash.bandwidths,
        }
    }

    /// Whether it is a channel.
    pub(super) fn is_live(&self) -> bool {
        match self {
            Self::Hls(hls) => hls.tracks.iter().any(|track| !track.playlist.ended),
            Self::Dash(dash) => dash.live.is_some(),
        }
    }

    /// The bit rate that is played.
    pub(super) fn bandwidth(&self) -> u64 {
        let playing = match self {
            Self::Hls(hls) => hls.playing,
            Self::Dash(dash) => dash.playing,
        };
        self.bandwidths().get(playing).copied().unwrap_or(0)
    }

    /// Goes on with another of [`Source::bandwidths`]; whether that is a change.
    pub(super) async fn switch(&mut self, client: &mut Client, to: usize) -> Result<bool, Fault> {
        match self {
            Self::Hls(hls) => hls.switch(client, to).await,
            Self::Dash(dash) => dash.switch(client, to).await,
        }
    }

    /// What comes next; reads manifests anew where that is due.
    pub(super) async fn next(&mut self, client: &mut Client) -> Result<Next, Fault> {
        match self {
            Self::Hls(hls) => hls.next(client).await,
            Self::Dash(dash) => dash.next(client).await,
        }
    }
}

/// Picks one of `items`, which `bandwidth` orders; `None` when there are none.
fn pick<T>(
    items: impl Iterator<Item = T>,
    bandwidth: impl Fn(&T) -> u64,
    quality: Quality,
    choice: u64,
) -> Option<T> {
    let mut items: Vec<T> = items.collect();
    items.sort_by_key(bandwidth);
    let last = items.len().checked_sub(1)?;
    let index = match quality {
        Quality::Any => (choice % items.len() as u64) as usize,
        Quality::Lowest | Quality::Adaptive => 0,
        Quality::Highest => last,
    };
    Some(items.swap_remove(index))
}

fn resolve(client: &Client, base: &str, reference: &str) -> Result<String, Fault> {
    uri::resolve(client.authority(), base, reference).ok_or(Fault::Manifest)
}

/// An HLS programme: a playlist per track.
#[derive(Debug)]
pub(super) struct Hls {
    path: String,
    tracks: Vec<Track>,
    /// Qualities by ascending bit rate, and which of them is played.
    variants: Vec<hls::Variant>,
    bandwidths: Vec<u64>,
    playing: usize,
}

#[derive(Debug)]
struct Track {
    path: String,
    playlist: Playlist,
    loaded: Instant,
    /// The number of the segment to fetch next.
    next: u64,
    /// Where it is in the parts of a channel of low latency; `None` of others.
    parts: Option<Position>,
}

impl Track {
    /// Reads the playlist at `reference` and the track header it names.
    async fn open(client: &mut Client, base: &str, reference: &str) -> Result<Self, Fault> {
        let path = resolve(client, base, reference)?;
        let playlist = Playlist::read(&client.manifest(&path).await?)?;
        if let Some(map) = &playlist.map {
            let map = resolve(client, &path, map)?;
            client.discard(&map).await?;
        }
        let parts = Position::first(&playlist);
        let next = match playlist.ended {
            true => playlist.first,
            false => playlist.end().saturating_sub(START_SEGMENTS).max(playlist.first),
        };
        Ok(Self { path, playlist, loaded: Instant::now(), next, parts })
    }

    /// The next part of a channel of low latency, and whether it was waited for; `None` where there
    /// still is none.
    async fn next_part(&mut self, client: &mut Client) -> Result<Option<(Part, bool)>, Fault> {
        let Some(position) = &mut self.parts else { return Ok(None) };
        let mut is_newest = false;
        if position.after(&self.playlist).is_none() {
            // The server answers when it has what comes next.
            let path = format!("{}?{}", self.path, low_latency::directives(&self.playlist));
            self.playlist = Playlist::read(&client.manifest(&path).await?)?;
            is_newest = true;
        }
        let Some(part) = position.after(&self.playlist).cloned() else { return Ok(None) };
        position.take(&part);
        Ok(Some((part, is_newest)))
    }
}

impl Hls {
    async fn open(
        client: &mut Client,
        path: &str,
        quality: Quality,
        choice: u64,
    ) -> Result<Self, Fault> {
        let master = Multivariant::read(&client.manifest(path).await?)?;
        let mut variants = master.variants;
        variants.sort_by_key(|variant| variant.bandwidth);
        let playing =
            pick(0..variants.len(), |at| *at as u64, quality, choice).ok_or(Fault::Manifest)?;
        let variant = variants.get(playing).cloned().ok_or(Fault::Manifest)?;
        let sound = master
            .sounds
            .into_iter()
            .find(|(group, _)| variant.sound_group.as_ref() == Some(group));
        let mut tracks = Vec::new();
        for reference in [variant.uri].into_iter().chain(sound.map(|(_, uri)| uri)) {
            let mut track = Track::open(client, path, &reference).await?;
            // Parts of sound last a little longer or shorter, and all tracks begin with the same.
            let first = tracks.first().and_then(|first: &Track| first.parts);
            track.parts = first.filter(|_| track.parts.is_some()).or(track.parts);
            tracks.push(track);
        }
        let bandwidths = variants.iter().map(|variant| variant.bandwidth).collect();
        Ok(Self { path: path.to_owned(), tracks, variants, bandwidths, playing })
    }

    async fn switch(&mut self, client: &mut Client, to: usize) -> Result<bool, Fault> {
        if to == self.playing {
            return Ok(false);
        }
        let (Some(variant), Some(track)) = (self.variants.get(to), self.tracks.first_mut()) else {
            return Ok(false);
        };
        let opened = Track::open(client, &self.path, &variant.uri).await?;
        // Qualities of a programme have the same numbers for the same time.
        *track = Track { next: track.next, parts: track.parts, ..opened };
        self.playing = to;
        Ok(true)
    }

    /// The next parts of all tracks, which have the same numbers for the same time.
    async fn next_parts(&mut self, client: &mut Client) -> Result<Next, Fault> {
        let mut piece: Option<Piece> = None;
        for track in &mut self.tracks {
            let Some((part, is_newest)) = track.next_part(client).await? else {
                return Ok(Next::Wait(WAIT_MIN));
            };
            let path = resolve(client, &track.path, &part.media.uri)?;
            let (duration, end) = (part.media.duration, part.media.end);
            let first =
                || Piece { paths: Vec::new(), duration, end, is_newest, chunk: None, next: None };
            piece.get_or_insert_with(first).paths.push(path);
        }
        piece.map(Next::Fetch).ok_or(Fault::Manifest)
    }

    async fn next(&mut self, client: &mut Client) -> Result<Next, Fault> {
        if !self.tracks.is_empty() && self.tracks.iter().all(|track| track.parts.is_some()) {
            return self.next_parts(client).await;
        }
        let mut paths = Vec::with_capacity(self.tracks.len());
        let mut first = None;
        for track in &mut self.tracks {
            if track.playlist.segment(track.next).is_none() {
                if track.playlist.ended {
                    return Ok(Next::End);
                }
                // A playlist without news is read again after half its target, §6.3.4.
                let due = track.loaded + track.playlist.target / 2;
                let now = Instant::now();
                if now < due {
                    return Ok(Next::Wait(due - now));
                }
                track.playlist = Playlist::read(&client.manifest(&track.path).await?)?;
                track.loaded = Instant::now();
                // Whoever fell out of the window goes on where it begins now.
                track.next = track.next.max(track.playlist.first);
            }
            let Some(segment) = track.playlist.segment(track.next) else {
                return Ok(Next::Wait(WAIT_MIN));
            };
            paths.push(resolve(client, &track.path, &segment.uri)?);
            first.get_or_insert((segment.duration, segment.end));
        }
        for track in &mut self.tracks {
            track.next += 1;
        }
        let (duration, end) = first.ok_or(Fault::Manifest)?;
        let pictures = self.tracks.first();
        let next = pictures.and_then(|track| track.playlist.segment(track.next));
        let next = next.map(|segment| segment.uri.clone());
        Ok(Next::Fetch(Piece { paths, duration, end, is_newest: false, chunk: None, next }))
    }
}

/// A DASH programme: a manifest, and a number that counts up.
#[derive(Debug)]
pub(super) struct Dash {
    path: String,
    live: Option<Live>,
    /// Segments of a title; unknown for a channel.
    count: Option<u64>,
    chosen: Vec<Representation>,
    /// Pictures by ascending bit rate, and which of them are played.
    pictures: Vec<Representation>,
    bandwidths: Vec<u64>,
    playing: usize,
    loaded: Instant,
    /// Segments from the start of the period to the one to fetch next.
    next: u64,
    /// Whether it was not there yet when it was wanted.
    has_waited: bool,
}

impl Dash {
    async fn open(
        client: &mut Client,
        path: &str,
        quality: Quality,
        choice: u64,
    ) -> Result<Self, Fault> {
        let presentation = dash::read(&client.manifest(path).await?)?;
        let (mut pictures, sound): (Vec<_>, Vec<_>) =
            presentation.representations.into_iter().partition(|track| track.is_video);
        pictures.sort_by_key(|track| track.bandwidth);
        let playing = pick(0..pictures.len(), |at| *at as u64, quality, choice).unwrap_or(0);
        let sound = pick(sound.into_iter(), |track| track.bandwidth, quality, choice);
        let chosen: Vec<Representation> =
            pictures.get(playing).cloned().into_iter().chain(sound).collect();
        let segment = chosen.first().and_then(|track| track.duration(0)).ok_or(Fault::Manifest)?;
        // One number is counted for all tracks, which is right where their segments are about as long.
        let differs = |duration: Duration| duration.abs_diff(segment) > segment / 2;
        if chosen.iter().any(|track| track.duration(0).is_none_or(differs)) {
            return Err(Fault::Manifest);
        }
        for track in &chosen {
            let path = resolve(client, path, &track.initialization)?;
            client.discard(&path).await?;
        }
        let segment_ms = (segment.as_millis() as u64).max(1);
        let count = presentation
            .length
            .map(|length| length.as_millis() as u64)
            .map(|length_ms| length_ms.div_ceil(segment_ms));
        let early = chosen.first().map_or(Duration::ZERO, Representation::early);
        let next = presentation.live.map_or(0, |live| {
            let since = UnixMillis::now().since(live.start) + early;
            let ended = since.as_millis() as u64 / segment_ms;
            if !early.is_zero() {
                return ended.saturating_sub(1);
            }
            let delay = live
                .delay
                .map_or(START_SEGMENTS, |delay| (delay.as_millis() as u64).div_ceil(segment_ms));
            ended.saturating_sub(delay.max(1))
        });
        let live = presentation.live;
        let (path, loaded) = (path.to_owned(), Instant::now());
        let bandwidths = pictures.iter().map(|track| track.bandwidth).collect();
        Ok(Self {
            path,
            live,
            count,
            chosen,
            pictures,
            bandwidths,
            playing,
            loaded,
            next,
            has_waited: false,
        })
    }

    async fn switch(&mut self, client: &mut Client, to: usize) -> Result<bool, Fault> {
        if to == self.playing {
            return Ok(false);
        }
        let (Some(picture), Some(chosen)) = (self.pictures.get(to), self.chosen.first_mut()) else {
            return Ok(false);
        };
        let header = resolve(client, &self.path, &picture.initialization)?;
        client.discard(&header).await?;
        *chosen = picture.clone();
        self.playing = to;
        Ok(true)
    }

    async fn next(&mut self, client: &mut Client) -> Result<Next, Fault> {
        let duration = self.chosen.first().and_then(|track| track.duration(self.next));
        let Some(segment) = duration else { return Ok(Next::End) };
        let (mut end, mut chunk) = (None, None);
        if let Some(live) = self.live {
            if live.update.is_some_and(|update| self.loaded.elapsed() >= update) {
                self.live = dash::read(&client.manifest(&self.path).await?)?.live;
                self.loaded = Instant::now();
            }
            let ended_ms = (segment.as_millis() as u64).saturating_mul(self.next + 1);
            let there_from = live.start.plus(Duration::from_millis(ended_ms));
            end = Some(there_from);
            let early = self.chosen.first().map_or(Duration::ZERO, Representation::early);
            chunk = Some(segment - early).filter(|_| !early.is_zero());
            let missing = there_from.since(UnixMillis::now().plus(early));
            if !missing.is_zero() {
                self.has_waited = true;
                return Ok(Next::Wait(missing.max(WAIT_MIN)));
            }
        } else if self.count.is_none_or(|count| self.next >= count) {
            return Ok(Next::End);
        }
        let mut paths = Vec::with_capacity(self.chosen.len());
        for track in &self.chosen {
            paths.push(resolve(client, &self.path, &track.media(self.next))?);
        }
        self.next += 1;
        let is_newest = std::mem::take(&mut self.has_waited) && chunk.is_some();
        let is_there = self.count.is_some_and(|count| self.next < count);
        let pictures = self.chosen.first().filter(|_| is_there);
        // As it is seen from the one before: they are in one folder.
        let next = pictures.map(|track| track.media(self.next));
        let next = next.and_then(|path| path.rsplit('/').next().map(str::to_owned));
        Ok(Next::Fetch(Piece { paths, duration: segment, end, is_newest, chunk, next }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::find;
    use crate::manifest;
    use crate::programme::{Kind, Schedule};

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 2000, part_ms: None, window_segments: 5, title_segments: 3 };

    #[test]
    fn our_own_multivariant_playlist_reads_as_meant() {
        let read = Multivariant::read(manifest::hls::master(&SCHEDULE).as_bytes()).unwrap();
        assert_eq!(read.variants.len(), 4);
        let sound = "variant01/hlsha/405KB/playlist.m3u8".to_owned();
        assert_eq!(read.sounds, [("sound".to_owned(), sound)]);
        assert!(read.variants.iter().all(|v| v.sound_group.as_deref() == Some("sound")));
    }

    #[test]
    fn our_own_playlists_read_as_meant() {
        let rung = find("variant02/hlshv/4770KB").unwrap();
        let text =
            manifest::hls::playlist(Kind::Live, rung, &SCHEDULE, SCHEDULE.live_start(50), false);
        let live = Playlist::read(text.as_bytes()).unwrap();
        assert_eq!((live.first, live.end(), live.ended), (45, 50, false));
        assert_eq!(live.map.as_deref(), Some("init.mp4"));
        assert_eq!(live.segment(49).unwrap().uri, "49.m4s");
        let text =
            manifest::hls::playlist(Kind::OnDemand, rung, &SCHEDULE, SCHEDULE.live_start(0), false);
        let title = Playlist::read(text.as_bytes()).unwrap();
        assert!(title.ended);
        assert_eq!(title.segments[2].duration, Duration::from_secs(2));
    }

    #[test]
    fn a_quality_is_picked_by_bandwidth() {
        let picked = |quality, choice| pick([3, 1, 2].into_iter(), |n| *n, quality, choice);
        assert_eq!(picked(Quality::Lowest, 7), Some(1));
        assert_eq!(picked(Quality::Highest, 7), Some(3));
        assert_eq!(picked(Quality::Any, 7), Some(2));
        assert_eq!(pick([0_u64; 0].into_iter(), |n| *n, Quality::Any, 7), None);
    }
}
