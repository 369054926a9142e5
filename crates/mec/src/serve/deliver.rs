//! Delivers notifications: one request each, to an address that was looked at.

use crate::limits::DELIVERY_MS_MAX;
use freshet_net::address::Address;
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls::client::{ClientOptions, client_config, connect};
use freshet_platform::callback::{CallbackPolicy, Target};
use freshet_platform::notify::Notice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// Bytes of an answer until its status is said.
const STATUS_BYTES: usize = 12;
/// Bytes of an answer that are read, with the interim ones before it.
const ANSWER_BYTES_MAX: usize = 16 << 10;
const LIMIT: Duration = Duration::from_millis(DELIVERY_MS_MAX);

type Tls = Arc<rustls::ClientConfig>;

/// Delivers.
pub(super) struct Courier {
    policy: CallbackPolicy,
    /// Made when the first callback under TLS is asked.
    tls: OnceLock<Option<Tls>>,
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Courier")
    }
}

impl Courier {
    pub(super) fn new(policy: CallbackPolicy) -> Self {
        Self { policy, tls: OnceLock::new() }
    }

    /// Has a client take a notification, within [`DELIVERY_MS_MAX`]. A redirect is no success: it
    /// might lead to where callbacks may not go.
    pub(super) async fn deliver(&self, notice: &Notice) -> Result<(), String> {
        match timeout(LIMIT, self.send(&notice.target, &notice.body.to_string())).await {
            Ok(result) => result,
            Err(_) => Err("it took too long".to_owned()),
        }
    }

    async fn send(&self, target: &Target, body: &str) -> Result<(), String> {
        let say = |error: &dyn std::fmt::Display| error.to_string();
        let found =
            lookup_host((target.host.as_str(), target.port)).await.map_err(|error| say(&error))?;
        // The address that was looked at is the one that is asked, whatever the name means next.
        let address = found.into_iter().find(|address| self.policy.allows(address.ip()));
        let address = address.ok_or("its address is none that callbacks may have")?;
        let socket =
            Socket::connect(&Address::Tcp(address), LIMIT).await.map_err(|error| say(&error))?;
        let mut stream = if target.is_secure {
            let make = || client_config(&ClientOptions::default()).ok();
            let tls = self
                .tls
                .get_or_init(make)
                .as_ref()
                .ok_or("this machine has no authorities to trust")?;
            connect(socket, tls, &target.host, LIMIT).await.map_err(|error| say(&error))?
        } else {
            Stream::from(socket)
        };
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            target.path,
            target.authority(),
            body.len()
        );
        stream.write_all(request.as_bytes()).await.map_err(|error| say(&error))?;
        AsyncWriteExt::flush(&mut stream).await.map_err(|error| say(&error))?;
        let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
        while answer.len() < ANSWER_BYTES_MAX {
            if let Some(line) = status_line(&answer) {
                return match line.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)) {
                    Some([b'2', _, _]) => Ok(()),
                    _ => Err(format!("it answers {}", String::from_utf8_lossy(line))),
                };
            }
            match stream.read(&mut piece).await.map_err(|error| say(&error))? {
                0 => return Err("it ends before its answer does".to_owned()),
                bytes => answer.extend_from_slice(&piece[..bytes]),
            }
        }
        Err("its answer does not come to a status".to_owned())
    }
}

/// The beginning of an answer, where it is there: what goes before are interim ones, which say nothing of what
/// becomes of a request (RFC 9110 §15.2), but for 101, after which another protocol would be spoken.
fn status_line(mut answer: &[u8]) -> Option<&[u8]> {
    loop {
        let line = answer.get(..STATUS_BYTES)?;
        let is_interim = line.starts_with(b"HTTP/1.") && line[9] == b'1' && !line.ends_with(b"101");
        if !is_interim {
            return Some(line);
        }
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        answer = &answer[end + 4..];
    }
}
