//! A connection after `101 Switching Protocols` or a pipe: bytes both ways until one side ends.

use crate::worker::Worker;
use freshet_net::stream::Stream;
use freshet_origin::raw::RawConnection;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};

/// Bytes moved at a time in each direction.
const BUFFER_BYTES: usize = 16 << 10;
/// A tunnel in which nothing moves for this long is ended; WebSockets ping more often.
const IDLE: Duration = Duration::from_secs(600);

/// The origin's end of a connection that becomes a tunnel.
pub struct Tunnel(pub RawConnection);

/// Relays between a client and an origin. `read` are the client's bytes read already.
pub(super) async fn run(worker: &Worker, client: Stream, read: Vec<u8>, tunnel: Tunnel) {
    let (mut client_read, mut client_write) = split(client);
    let (mut origin_read, mut origin_write) = tunnel.0.into_halves();
    let up = async {
        origin_write.write_all(&read).await?;
        let bytes = relay(&mut client_read, &mut origin_write).await;
        worker.stats.request_body_bytes.add(bytes + read.len() as u64);
        std::io::Result::Ok(())
    };
    let down = async {
        let bytes = relay(&mut origin_read, &mut client_write).await;
        worker.stats.body_bytes.add(bytes);
        std::io::Result::Ok(())
    };
    let _ = tokio::join!(up, down);
}

/// Moves bytes until the end of `from`, tells `to` of it, and returns how many there were.
async fn relay(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
) -> u64 {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    loop {
        let count = match tokio::time::timeout(IDLE, from.read(&mut buffer)).await {
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
