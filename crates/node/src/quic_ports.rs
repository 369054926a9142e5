//! UDP ports of HTTP/3 beside the TCP ports of a listener.

use crate::worker::QuicPort;
use freshet_net::NetError;
use freshet_net::limits::UDP_BUFFER_BYTES;
use freshet_net::quic::port::UdpPort;
use freshet_net::quic::sorting::Secrets;
use freshet_net::quic::steering::{self, Steering};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc::channel;

/// Datagrams that may wait for a worker that they did not reach by themselves.
const PASSED_MAX: usize = 256;
/// How long clients may remember that there is HTTP/3, in seconds: a day. Turned off, they find out by
/// asking in vain once.
const ADVERTISED_S: u32 = 86_400;

/// Binds a UDP port for each worker, in their order.
///
/// # Errors
/// [`NetError::LocalBind`].
pub(crate) fn open(
    name: &Arc<str>,
    address: SocketAddr,
    tls: &Arc<ServerConfig>,
    workers: &mut [Vec<QuicPort>],
) -> Result<(), NetError> {
    let secrets = Arc::new(Secrets::random());
    let count = workers.len();
    let ways: Vec<_> = workers.iter().map(|_| channel(PASSED_MAX)).collect();
    let (senders, receivers): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
    let senders: Arc<[_]> = senders.into();
    for ((index, worker), passed) in workers.iter_mut().enumerate().zip(receivers) {
        // More workers than ids can tell apart: the last of them take none.
        let Some(steering) = Steering::new(index, count.min(usize::from(u8::MAX))) else { break };
        let udp = UdpPort::bind(address)?;
        if index == 0 {
            if udp.receive_buffer_bytes() < UDP_BUFFER_BYTES {
                tracing::warn!(
                    %address,
                    bytes = udp.receive_buffer_bytes(),
                    "the kernel keeps few datagrams for HTTP/3: \
                     sysctl -w net.core.rmem_max={UDP_BUFFER_BYTES} net.core.wmem_max={UDP_BUFFER_BYTES}"
                );
            }
            // Without it workers pass on what is not theirs.
            if let Err(error) = steering::attach(&udp, steering.workers) {
                tracing::info!(%address, %error, "the kernel does not steer datagrams to workers");
            }
        }
        worker.push(QuicPort {
            name: Arc::clone(name),
            udp,
            tls: Arc::clone(tls),
            steering,
            secrets: Arc::clone(&secrets),
            passed,
            workers: Arc::clone(&senders),
        });
    }
    Ok(())
}

/// What responses over TCP say of it (RFC 7838 §3).
pub(crate) fn advertisement(port: u16) -> Arc<str> {
    format!("h3=\":{port}\"; ma={ADVERTISED_S}").into()
}
