//! UDP ports of HTTP/3 beside the TCP ports of a listener.

use freshet_base::file::read;
use freshet_base::private;
use freshet_net::NetError;
use freshet_net::handover::{Inherited, pass_on_udp};
use freshet_net::limits::UDP_BUFFER_BYTES;
use freshet_net::quic::port::UdpPort;
use freshet_net::quic::relay::{Heard, Relay, Word};
use freshet_net::quic::secrets::{SECRET_BYTES, Secrets};
use freshet_net::quic::steering::{self, Steering};
use freshet_quic::Algorithm;
use freshet_session::QuicPort;
use rustls::ServerConfig;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, channel, unbounded_channel};

/// Datagrams that may wait for a worker that they did not reach by themselves.
const PASSED_MAX: usize = 256;
/// Where secrets are kept, in the folder that outlives the process.
const SECRETS_FILE: &str = "quic.key";
/// How long clients may remember that there is HTTP/3, in seconds: a day. Turned off, they find out by
/// asking in vain once.
const ADVERTISED_S: u32 = 86_400;

/// A port that a worker serves, to who passes it on.
pub(crate) struct Served {
    address: SocketAddr,
    socket: OwnedFd,
    secrets: Arc<Secrets>,
    /// Takes the line to the process that takes over.
    heirs: UnboundedSender<Relay>,
}

impl Served {
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        self.address == address
    }
}

/// The ends of lines that a new process inherits. Dropped once that was started: they end when it does.
#[derive(Debug, Default)]
pub struct Lines(
    #[expect(dead_code, reason = "open until the new process has its own")] Vec<OwnedFd>,
);

/// Binds a UDP port for each worker, in their order, or takes over those of the process before. All
/// that were bound before get a worker.
///
/// # Errors
/// [`NetError::LocalBind`]; not even one worker has a port.
pub(crate) fn open(
    name: &Arc<str>,
    address: SocketAddr,
    tls: &Arc<ServerConfig>,
    (inherited, own): (&mut Inherited, &Arc<Secrets>),
    workers: &mut [Vec<QuicPort>],
) -> Result<Vec<Served>, NetError> {
    let mut ports = inherited.take_udp(address);
    // What was said first over a line, so that the other process' tokens are good here too.
    let secrets = ports.iter().find_map(|(_, line)| match line.as_ref()?.heard_already()? {
        Heard::Secrets(bytes) => Some(Secrets::from_bytes(&bytes)),
        _ => None,
    });
    let secrets = secrets.map_or_else(|| Arc::clone(own), Arc::new);
    let before = ports.iter().filter(|(_, line)| line.is_some()).count();
    while ports.len() < workers.len() {
        match UdpPort::bind(address) {
            Ok(port) => ports.push((port, None)),
            Err(error) if ports.is_empty() => return Err(error),
            Err(error) => {
                tracing::info!(%address, %error, "not every worker has a port for HTTP/3");
                break;
            }
        }
    }
    // More than ids can tell apart: the last workers have none.
    ports.truncate(usize::from(u8::MAX));
    let count = ports.len();
    if let Some((port, _)) = ports.first() {
        look_at_buffers(port);
        // Without it workers pass on what is not theirs.
        if let Err(error) = steering::attach(port, u8::try_from(count).unwrap_or(u8::MAX)) {
            tracing::info!(%address, %error, "the kernel does not steer datagrams to workers");
        }
    }
    let (senders, receivers): (Vec<_>, Vec<_>) = ports.iter().map(|_| channel(PASSED_MAX)).unzip();
    let senders: Arc<[_]> = senders.into();
    let tokens = Arc::default();
    let mut served = Vec::with_capacity(count);
    for ((index, (udp, elder)), passed) in ports.into_iter().enumerate().zip(receivers) {
        let Some(steering) = Steering::new(index, count) else { break };
        let Some(worker) = workers.get_mut(index % workers.len().max(1)) else { break };
        let (heirs, heir) = unbounded_channel();
        if let Ok(socket) = udp.descriptor() {
            served.push(Served { address, socket, secrets: Arc::clone(&secrets), heirs });
        }
        worker.push(QuicPort {
            name: Arc::clone(name),
            udp,
            tls: Arc::clone(tls),
            verifies_clients: false,
            early: None,
            congestion: Algorithm::Cubic,
            steering,
            secrets: Arc::clone(&secrets),
            tokens: Arc::clone(&tokens),
            passed,
            workers: Arc::clone(&senders),
            elder,
            before: u8::try_from(before).unwrap_or(u8::MAX),
            heirs: heir,
        });
    }
    Ok(served)
}

/// Lets the process that `command` starts have these ports once they are drained.
///
/// # Errors
/// There are no descriptors left.
pub(crate) fn pass_on(command: &mut Command, served: &[Served]) -> io::Result<Lines> {
    let mut lines = Vec::with_capacity(served.len());
    for port in served {
        let (ours, theirs) = Relay::pair()?;
        // Who does not hear it has secrets of its own.
        let _ = ours.say(Word::Secrets(port.secrets.as_bytes()));
        // A worker that has ended needs none.
        let _ = port.heirs.send(ours);
        lines.push(theirs);
    }
    let pairs: Vec<_> =
        served.iter().zip(&lines).map(|(port, line)| (port.socket.as_fd(), line.as_fd())).collect();
    pass_on_udp(command, &pairs);
    Ok(Lines(lines))
}

/// The secrets of this process where it takes over from none. Those in the folder that outlives it, if there is
/// one, so that clients of a process that was killed believe that nothing is known of their connections
/// (RFC 9000 §10.3), and need not wait until they notice.
pub(crate) fn secrets(state: Option<&Path>) -> Arc<Secrets> {
    let kept = state.map(|folder| kept_secrets(&folder.join(SECRETS_FILE)));
    Arc::new(match kept {
        Some(Ok(secrets)) => secrets,
        Some(Err(error)) => {
            tracing::warn!(%error, file = SECRETS_FILE, "secrets of HTTP/3 are not kept");
            Secrets::random()
        }
        None => Secrets::random(),
    })
}

/// Reads them, or draws and keeps them where none are whole.
fn kept_secrets(file: &Path) -> io::Result<Secrets> {
    match read(file, SECRET_BYTES as u64) {
        Ok(bytes) => {
            if let Ok(bytes) = bytes.as_slice().try_into() {
                return Ok(Secrets::from_bytes(bytes));
            }
        }
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::FileTooLarge) => {
            return Err(error);
        }
        Err(_) => {}
    }
    let secrets = Secrets::random();
    private::replace(file, secrets.as_bytes())?;
    Ok(secrets)
}

/// What responses over TCP say of it (RFC 7838 §3).
pub(crate) fn advertisement(port: u16) -> Arc<str> {
    format!("h3=\":{port}\"; ma={ADVERTISED_S}").into()
}

fn look_at_buffers(port: &UdpPort) {
    let bytes = port.receive_buffer_bytes();
    if bytes < UDP_BUFFER_BYTES {
        tracing::warn!(
            address = %port.local_address(),
            bytes,
            "the kernel keeps few datagrams for HTTP/3: \
             sysctl -w net.core.rmem_max={UDP_BUFFER_BYTES} net.core.wmem_max={UDP_BUFFER_BYTES}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_are_those_of_the_process_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(SECRETS_FILE);
        let first = *secrets(Some(folder.path())).as_bytes();
        assert_eq!(*secrets(Some(folder.path())).as_bytes(), first);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(*secrets(None).as_bytes(), first);
        // What a disk left of them is none.
        fs::write(&file, [1; SECRET_BYTES - 1]).unwrap();
        let next = *secrets(Some(folder.path())).as_bytes();
        assert_ne!(next, first);
        assert_eq!(*secrets(Some(folder.path())).as_bytes(), next);
        // Without a folder they are this process's.
        assert_ne!(*secrets(Some(&folder.path().join("away"))).as_bytes(), next);
    }
}
