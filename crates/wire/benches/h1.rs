//! What a hit costs in this crate: one request parsed, one response head written.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use freshet_http::fields::Fields;
use freshet_http::message::{Method, ResponseHead, Scheme, Version};
use freshet_wire::h1::{Framing, Limits, chunked, request, response, write};
use std::hint::black_box;

const PLAYER: &[u8] = b"GET /live/channel-7/video/1080p/segment-002934.m4s HTTP/1.1\r\n\
    Host: edge-12.cdn.example.net\r\n\
    User-Agent: ExoPlayerLib/2.19.1 (Linux; Android 13) OkHttp/4.11.0\r\n\
    Accept: */*\r\n\
    Accept-Encoding: identity\r\n\
    Accept-Language: en-GB,en;q=0.9\r\n\
    Range: bytes=0-\r\n\
    X-Playback-Session-Id: 6E7A1B90-7C43-4D2E-9B19-6A3C9C3D8D3F\r\n\
    Connection: keep-alive\r\n\r\n";

const ORIGIN: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Date: Fri, 20 Nov 2026 10:00:00 GMT\r\n\
    Server: packager\r\n\
    Content-Type: video/mp4\r\n\
    Content-Length: 1048576\r\n\
    Cache-Control: public, max-age=60\r\n\
    ETag: \"5f2c-61a\"\r\n\
    Last-Modified: Fri, 20 Nov 2026 09:59:58 GMT\r\n\
    Accept-Ranges: bytes\r\n\r\n";

fn heads(criterion: &mut Criterion) {
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("h1");
    group.throughput(Throughput::Bytes(PLAYER.len() as u64));
    group.bench_function("request_parse_8_fields", |bencher| {
        bencher.iter(|| request::parse(black_box(PLAYER), Scheme::Http, &limits));
    });
    let with_body = [PLAYER, &[b'x'; 4096]].concat();
    group.bench_function("request_parse_with_bytes_behind", |bencher| {
        bencher.iter(|| request::parse(black_box(&with_body), Scheme::Http, &limits));
    });
    let partial = &PLAYER[..PLAYER.len() - 2];
    group.bench_function("request_parse_incomplete", |bencher| {
        bencher.iter(|| request::parse(black_box(partial), Scheme::Http, &limits));
    });
    group.throughput(Throughput::Bytes(ORIGIN.len() as u64));
    group.bench_function("response_parse_8_fields", |bencher| {
        bencher.iter(|| response::parse(black_box(ORIGIN), &Method::Get, &limits));
    });
    let head = stored_head();
    let mut out = Vec::with_capacity(4096);
    group.bench_function("response_write_8_fields", |bencher| {
        bencher.iter(|| {
            out.clear();
            let framing = Framing::Length(1_048_576);
            write::response_head(black_box(&head), framing, true, Version::Http11, &mut out);
            black_box(out.len())
        });
    });
    group.finish();
}

fn stored_head() -> ResponseHead {
    let parsed = response::parse(ORIGIN, &Method::Get, &Limits::default());
    let mut head = parsed.expect("a good head").expect("a complete head").head;
    head.fields = head.fields.compact();
    head
}

fn chunks(criterion: &mut Criterion) {
    let (mut encoder, mut body) = (chunked::Encoder::new(), Vec::new());
    for _ in 0..64 {
        encoder.write_chunk_head(16 * 1024, &mut body);
        body.extend_from_slice(&[b'x'; 16 * 1024]);
    }
    encoder.write_end(None::<&Fields>, &mut body);
    let mut group = criterion.benchmark_group("h1");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("chunked_decode_64_of_16_kib", |bencher| {
        bencher.iter(|| {
            let mut decoder = chunked::Decoder::new();
            let mut rest = black_box(&body[..]);
            while !decoder.is_done() {
                let progress = decoder.decode(rest).expect("a good body");
                rest = &rest[progress.consumed..];
            }
        });
    });
    group.finish();
}

criterion_group!(benches, heads, chunks);
criterion_main!(benches);
