//! A player by other people (ffmpeg) decodes what the origin serves, and finds nothing to complain
//! about. Skipped, with a word on why, where ffmpeg is not installed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of it is tests, helpers included"
)]

#[path = "../../../tests/skip.rs"]
mod skip;

use freshet_lab::media::avc::Colour;
use freshet_lab::media::picture::{CELLS_WIDE, Picture};
use freshet_lab::origin::{Origin, Settings};
use freshet_lab::programme::{Kind, Programme};
use freshet_lab::{ladder, media};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

fn ffmpeg_is_missing() -> bool {
    let found = ["ffmpeg", "ffprobe"].iter().all(|program| {
        let status = Command::new(program)
            .arg("-version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    });
    if !found {
        skip::missing("ffmpeg or ffprobe");
    }
    !found
}

fn origin(part: Option<Duration>) -> Origin {
    let settings = Settings {
        part,
        channels: 1,
        titles: 1,
        segment: Duration::from_secs(2),
        window: Duration::from_secs(20),
        title: Duration::from_secs(6),
        ..Settings::default()
    };
    Origin::start(settings).unwrap()
}

/// Runs ffmpeg, which must succeed, and returns what it wrote to stderr and to stdout.
fn ffmpeg(arguments: &[&str], input: &[u8]) -> (String, Vec<u8>) {
    let mut child = Command::new("ffmpeg")
        // `repeat`: each message in full, instead of "Last message repeated 2 times".
        .args(["-nostdin", "-hide_banner", "-loglevel", "repeat+warning", "-xerror"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_vec();
    // ffmpeg stops reading when it has what it wants.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ffmpeg {arguments:?} failed: {said}");
    (said, output.stdout)
}

/// Decodes `seconds` of the first pictures and the first sound at `path`; returns its progress.
fn decode(path: &str, seconds: &str) -> String {
    decode_of(origin(None), path, seconds)
}

fn decode_of(origin: Origin, path: &str, seconds: &str) -> String {
    let url = format!("http://{}{path}", origin.address());
    // At the pace of the media: ffmpeg's DASH reader asks for segments of the future otherwise.
    let pace: &[&str] = if path.starts_with("/channel") { &["-re"] } else { &[] };
    let input = ["-i", &url, "-t", seconds, "-map", "0:v:0", "-map", "0:a:0"];
    let output = ["-progress", "-", "-f", "null", "/dev/null"];
    let (said, progress) = ffmpeg(&[pace, &input[..], &output[..]].concat(), b"");
    // ffmpeg reads the header again with each new live HLS playlist, and says so.
    let complaints: Vec<_> =
        said.lines().filter(|line| !line.contains("Found duplicated MOOV Atom")).collect();
    assert!(complaints.is_empty(), "complaints about {path}: {said}");
    assert_eq!(origin.totals().refused, 0, "{path}");
    String::from_utf8(progress).unwrap()
}

/// How many pictures a decoder got out of it.
fn pictures(progress: &str) -> u64 {
    let frames = progress.lines().rev().find_map(|line| line.strip_prefix("frame="));
    frames.unwrap().trim().parse().unwrap()
}

#[test]
fn hls_on_demand_decodes_to_its_end() {
    if !ffmpeg_is_missing() {
        assert_eq!(pictures(&decode("/vod-1/master.m3u8", "60")), 150);
    }
}

#[test]
fn dash_on_demand_decodes_to_its_end() {
    if !ffmpeg_is_missing() {
        assert_eq!(pictures(&decode("/vod-1/manifest.mpd", "60")), 150);
    }
}

#[test]
fn hls_live_decodes() {
    if !ffmpeg_is_missing() {
        assert_eq!(pictures(&decode("/channel-1/master.m3u8", "4")), 100);
    }
}

#[test]
fn segments_made_of_parts_decode() {
    if !ffmpeg_is_missing() {
        for manifest in ["master.m3u8", "manifest.mpd"] {
            let origin = origin(Some(Duration::from_millis(400)));
            let path = format!("/channel-1/{manifest}");
            assert_eq!(pictures(&decode_of(origin, &path, "4")), 100, "{manifest}");
        }
    }
}

#[test]
fn dash_live_decodes() {
    if !ffmpeg_is_missing() {
        assert_eq!(pictures(&decode("/channel-1/manifest.mpd", "4")), 100);
    }
}

#[test]
fn decoded_pictures_are_the_painted_ones_in_all_qualities() {
    if ffmpeg_is_missing() {
        return;
    }
    for kind in [Kind::Live, Kind::OnDemand] {
        let programme = Programme { kind, number: 42 };
        for rung in &ladder::TABLE_3 {
            let ladder::Track::Video(size) = rung.track else { continue };
            // A second later in the evening, so that the clock ticks between two segments.
            let (number, segment_ms) = (80_000, 1000);
            let mut bytes = media::init_segment(rung).to_vec();
            for number in [number, number + 1] {
                bytes.extend(media::segment(programme, rung, number, segment_ms).to_vec());
            }
            let raw = ["-i", "-", "-vf", "select=not(mod(n\\,7))", "-fps_mode", "passthrough"];
            let output = ["-pix_fmt", "yuv420p", "-f", "rawvideo", "-"];
            let (said, decoded) = ffmpeg(&[&raw[..], &output[..]].concat(), &bytes);
            assert_eq!(said, "", "{}", rung.path);
            let (width, height) = (usize::from(size.width), usize::from(size.height));
            let frames: Vec<_> = decoded.chunks(width * height * 3 / 2).collect();
            assert_eq!(frames.len(), 8, "{}", rung.path);
            for (place, frame) in frames.iter().enumerate() {
                let index = number * 25 + place as u64 * 7;
                let picture = Picture::paint(programme, size, index);
                assert_eq!(first_difference(frame, &picture, width, height), None, "{}", rung.path);
            }
        }
    }
}

/// The first pixel, in steps of 8, that is not as painted.
fn first_difference(
    frame: &[u8],
    picture: &Picture,
    width: usize,
    height: usize,
) -> Option<(usize, usize, Colour, Colour)> {
    let columns = width.div_ceil(16);
    for (y, x) in (0..height).step_by(8).flat_map(|y| (0..width).step_by(8).map(move |x| (y, x))) {
        let chroma = width * height + y / 2 * (width / 2) + x / 2;
        let shown = Colour {
            y: frame[y * width + x],
            cb: frame[chroma],
            cr: frame[chroma + width * height / 4],
        };
        let painted =
            picture.cell(x / 16 * CELLS_WIDE / columns, (y / 16 * CELLS_WIDE / columns).min(22));
        if shown != painted {
            return Some((x, y, shown, painted));
        }
    }
    None
}

#[test]
fn the_tone_is_soft_and_as_high_as_meant() {
    if ffmpeg_is_missing() {
        return;
    }
    for number in [1, 2, 3] {
        let programme = Programme { kind: Kind::Live, number };
        let rung = ladder::find("variant01/dshma/72KB").unwrap();
        let mut bytes = media::init_segment(rung).to_vec();
        for segment in 10..14 {
            bytes.extend(media::segment(programme, rung, segment, 1000).to_vec());
        }
        let (said, decoded) = ffmpeg(&["-i", "-", "-ac", "1", "-f", "s16le", "-"], &bytes);
        assert_eq!(said, "");
        let samples: Vec<i16> =
            decoded.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        let steady = &samples[4096..samples.len() - 4096];
        let peak = steady.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!((300..4000).contains(&peak), "peak {peak}");
        let rises = steady.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
        let heard = rises as f64 * 48_000.0 / steady.len() as f64;
        let meant = media::aac::frequency(programme);
        assert!((heard - meant).abs() < 15.0, "{heard} Hz instead of {meant} Hz");
    }
}
