//! What records cost in instructions of ours.

#[path = "../../../../bench/instructions/count.rs"]
mod count;

use crate::common::*;
use freshet_net::stream::Stream;
use freshet_wire::tls::{
    Cipher, ContentType, OVERHEAD_BYTES_MAX, Opener, PLAINTEXT_BYTES_MAX, Sealer, TrafficKey,
    Version,
};
use std::hint::black_box;
use std::io::IoSlice;

fn key() -> TrafficKey {
    TrafficKey::new(Cipher::Aes128Gcm, &[7; 16], &[9; 12]).unwrap()
}

fn sealer() -> Sealer {
    Sealer::new(Version::Tls13, &key(), 0, u64::MAX).unwrap()
}

#[test]
fn sealing_a_batch_of_four_records() {
    count::check("tls-seal-64k", |rounds| {
        let mut sealer = sealer();
        let body = vec![7; 4 * PLAINTEXT_BYTES_MAX];
        let mut out = vec![0; 5 * (PLAINTEXT_BYTES_MAX + OVERHEAD_BYTES_MAX)];
        for _ in 0..rounds {
            let pieces = [IoSlice::new(black_box(&body))];
            let sealed = sealer.seal_pieces(&pieces, body.len(), &mut out).unwrap();
            assert_eq!(sealed.taken_bytes, body.len());
        }
    });
}

#[test]
fn sealing_a_small_response() {
    count::check("tls-seal-small", |rounds| {
        let mut sealer = sealer();
        let (head, body) = ([1; 300], [2; 1000]);
        let mut out = vec![0; 2 * PLAINTEXT_BYTES_MAX];
        for _ in 0..rounds {
            let pieces = [IoSlice::new(black_box(&head)), IoSlice::new(black_box(&body))];
            let sealed = sealer.seal_pieces(&pieces, 65_536, &mut out).unwrap();
            assert_eq!(sealed.taken_bytes, 1300);
        }
    });
}

#[test]
fn opening_a_request() {
    count::check("tls-open-small", |rounds| {
        let mut sealer = sealer();
        let mut opener = Opener::new(Version::Tls13, &key(), 0).unwrap();
        let mut record = [0; 300];
        for _ in 0..rounds {
            let request = black_box([3; 200]);
            let bytes = sealer.seal(ContentType::ApplicationData, &request, &mut record).unwrap();
            let opened = opener.open(&mut record[..bytes]).unwrap().unwrap();
            assert_eq!(opened.record_bytes, bytes);
        }
    });
}

#[test]
fn a_small_response_through_a_stream() {
    count::check("tls-stream-small", |rounds| {
        run(async {
            let authority = Authority::new();
            let options = freshet_net::tls::server::ServerOptions::default();
            let config = localhost(&authority, &options);
            let (client, mut server) = tls_pair(&authority.client(), &config).await;
            let (head, body) = ([1; 300], [2; 1000]);
            let mut drained = vec![0; 1 << 16];
            for _ in 0..rounds {
                let pieces = [IoSlice::new(black_box(&head)), IoSlice::new(black_box(&body))];
                server.write_pieces(&pieces).await.unwrap();
                drain(&client, &mut drained);
            }
        });
    });
}

/// Takes what the kernel has for `client` without opening it.
fn drain(client: &Stream, into: &mut [u8]) {
    use std::os::fd::AsFd;
    rustix::net::recv(client.socket().as_fd(), into, rustix::net::RecvFlags::DONTWAIT).unwrap();
}
