//! Manifests as they come when something is wrong: broken off, mixed up, doubled, with numbers that lie.
//!
//! Where the fuzz targets make up texts of a manifest's words, these are whole manifests with a few edits each, so
//! that most of what is read of them goes deep. `FRESHET_MUTATIONS` says how many, and `FRESHET_MANIFESTS` names a
//! folder with others to begin from, as `bench/media/corpus --keep` leaves one. A mistake is named with its seed,
//! which `FRESHET_SEED` repeats.

#[path = "support/bounds.rs"]
mod bounds;

use freshet_base::splitmix;
use freshet_media::{Format, read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many there are in `cargo test`, some seconds without optimization.
const MUTATIONS: u64 = 6000;
/// Edits of one of them.
const EDITS_MAX: u64 = 6;
/// A part may be doubled until there is this much.
const GROWN_BYTES_MAX: usize = 1 << 18;
/// One byte of a text costs no more than this, without optimization on a busy machine: a reader that is not linear
/// takes minutes.
const READ_TIME_MAX: Duration = Duration::from_secs(20);

/// What takes the place of a number.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "0.0000001",
    "1e308",
    "nan",
    "inf",
    "4294967296",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "",
];

/// What is put somewhere.
const PIECES: [&str; 22] = [
    "#EXTM3U\n",
    "#EXT-X-ENDLIST\n",
    "#EXT-X-PLAYLIST-TYPE:EVENT\n",
    "#EXT-X-DISCONTINUITY\n",
    "#EXT-X-DEFINE:NAME=\"host\",VALUE=\"{$host}{$host}\"\n",
    "#EXT-X-BYTERANGE:18446744073709551615@18446744073709551615\n",
    "#EXT-X-STREAM-INF:BANDWIDTH=1\n",
    "#EXT-X-SKIP:SKIPPED-SEGMENTS=4294967295\n",
    "<MPD type='dynamic'>",
    "</MPD>",
    "<Period>",
    "</Period>",
    "<BaseURL>../../../../..//x/</BaseURL>",
    "<S d='1' r='1000000000'/>",
    "$Number%0999999999d$",
    "$RepresentationID$$Time$$$$",
    "<!DOCTYPE m [<!ENTITY a '&a;&a;'>]>",
    "&a;",
    "<![CDATA[",
    "\u{feff}",
    "\0",
    "\r",
];

#[test]
fn manifests_with_mistakes_are_read_within_bounds() {
    let texts = texts();
    let seed = number("FRESHET_SEED");
    let all = || 0..number("FRESHET_MUTATIONS").unwrap_or(MUTATIONS);
    let seeds = seed.map_or_else(all, |it| it..it + 1);
    let (mut read_count, total) = (0_u64, seeds.end - seeds.start);
    for seed in seeds {
        let text = mutated(&texts, seed);
        for format in [Format::Hls, Format::Mpd] {
            let begun = Instant::now();
            let result = std::panic::catch_unwind(|| bounds::check(format, &text));
            assert!(result.is_ok(), "FRESHET_SEED={seed} as {format:?}");
            assert!(begun.elapsed() < READ_TIME_MAX, "FRESHET_SEED={seed} takes too long");
            read_count += u64::from(read(format, &text).is_ok());
        }
    }
    println!("{total} manifests of {} with edits, {read_count} readings of them", texts.len());
    // If all were refused at once, nothing of this would say anything.
    assert!(seed.is_some() || read_count > total / 4, "{read_count} of {total}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// What there is to begin from; of a folder's manifests those that are not too long to be edited often.
fn texts() -> Vec<Vec<u8>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests");
    let others = std::env::var_os("FRESHET_MANIFESTS").map(PathBuf::from);
    let mut paths: Vec<_> =
        others.into_iter().chain([own]).flat_map(|folder| files(&folder)).collect();
    paths.sort_unstable();
    let texts = paths.iter().map(|path| std::fs::read(path).expect("it can be read"));
    let texts: Vec<_> = texts.filter(|text| text.len() <= GROWN_BYTES_MAX).collect();
    assert!(texts.len() >= 6, "manifests to begin from");
    texts
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// One of them, with some edits: the same for the same seed.
fn mutated(texts: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut text = random.of(texts).clone();
    for _ in 0..=random.below(EDITS_MAX) {
        random.edit(&mut text, texts);
    }
    text
}

struct Random(u64);

impl Random {
    /// Below this; 0 where that is 0.
    fn below(&mut self, end: u64) -> u64 {
        splitmix::next(&mut self.0) % end.max(1)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.place(all.len())]
    }

    fn place(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("it is a place")
    }

    /// A part of a text, mostly a short one; of whole lines at times.
    fn part(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let longest = if self.below(4) == 0 { text.len() } else { 80 };
        let start = self.place(text.len() + 1);
        let end = (start + self.place(longest + 1)).min(text.len());
        if self.below(2) == 0 {
            return start..end;
        }
        let line =
            |at: usize| text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        line(start)..line(end).max(line(start))
    }

    fn edit(&mut self, text: &mut Vec<u8>, texts: &[Vec<u8>]) {
        let at = self.place(text.len() + 1);
        match self.below(9) {
            0 => text.truncate(at),
            1 => drop(text.drain(self.part(text))),
            // Doubled some times, up to ten thousand.
            2 => {
                let part = text[self.part(text)].to_vec();
                let times = 1 << self.below(14);
                let room = GROWN_BYTES_MAX.saturating_sub(text.len()) / part.len().max(1);
                let more = part.repeat(room.min(times));
                text.splice(at..at, more);
            }
            3 => {
                let part: Vec<_> = text.drain(self.part(text)).collect();
                let at = self.place(text.len() + 1);
                text.splice(at..at, part);
            }
            // Of another, which may be of the other format.
            4 => {
                let other = self.of(texts);
                let part = other[self.part(other)].to_vec();
                text.splice(at..at, part);
            }
            5 => {
                let piece = self.of(&PIECES).bytes();
                text.splice(at..at, piece);
            }
            6 => {
                let byte = u8::try_from(self.below(256)).expect("it is one");
                if let Some(place) = text.get_mut(at) {
                    *place = byte;
                }
            }
            // A number that lies: the first behind a place.
            _ => {
                let is_digit = |byte: &u8| byte.is_ascii_digit();
                let Some(first) = text[at..].iter().position(is_digit) else { return };
                let start = at + first;
                let digits = text[start..].iter().take_while(|byte| is_digit(byte)).count();
                let number = self.of(&NUMBERS).bytes();
                text.splice(start..start + digits, number);
            }
        }
    }
}
