//! Playlists and manifests that pass: what becomes of what they name, and what players say.

mod ahead;
mod dash;
mod films;
mod kept;
mod names;
mod news;
mod players;
mod restarts;

use crate::client::{Answer, get};
use crate::harness::{TestNode, pattern};
use crate::origin::{Asked, Origin, Request, response};

const HOUR: &str = "Cache-Control: max-age=3600";
const HLS: &str = "Content-Type: application/vnd.apple.mpegurl";

/// A playlist of two-second segments.
pub(super) fn playlist(first: u64, count: u64, tags: &str) -> String {
    let mut out = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:{first}\n{tags}\
         #EXT-X-MAP:URI=\"init.mp4\"\n"
    );
    for number in first..first + count {
        out.push_str(&format!("#EXTINF:2,\n{number}.m4s\n"));
    }
    out
}

/// A low-latency playlist that has come to this part of a segment. What is known of it counts for a target
/// duration, which is long, so that no test depends on its machine.
pub(super) fn low_latency(first: u64, count: u64, parts: u64) -> String {
    let control = "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n#EXT-X-PART-INF:PART-TARGET=0.5\n";
    let mut out = playlist(first, count, control).replace("TARGETDURATION:2", "TARGETDURATION:100");
    for part in 0..parts {
        let number = first + count;
        out.push_str(&format!("#EXT-X-PART:DURATION=0.5,URI=\"{number}.{part}.m4s\"\n"));
    }
    out
}

/// An origin of one channel, everything of it fresh for an hour.
pub(super) fn channel() -> Origin {
    Origin::serve(|asked: &Request| match asked.target() {
        "/c/v.m3u8" => response("200 OK", &[HOUR, HLS], playlist(10, 5, "")),
        "/c/ended.m3u8" => response("200 OK", &[HOUR, HLS], playlist(0, 5, "#EXT-X-ENDLIST\n")),
        target if !target.ends_with("/15.m4s") => {
            response("200 OK", &[HOUR], pattern(1, 0..20_000))
        }
        _ => response("404 Not Found", &["Cache-Control: max-age=60"], "no"),
    })
}

/// Seconds of life that are left, by `Cache-Status`.
pub(super) fn ttl(answer: &Answer) -> i64 {
    let status = answer.cache();
    let ttl = status.split("ttl=").nth(1).and_then(|rest| rest.split(';').next());
    ttl.and_then(|ttl| ttl.trim().parse().ok()).unwrap_or_else(|| panic!("no ttl: {status}"))
}

/// Asks until it is a hit: what is left of its life, which may be over before the second time.
pub(super) async fn life(node: &TestNode, target: &str) -> i64 {
    loop {
        let answer = get(node, target).await;
        if answer.cache().contains("hit") {
            return ttl(&answer);
        }
    }
}

/// A request an origin got, answered with `count` bytes that are fresh for an hour.
pub(super) fn send_segment(asked: &Asked, count: u64) {
    asked.send(response("200 OK", &[HOUR], pattern(1, 0..count)));
}
