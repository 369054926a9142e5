//! What one step costs: a piece taken and given back, a body filled, a read of a complete body.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use freshet_store::{Arena, Body, BodyWriter, Next};
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn fill(writer: &mut BodyWriter, mut len: usize) {
    let mut cx = Context::from_waker(Waker::noop());
    while len > 0 {
        let Poll::Ready(Ok(room)) = writer.poll_reserve(&mut cx, len) else {
            panic!("the arena has room for every body of this bench")
        };
        let step = room.len().min(len);
        writer.commit(step);
        len -= step;
    }
}

fn complete(arena: &Arc<Arena>, len: usize) -> Arc<Body> {
    let body = Body::new(arena, Some(len as u64));
    let mut writer = body.writer(0, None);
    fill(&mut writer, len);
    writer.finish().expect("every byte was written");
    body
}

fn pieces(c: &mut Criterion) {
    let arena = Arena::new(256 << 20).expect("address space is free");
    let mut group = c.benchmark_group("piece");
    for len in [1 << 10, 64 << 10, 72_000, 1 << 20] {
        group.bench_function(format!("allocate and free {len}"), |b| {
            b.iter(|| black_box(arena.allocate(len)));
        });
    }
    // A full arena with holes of one body each, as it is when every insertion evicts.
    let mut held: Vec<_> = std::iter::from_fn(|| arena.allocate(72_000)).collect();
    let mut at = 0;
    group.bench_function("replace 72000 in a full arena", |b| {
        b.iter(|| {
            at = (at + 7919) % held.len();
            let old = held.swap_remove(at);
            drop(old);
            held.push(arena.allocate(72_000).expect("as much was just freed"));
        });
    });
    group.finish();
}

fn bodies(c: &mut Criterion) {
    let arena = Arena::new(256 << 20).expect("address space is free");
    let mut group = c.benchmark_group("body");
    for len in [1_000, 72_000, 1_000_000] {
        group.bench_function(format!("fill and drop {len} without copying"), |b| {
            b.iter(|| complete(&arena, len));
        });
    }
    let body = complete(&arena, 1 << 20);
    let mut cx = Context::from_waker(Waker::noop());
    group.throughput(Throughput::Elements(16));
    group.bench_function("16 read steps of 64 KiB of a complete body", |b| {
        b.iter_batched(
            || body.reader(..),
            |mut reader| {
                for _ in 0..16 {
                    let Poll::Ready(Next::Data(lease)) = reader.poll_next(&mut cx, 64 << 10) else {
                        panic!("the body has 16 steps")
                    };
                    black_box(lease.len());
                }
                reader
            },
            BatchSize::SmallInput,
        );
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("reader made and dropped", |b| b.iter(|| body.reader(..)));
    group.finish();
}

criterion_group!(benches, pieces, bodies);
criterion_main!(benches);
