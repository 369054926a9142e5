//! What small objects cost: bytes of memory, and lines of it that a hit has to wait for.
//!
//! Bytes are those the kernel knows of, so nothing else of size runs in this program.
#![allow(clippy::print_stdout, reason = "the figures are worth reading with `--nocapture`")]

mod bytes;
mod lines;
#[path = "../../../../tests/skip.rs"]
mod skip;

use freshet_base::clock::UnixMillis;
use freshet_cache::{Cache, Key, Lookup, ObjectSpec, Secret, Settings, StoredHead, Use};
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::RequestHead;
use freshet_store::{Arena, Body};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const BODY_BYTES: usize = 1024;

fn head(number: usize) -> StoredHead {
    let fields: Fields = [
        ("Server", "nginx/1.22.1".to_owned()),
        ("Date", "Fri, 27 Nov 2026 03:00:00 GMT".to_owned()),
        ("Content-Type", "image/webp".to_owned()),
        ("Last-Modified", "Tue, 03 Nov 2026 10:21:07 GMT".to_owned()),
        ("ETag", format!("\"{number:08x}-400\"")),
        ("Cache-Control", "public, max-age=86400".to_owned()),
        ("Via", "1.1 freshet".to_owned()),
        ("Accept-Ranges", "bytes".to_owned()),
    ]
    .into_iter()
    .collect();
    StoredHead::new(200, fields.compact(), Freshness::from_policy(NOW, Duration::from_secs(86_400)))
}

/// A body as a fetch makes it, which holds a reader meanwhile.
fn body(cache: &Cache) -> Arc<Body> {
    let body = Body::new(cache.arena(), Some(BODY_BYTES as u64));
    let reader = body.reader(..);
    let mut writer = body.writer(0, None);
    let room = writer.poll_reserve(&mut Context::from_waker(Waker::noop()), BODY_BYTES);
    let Poll::Ready(Ok(room)) = room else { panic!("memory is free") };
    room.fill(b'x');
    writer.commit(BODY_BYTES);
    writer.finish().expect("all was written");
    drop(reader);
    body
}

fn cache() -> Arc<Cache> {
    let arena = Arena::new(1 << 30).expect("address space is free");
    let cache = Cache::new(arena, Secret::from_bytes([1; 16]), Settings::default());
    cache.expect("the defaults are sound")
}

fn key(cache: &Cache, number: usize) -> Key {
    cache.key("www.example.test", &format!("/assets/img/{number:08}.webp"))
}

/// Stores an object; returns the bytes of its head as it is sent, and of its key.
fn store(cache: &Arc<Cache>, number: usize) -> (u64, u64) {
    let key = key(cache, number);
    let request = RequestHead::default();
    let lookup = cache.lookup(&key, &request, NOW, &mut |_| Use::Serve);
    let Lookup::Miss { ticket, .. } = lookup else { panic!("it is new") };
    let head = head(number);
    let mut sent = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    head.fields.write_h1(&mut sent);
    let body = body(cache);
    let object = ticket.insert(ObjectSpec {
        head,
        body,
        variation: None,
        tags: Box::default(),
        objective: None,
    });
    assert!(object.is_indexed());
    (sent.len() as u64, key.text().len() as u64)
}
