//! What a look-up that hits costs, with few objects and with many.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use freshet_base::clock::UnixMillis;
use freshet_cache::{Cache, Key, Lookup, ObjectSpec, Secret, Settings, StoredHead, Use, Variation};
use freshet_http::fields::Fields;
use freshet_http::freshness::{Freshness, Reuse};
use freshet_http::message::RequestHead;
use freshet_http::vary::{Vary, VaryRule};
use freshet_store::{Arena, Body};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

/// A cache of this many empty objects and their keys in an order without locality.
fn filled(objects: usize, variation: Option<&Variation>) -> (Arc<Cache>, Vec<Key>) {
    let arena = Arena::new(8 << 30).expect("address space is there");
    let cache = Cache::new(arena, Secret::from_bytes([1; 16]), Settings::default());
    let cache = cache.expect("the defaults are sound");
    let mut keys = Vec::with_capacity(objects);
    for number in 0..objects {
        let key = cache.key("video.example.test", &format!("/live/channel/segment-{number}.m4s"));
        let lookup = cache.lookup(&key, &request(), NOW, &mut |_| Use::Serve);
        let Lookup::Miss { ticket, .. } = lookup else { panic!("nothing is there yet") };
        ticket.insert(ObjectSpec {
            head: head(),
            body: Body::new(cache.arena(), Some(0)),
            variation: variation.cloned(),
            tags: Box::default(),
            objective: None,
        });
        keys.push(key);
    }
    keys.sort_unstable_by_key(Key::hash);
    (cache, keys)
}

fn head() -> StoredHead {
    let fields: Fields = [
        ("Content-Type", "video/mp4"),
        ("ETag", "\"0123456789abcdef\""),
        ("Cache-Control", "public, max-age=3600"),
        ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ]
    .into_iter()
    .collect();
    StoredHead::new(200, fields, Freshness::from_policy(NOW, Duration::from_secs(3600)))
}

fn request() -> RequestHead {
    let fields = [
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ("Accept", "*/*"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Accept-Language", "en-GB,en;q=0.9"),
    ];
    RequestHead { fields: fields.into_iter().collect(), ..RequestHead::default() }
}

fn hits(c: &mut Criterion) {
    let request = request();
    let by_encoding = VaryRule::from_fields(&[("Vary", "Accept-Encoding")].into_iter().collect());
    let Vary::On(rule) = by_encoding else { panic!("it is a rule") };
    let variation = Variation { key: rule.key(&request.fields), rule: Arc::new(rule) };
    let cases = [
        ("hit of 1e3 objects", 1_000, None),
        ("hit of 1e6 objects", 1_000_000, None),
        ("hit of 1e3 objects that vary by encoding", 1_000, Some(&variation)),
    ];
    for (name, objects, variation) in cases {
        let (cache, keys) = filled(objects, variation);
        let mut next = 0;
        c.bench_function(name, |bencher| {
            bencher.iter(|| {
                next = (next + 7919) % keys.len();
                let lookup = cache.lookup(&keys[next], &request, NOW, &mut |object| match object
                    .reuse(NOW)
                {
                    Reuse::Fresh => Use::Serve,
                    _ => Use::Validate,
                });
                assert!(matches!(black_box(lookup), Lookup::Hit { .. }));
            });
        });
    }
}

fn keys(c: &mut Criterion) {
    let secret = Secret::random();
    c.bench_function("key of a target of 60 bytes", |bencher| {
        bencher.iter_batched(
            || "/live/channel/segment-0123456789012345678901234567890123.m4s",
            |target| secret.key(black_box("video.example.test"), black_box(target)),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, hits, keys);
criterion_main!(benches);
