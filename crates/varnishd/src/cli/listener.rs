//! Where connections of the command line interface come from.

use super::connection::{self, Commands};
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// Connections accepted and not served yet wait in the kernel; those served have a thread each, of
/// which there are never more than these at once.
const CONNECTIONS_MAX: usize = 64;
/// Pause before a connection to whom we report is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Accepts connections on `address`, each served by a thread. Returns the sockets' addresses.
///
/// # Errors
/// When the address cannot be listened on, with its name.
pub(crate) fn listen(
    address: &str,
    commands: Arc<dyn Commands + Send + Sync>,
    secret: Option<PathBuf>,
) -> io::Result<Vec<std::net::SocketAddr>> {
    let mut addresses = Vec::new();
    let mut last = None;
    for resolved in resolve(address)? {
        match TcpListener::bind(resolved) {
            Ok(listener) => {
                addresses.push(listener.local_addr()?);
                let (commands, secret) = (Arc::clone(&commands), secret.clone());
                Builder::new()
                    .name("cli-accept".into())
                    .spawn(move || accept(&listener, &commands, &secret))?;
            }
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) if addresses.is_empty() => {
            Err(io::Error::new(error.kind(), format!("{address}: {error}")))
        }
        _ => Ok(addresses),
    }
}

fn accept(
    listener: &TcpListener,
    commands: &Arc<dyn Commands + Send + Sync>,
    secret: &Option<PathBuf>,
) {
    let open = Arc::new(());
    loop {
        let Ok((socket, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if Arc::strong_count(&open) > CONNECTIONS_MAX {
            continue;
        }
        let (commands, secret) = (Arc::clone(commands), secret.clone());
        let held = Arc::clone(&open);
        let _ = Builder::new().name("cli".into()).spawn(move || {
            serve(socket, &*commands, secret);
            drop(held);
        });
    }
}

/// Keeps connecting to `address`, which drives us over that connection.
///
/// # Errors
/// When the address is none.
pub(crate) fn report_to(
    address: &str,
    commands: Arc<dyn Commands + Send + Sync>,
    secret: PathBuf,
) -> io::Result<()> {
    let addresses = resolve(address)?;
    Builder::new().name("cli-report".into()).spawn(move || {
        loop {
            if let Ok(socket) = TcpStream::connect(&*addresses) {
                serve(socket, &*commands, Some(secret.clone()));
            }
            std::thread::sleep(RETRY);
        }
    })?;
    Ok(())
}

/// A connection that breaks concerns only its other end.
fn serve(socket: TcpStream, commands: &(dyn Commands + Send + Sync), secret: Option<PathBuf>) {
    let _ = socket.set_nodelay(true);
    if let Ok(to) = socket.try_clone() {
        let _ = connection::serve(socket, to, commands, secret);
    }
}

/// Addresses of `host:port`, `host port`, `:port` or `host`, whose port is then any.
pub(crate) fn resolve(text: &str) -> io::Result<Vec<std::net::SocketAddr>> {
    let text = text.trim();
    let (host, port) = match text.rsplit_once([' ', ':']) {
        Some((host, port)) if !port.contains(']') && !host.ends_with(':') => (host, port),
        _ => (text, "0"),
    };
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{text}: no address"));
    let port: u16 = port.trim().parse().map_err(|_| wrong())?;
    let host = if host.is_empty() { "localhost" } else { host };
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(|_| wrong())?.collect();
    if addresses.is_empty() { Err(wrong()) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn addresses_are_read_in_every_form() {
        let all = |text: &str| {
            let addresses = resolve(text).expect(text);
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(all("127.0.0.1:6082"), ["127.0.0.1:6082"]);
        assert_eq!(all("127.0.0.1 6082"), ["127.0.0.1:6082"]);
        assert_eq!(all("[::1]:6082"), ["[::1]:6082"]);
        assert_eq!(all("127.0.0.1"), ["127.0.0.1:0"]);
        assert!(resolve("127.0.0.1:99999").is_err());
    }
}
