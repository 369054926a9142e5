//! A connection after `101 Switching Protocols` or a pipe: bytes both ways until one side ends.

use freshet_net::stream::Stream;
use freshet_request::client_exchange::Tunnel;
use freshet_worker::worker::Worker;
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::time::{Instant, timeout_at};

/// Bytes moved at a time in each direction.
const BUFFER_BYTES: usize = 16 << 10;

/// Bytes that went through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// From the client, but the request's head.
    pub(super) up: u64,
    /// To the client.
    pub(super) down: u64,
}

/// Relays between a client and an origin. `read` are the client's bytes read already.
pub(super) async fn run(worker: &Worker, client: Stream, read: Vec<u8>, tunnel: Tunnel) -> Moved {
    let Tunnel { connection, first, idle, lasts_max, record } = tunnel;
    let origin = Arc::clone(connection.origin());
    let (mut client_read, mut client_write) = split(client);
    let (mut origin_read, mut origin_write) = connection.into_halves();
    let moving = Moving::begin(idle, lasts_max);
    let up = async {
        moving.within(origin_write.write_all(&first)).await??;
        moving.within(origin_write.write_all(&read)).await??;
        let bytes = read.len() as u64 + relay(&mut client_read, &mut origin_write, &moving).await;
        worker.stats.request_body_bytes.add(bytes);
        io::Result::Ok(bytes)
    };
    let down = async {
        let bytes = relay(&mut origin_read, &mut client_write, &moving).await;
        worker.stats.body_bytes.add(bytes);
        bytes
    };
    let (up, down) = tokio::join!(up, down);
    worker.stats.pipes_ended.increment();
    let moved = Moved { up: up.unwrap_or(0), down };
    // What an upgrade makes a tunnel was a request of its own, with a head that is counted as such.
    if record.is_some() {
        origin.stats.tunnel_head_bytes.add(first.len() as u64);
        origin.stats.tunnel_bytes_sent.add(moved.up);
        origin.stats.tunnel_bytes_received.add(moved.down);
    }
    moved
}

/// When something moved last, whichever way: often only one side speaks.
struct Moving {
    last: Cell<Instant>,
    idle: Duration,
    /// When it is over, whatever moves.
    end: Option<Instant>,
}

impl Moving {
    fn begin(idle: Duration, lasts_max: Option<Duration>) -> Self {
        let now = Instant::now();
        let end = lasts_max.and_then(|most| now.checked_add(most));
        Self { last: Cell::new(now), idle, end }
    }

    /// Until when something has to move.
    fn until(&self) -> Instant {
        let idle = self.last.get() + self.idle;
        self.end.map_or(idle, |end| idle.min(end))
    }

    /// What a step comes to, unless nothing moves in either direction for too long.
    async fn within<T>(&self, step: impl Future<Output = T>) -> io::Result<T> {
        let mut step = pin!(step);
        loop {
            let until = self.until();
            if let Ok(done) = timeout_at(until, &mut step).await {
                self.last.set(Instant::now());
                return Ok(done);
            }
            if self.until() <= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// Moves bytes until the end of `from`, tells `to` of it, and returns how many there were.
async fn relay(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    moving: &Moving,
) -> u64 {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    loop {
        let count = match moving.within(from.read(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => count,
            _ => break,
        };
        let written = async {
            to.write_all(&buffer[..count]).await?;
            to.flush().await
        };
        if !matches!(moving.within(written).await, Ok(Ok(()))) {
            return total;
        }
        total += count as u64;
    }
    let _ = to.shutdown().await;
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_side_may_be_silent_for_as_long_as_the_other_speaks() {
        let moving = Moving::begin(Duration::from_secs(3), None);
        let (mut origin, mut from_origin) = tokio::io::duplex(64);
        let (mut client, mut to_client) = tokio::io::duplex(64);
        let (silent, mut from_silent) = tokio::io::duplex(64);
        let mut nowhere = tokio::io::sink();
        let begun = Instant::now();
        let speaking = async {
            let mut got = [0; 4];
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(2)).await;
                origin.write_all(b"tick").await.unwrap();
                client.read_exact(&mut got).await.unwrap();
            }
        };
        let (up, down, ()) = tokio::join!(
            relay(&mut from_silent, &mut nowhere, &moving),
            relay(&mut from_origin, &mut to_client, &moving),
            speaking,
        );
        assert_eq!((up, down), (0, 40));
        // Then nothing moved.
        assert_eq!(begun.elapsed().as_secs(), 23);
        drop(silent);
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_last_for_so_long_ends_then_whatever_moves() {
        let moving = Moving::begin(Duration::from_secs(3), Some(Duration::from_secs(11)));
        let (mut origin, mut from_origin) = tokio::io::duplex(64);
        let begun = Instant::now();
        let speaking = async {
            while origin.write_all(b"tick").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(2)).await;
                if begun.elapsed() > Duration::from_secs(60) {
                    break;
                }
            }
        };
        let mut nowhere = tokio::io::sink();
        let relaying = async {
            let moved = relay(&mut from_origin, &mut nowhere, &moving).await;
            drop(from_origin);
            (moved, begun.elapsed().as_secs())
        };
        let ((moved, seconds), ()) = tokio::join!(relaying, speaking);
        assert_eq!((moved, seconds), (24, 11));
    }
}
