//! What data over QUIC costs in instructions of ours.

#[path = "../../../../bench/instructions/count.rs"]
mod count;

use crate::raw::Raw;
use crate::requests::get;

/// Sends 64 KB so often, of which so many datagrams are acknowledged at a time, or whatever came
/// together.
fn send(rounds: u64, acknowledges_every: usize) {
    let mut raw = Raw::greedy();
    let stream = raw.server.quic.open().expect("the client lets us open one");
    for _ in 0..rounds {
        assert!(raw.server.quic.write(stream, vec![7; 64 << 10]));
        raw.drain(acknowledges_every);
    }
}

#[test]
fn a_batch_of_data() {
    count::check("quic-64k", |rounds| send(rounds, usize::MAX));
}

#[test]
fn a_batch_of_data_of_which_every_second_datagram_is_acknowledged() {
    count::check("quic-64k-ack2", |rounds| send(rounds, 2));
}

#[test]
fn a_small_request() {
    count::check("h3-small", |rounds| {
        let mut raw = Raw::greedy();
        for request in 0..rounds {
            raw.stream(4 * request, 0, &get(), true);
        }
        assert_eq!(raw.requests as u64, rounds);
    });
}
