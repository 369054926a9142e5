//! A connection after `101 Switching Protocols` or a pipe: bytes both ways until one side ends.

use crate::exchange::Tunnel;
use crate::worker::Worker;
use freshet_net::stream::Stream;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};

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
    let Tunnel { connection, first, idle, record: _record } = tunnel;
    let (mut client_read, mut client_write) = split(client);
    let (mut origin_read, mut origin_write) = connection.into_halves();
    let up = async {
        origin_write.write_all(&first).await?;
        origin_write.write_all(&read).await?;
        let bytes = read.len() as u64 + relay(&mut client_read, &mut origin_write, idle).await;
        worker.stats.request_body_bytes.add(bytes);
        std::io::Result::Ok(bytes)
    };
    let down = async {
        let bytes = relay(&mut origin_read, &mut client_write, idle).await;
        worker.stats.body_bytes.add(bytes);
        bytes
    };
    let (up, down) = tokio::join!(up, down);
    worker.stats.pipes_ended.increment();
    Moved { up: up.unwrap_or(0), down }
}

/// Moves bytes until the end of `from`, tells `to` of it, and returns how many there were.
async fn relay(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    idle: Duration,
) -> u64 {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    loop {
        let count = match tokio::time::timeout(idle, from.read(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => count,
            _ => break,
        };
        if to.write_all(&buffer[..count]).await.is_err() || to.flush().await.is_err() {
            return total;
        }
        total += count as u64;
    }
    let _ = to.shutdown().await;
    total
}
