//! Packagers that start again, stand still, or give a name to something else.

use super::{HLS, HOUR};
use crate::client::{Client, get};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, Request, response};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const OLD: &str = "Cache-Control: max-age=0";

/// A playlist of five one-second segments from `first` on, whose names come again after `wrap`.
fn playlist(first: u64, wrap: u64, tags: &str) -> String {
    let mut out = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:{first}\n{tags}\
         #EXT-X-MAP:URI=\"init.mp4\"\n"
    );
    for number in first..first + 5 {
        out.push_str(&format!("#EXTINF:1,\n{}.m4s\n", number % wrap));
    }
    out
}

/// A packager with a playlist and which run of it makes what that names.
struct Packager {
    origin: Origin,
    text: Arc<Mutex<String>>,
    time: Arc<AtomicU64>,
}

impl Packager {
    fn of(text: String) -> Self {
        let (text, time) = (Arc::new(Mutex::new(text)), Arc::new(AtomicU64::new(1)));
        let (now, run) = (Arc::clone(&text), Arc::clone(&time));
        let origin = Origin::serve(move |asked: &Request| {
            let path = asked.target().split('?').next().unwrap();
            if path.ends_with(".m3u8") {
                let text = now.lock().unwrap().clone();
                return response("200 OK", &[OLD, HLS, &etag(&text)], text);
            }
            response("200 OK", &[HOUR], made(path, run.load(SeqCst)))
        });
        Self { origin, text, time }
    }

    /// From now on it has this.
    fn says(&self, time: u64, text: String) {
        self.time.store(time, SeqCst);
        *self.text.lock().unwrap() = text;
    }
}

/// What tells one version of a playlist from the others: what is stale on arrival is stored with it only.
fn etag(text: &str) -> String {
    format!("ETag: \"{:x}\"", crc32fast::hash(text.as_bytes()))
}

/// What a run of the packager has under a name.
fn made(path: &str, time: u64) -> String {
    format!("{path} of {time}")
}

/// Asks for the playlist, and then for what it names, which is all of this run.
async fn plays(node: &TestNode, names: &[&str], query: &str, time: u64) {
    assert_eq!(get(node, &format!("/c/v.m3u8{query}")).await.status, 200);
    for name in names {
        let path = format!("/c/{name}");
        for _ in 0..2 {
            let answer = get(node, &format!("{path}{query}")).await;
            assert_eq!(answer.text(), made(&path, time), "{query}");
        }
        assert!(get(node, &format!("{path}{query}")).await.cache().contains("hit"), "{path}");
    }
}

#[test]
fn what_players_add_to_names_does_not_keep_what_was_there_before() {
    run(async {
        let packager = Packager::of(playlist(20, 8, ""));
        let node = Setup::of(&packager.origin).and("[media]\nahead = 0\n").start();
        let names = ["4.m4s", "5.m4s", "6.m4s", "7.m4s", "0.m4s"];
        for query in ["?t=a", "", "?t=b"] {
            plays(&node, &names, query, 1).await;
        }
        packager.says(2, playlist(0, 8, ""));
        for query in ["?t=a", "", "?t=b"] {
            plays(&node, &["0.m4s", "4.m4s", "init.mp4"], query, 2).await;
        }
        // These are named later.
        packager.says(2, playlist(3, 8, ""));
        for query in ["?t=b", "?t=a", ""] {
            plays(&node, &["5.m4s", "7.m4s"], query, 2).await;
        }
    });
}

#[test]
fn a_name_that_comes_again_while_numbers_go_on_is_another_segment() {
    run(async {
        let packager = Packager::of(playlist(0, 6, ""));
        let node = Setup::of(&packager.origin).and("[media]\nahead = 0\n").start();
        plays(&node, &["0.m4s", "1.m4s", "4.m4s"], "", 1).await;
        packager.says(1, playlist(1, 6, ""));
        plays(&node, &["1.m4s", "5.m4s"], "", 1).await;
        let count = packager.origin.count();
        plays(&node, &["1.m4s", "5.m4s"], "", 1).await;
        assert_eq!(packager.origin.count(), count + 1, "the playlist alone");
        packager.says(2, playlist(2, 6, ""));
        plays(&node, &["0.m4s"], "", 2).await;
        // The others are what they were.
        plays(&node, &["4.m4s", "5.m4s"], "", 1).await;
    });
}

#[test]
fn a_segment_that_is_listed_several_times_is_the_same() {
    run(async {
        // All of it is one segment.
        let packager = Packager::of(playlist(0, 1, ""));
        let node = Setup::of(&packager.origin).and("[media]\nahead = 0\n").start();
        for first in 0..4 {
            packager.says(first + 1, playlist(first, 1, ""));
            plays(&node, &["0.m4s"], "", 1).await;
        }
    });
}

#[test]
fn a_packager_that_has_come_as_far_as_before_it_started_again_is_followed() {
    run(async {
        let packager = Packager::of(playlist(0, 100, ""));
        let node = Setup::of(&packager.origin).and("[media]\nahead = 0\n").start();
        let names = ["0.m4s", "4.m4s"];
        plays(&node, &names, "", 1).await;
        tokio::time::sleep(Duration::from_millis(2100)).await;
        packager.says(2, playlist(0, 100, ""));
        plays(&node, &names, "", 2).await;
        assert_eq!(node.count("media_set_back"), 0);
    });
}

#[test]
fn what_starts_a_decoder_is_asked_for_again_behind_a_discontinuity() {
    run(async {
        let packager = Packager::of(playlist(0, 100, ""));
        let node = Setup::of(&packager.origin).and("[media]\nahead = 0\n").start();
        plays(&node, &["init.mp4"], "", 1).await;
        let tags = "#EXT-X-DISCONTINUITY\n";
        packager.says(2, playlist(1, 100, tags));
        plays(&node, &["init.mp4"], "", 2).await;
        // The discontinuity is known now.
        packager.says(3, playlist(2, 100, tags));
        plays(&node, &["init.mp4"], "", 2).await;
    });
}

#[test]
fn the_last_playlist_is_served_while_its_packager_says_nothing() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        let (old, new) = (playlist(0, 100, ""), playlist(2, 100, ""));
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[OLD, HLS, &etag(&old)], &old));
        assert_eq!(client.answer("GET").await.text(), old);
        // Who asks, and who waits for the same.
        let mut other = Client::to(&node).await;
        let asked_at = Instant::now();
        client.ask("GET", "/c/v.m3u8", &[]).await;
        let asked = origin.next().await;
        other.ask("GET", "/c/v.m3u8", &[]).await;
        for client in [&mut client, &mut other] {
            let answer = client.answer("GET").await;
            assert_eq!((answer.status, answer.text()), (200, old.clone()));
        }
        assert!(asked_at.elapsed() >= Duration::from_millis(500));
        assert!(origin.is_quiet(), "one request is under way");
        asked.send(response("200 OK", &[HOUR, HLS], &new));
        while get(&node, "/c/v.m3u8").await.text() != new {}
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn one_answer_that_never_comes_does_not_take_a_channel_away() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        let first = playlist(10, 50, "");
        origin.next().await.send(response("200 OK", &[OLD, HLS, &etag(&first)], first));
        assert_eq!(client.answer("GET").await.status, 200);
        // All who come meanwhile wait for the same one, which never comes, and have the last version.
        let (begun, further) = (Instant::now(), playlist(11, 50, ""));
        let players = async {
            loop {
                let answer = get(&node, "/c/v.m3u8").await;
                let passed = begun.elapsed();
                assert_eq!(answer.status, 200, "{} after {passed:?}", answer.cache());
                if answer.text() == further {
                    return;
                }
            }
        };
        let packager = async {
            let lost = origin.next().await;
            origin.next().await.send(response("200 OK", &[HOUR, HLS], &further));
            lost
        };
        tokio::join!(players, packager);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    });
}
