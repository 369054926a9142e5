//! What each hit costs in this crate: `cargo bench -p freshet-http`.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

use criterion::{Criterion, criterion_group, criterion_main};
use freshet_base::clock::UnixMillis;
use freshet_http::cache_status::CacheStatus;
use freshet_http::conditional::{Validators, evaluate};
use freshet_http::fields::Fields;
use freshet_http::freshness::{Received, Settings, Storability, storability};
use freshet_http::message::Method;
use freshet_http::range::RangeRequest;
use freshet_http::target::key_target;
use freshet_http::vary::{Vary, VaryRule};
use std::hint::black_box;

const NOW: UnixMillis = UnixMillis(1_795_000_000_000);

fn request() -> Fields {
    [
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("Accept-Language", "en-GB,en;q=0.8,de;q=0.5"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Connection", "keep-alive"),
        ("Cookie", "session=0123456789abcdef"),
        ("If-None-Match", "\"0123456789\", \"abcdef\""),
        ("Cache-Control", "max-age=0"),
    ]
    .into_iter()
    .collect()
}

fn response() -> Fields {
    [
        ("Date", "Fri, 20 Nov 2026 10:00:00 GMT"),
        ("Content-Type", "video/mp4"),
        ("Cache-Control", "public, max-age=3600, stale-while-revalidate=60"),
        ("ETag", "\"abcdef\""),
        ("Vary", "Accept-Encoding"),
        ("Last-Modified", "Thu, 19 Nov 2026 10:00:00 GMT"),
    ]
    .into_iter()
    .collect()
}

fn hit_path(criterion: &mut Criterion) {
    let (request, response) = (request(), response());
    let settings = Settings::default();
    let received = Received {
        method: &Method::Get,
        request: &request,
        status: 200,
        response: &response,
        request_time: NOW,
        response_time: NOW,
        authority: "example.com",
        target: "/",
    };
    criterion.bench_function("storability", |b| {
        b.iter(|| storability(black_box(&received), &settings));
    });
    if let Storability::Store(freshness) = storability(&received, &settings) {
        criterion.bench_function("freshness reuse", |b| {
            b.iter(|| black_box(&freshness).reuse(black_box(NOW)));
        });
    }
    let validators = Validators::from_fields(&response);
    criterion.bench_function("conditional evaluate, matching", |b| {
        b.iter(|| evaluate(black_box(&request), &Method::Get, &validators, 200));
    });
    let mut unconditional = request.clone();
    unconditional.remove("If-None-Match");
    criterion.bench_function("conditional evaluate, none", |b| {
        b.iter(|| evaluate(black_box(&unconditional), &Method::Get, &validators, 200));
    });
    if let Vary::On(rule) = VaryRule::from_fields(&response) {
        let key = rule.key(&request);
        criterion.bench_function("vary matches", |b| {
            b.iter(|| rule.key(black_box(&request)) == key);
        });
    }
    let status =
        CacheStatus { cache: "freshet", hit: true, ttl_seconds: Some(57), ..Default::default() };
    let mut out = Vec::new();
    criterion.bench_function("cache status write", |b| {
        b.iter(|| {
            out.clear();
            black_box(&status).write(&mut out);
        });
    });
    criterion.bench_function("key target", |b| {
        b.iter(|| key_target(black_box("/live/news/video/1080p/segment-123456.m4s?a=1")).len());
    });
    criterion.bench_function("range parse and resolve", |b| {
        b.iter(|| RangeRequest::parse(black_box(b"bytes=1000-1999")).map(|r| r.resolve(1 << 20)));
    });
}

criterion_group!(benches, hit_path);
criterion_main!(benches);
