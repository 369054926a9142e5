//! Records: sealing and opening, from memory that is in the cache and from memory that is not.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use freshet_wire::tls::{
    Cipher, ContentType, OVERHEAD_BYTES_MAX, Opener, PLAINTEXT_BYTES_MAX, Sealer, TrafficKey,
    Version,
};
use std::hint::black_box;
use std::io::IoSlice;

const BATCH_BYTES: usize = 64 * 1024;
/// Larger than any cache, so that each batch comes from memory.
const BODY_BYTES: usize = 256 * 1024 * 1024;

fn key(cipher: Cipher) -> TrafficKey {
    TrafficKey::new(cipher, &vec![7; cipher.key_bytes()], &[9; 12]).expect("the length is right")
}

fn sealer(cipher: Cipher) -> Sealer {
    Sealer::new(Version::Tls13, &key(cipher), 0, u64::MAX).expect("a good key")
}

/// Batches of 64 KiB, as they go to a socket.
fn batches(criterion: &mut Criterion) {
    let body: Vec<u8> = (0..BODY_BYTES).map(|index| index as u8).collect();
    let mut out = vec![0; BATCH_BYTES + 8 * OVERHEAD_BYTES_MAX + PLAINTEXT_BYTES_MAX];
    let mut group = criterion.benchmark_group("seal 64 KiB");
    group.throughput(Throughput::Bytes(BATCH_BYTES as u64));
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Chacha20Poly1305] {
        for (place, bytes) in [("cache", 4 * BATCH_BYTES), ("memory", BODY_BYTES)] {
            let mut sealer = sealer(cipher);
            let mut start = 0;
            group.bench_function(BenchmarkId::new(format!("{cipher:?}"), place), |bencher| {
                bencher.iter(|| {
                    let pieces = [IoSlice::new(&body[start..start + BATCH_BYTES])];
                    start = (start + BATCH_BYTES) % bytes;
                    black_box(sealer.seal_pieces(&pieces, BATCH_BYTES, &mut out))
                });
            });
        }
    }
    group.finish();
}

/// A head and a body in one record.
fn small_response(criterion: &mut Criterion) {
    let (head, body) = ([1; 300], [2; 1000]);
    let mut out = vec![0; 2 * PLAINTEXT_BYTES_MAX];
    let mut sealer = sealer(Cipher::Aes128Gcm);
    criterion.bench_function("seal head and 1000 bytes", |bencher| {
        bencher.iter(|| {
            let pieces = [IoSlice::new(&head), IoSlice::new(&body)];
            black_box(sealer.seal_pieces(black_box(&pieces), BATCH_BYTES, &mut out))
        });
    });
}

/// Opening in place; the copy of the record that is opened is made outside the measurement.
fn opening(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("open");
    for bytes in [200, PLAINTEXT_BYTES_MAX] {
        let mut record = vec![0; bytes + OVERHEAD_BYTES_MAX];
        let plain = vec![3; bytes];
        let sealed =
            sealer(Cipher::Aes128Gcm).seal(ContentType::ApplicationData, &plain, &mut record);
        record.truncate(sealed.expect("it fits"));
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter_batched(
                || {
                    let opener = Opener::new(Version::Tls13, &key(Cipher::Aes128Gcm), 0);
                    (opener.expect("a good key"), record.clone())
                },
                |(mut opener, mut record)| black_box(opener.open(&mut record).is_ok()),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, batches, small_response, opening);
criterion_main!(benches);
