//! What a hit costs in instructions of ours.

#[path = "../../../../bench/instructions/count.rs"]
mod count;

use crate::client::{Client, HOST};
use crate::harness::{Setup, pattern, run};
use crate::origin::{Origin, fresh};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Asks for an object that is cached, over one connection, `rounds` times.
fn hits(rounds: u64, body_bytes: u64) {
    run(async {
        let origin = Origin::serve(move |_| fresh(pattern(1, 0..body_bytes)));
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        let response = Client::to(&node).await.get("/object").await;
        assert_eq!(response.body.len() as u64, body_bytes);
        // A blocking client costs next to nothing of Rust code.
        let mut client = TcpStream::connect(node.address()).unwrap();
        let request = format!("GET /object HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: count\r\n\r\n");
        let mut received = vec![0; 64 << 10];
        for _ in 0..rounds {
            client.write_all(request.as_bytes()).unwrap();
            let mut count = client.read(&mut received).unwrap();
            let head = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            let bytes = head + 4 + response.body.len();
            while count < bytes {
                count += client.read(&mut received[count..]).unwrap();
            }
            assert_eq!(count, bytes);
        }
        assert_eq!(node.count("hits"), rounds);
    });
}

#[test]
fn a_small_hit() {
    count::check("hit-small", |rounds| hits(rounds, 1024));
}

#[test]
fn a_hit_of_several_pages() {
    count::check("hit-32k", |rounds| hits(rounds, 32 << 10));
}
