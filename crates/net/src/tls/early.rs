//! Sessions whose clients may send data before their next handshake is over (RFC 8446 §2.3).
//!
//! What was sent so may have been recorded, and be sent again by anybody. So these sessions are not in
//! tickets, which could be shown twice: they are kept here, each goes with the first handshake that
//! continues it (§8.1), and no other process knows them. Nor has early data shown where it comes from,
//! so a session is continued from the address alone that its client had: nobody asks, or is refused, in
//! another's name.

use crate::limits::EARLY_SESSIONS_MAX;
use crate::tls::client_auth::AsksClients;
use crate::tls::continued::Continued;
use rustls::ServerConfig;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The sessions of a listener, shared by its workers.
#[derive(Clone, Debug)]
pub struct EarlySessions {
    kept: Arc<ServerSessionMemoryCache>,
    continued: Option<Continued>,
}

impl EarlySessions {
    /// No sessions, with room for [`EARLY_SESSIONS_MAX`], of clients that are asked for certificates by these.
    pub fn new(asks: Option<Arc<dyn AsksClients>>) -> Self {
        let kept = ServerSessionMemoryCache::new(EARLY_SESSIONS_MAX);
        Self { kept, continued: asks.map(Continued::by) }
    }

    /// `config` for one connection, of a client at this address. `limits` is a number for what it is
    /// told of limits, another for others: early data goes by those of the session before, so sessions
    /// of others are not continued (RFC 9000 §7.4.1).
    pub fn config_for(
        &self,
        config: &ServerConfig,
        client: IpAddr,
        limits: u64,
    ) -> Arc<ServerConfig> {
        let mut config = config.clone();
        config.session_storage = Arc::new(self.of(client, limits));
        Arc::new(config)
    }

    fn of(&self, client: IpAddr, limits: u64) -> Bound {
        let client = match client {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Bound { sessions: self.clone(), client, limits }
    }
}

/// The sessions that one client may continue.
#[derive(Debug)]
struct Bound {
    sessions: EarlySessions,
    client: Ipv6Addr,
    limits: u64,
}

/// What a session is bound to is at its end.
const BOUND_BYTES: usize = 16 + 8;

impl Bound {
    fn bound(&self) -> [u8; BOUND_BYTES] {
        let mut out = [0; BOUND_BYTES];
        let (client, limits) = out.split_at_mut(16);
        client.copy_from_slice(&self.client.octets());
        limits.copy_from_slice(&self.limits.to_be_bytes());
        out
    }
}

impl StoresServerSessions for Bound {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let marked = match &self.sessions.continued {
            Some(continued) => continued.mark(&value),
            None => Some(value),
        };
        let Some(mut value) = marked else { return false };
        value.extend(self.bound());
        self.sessions.kept.put(key, value)
    }

    /// For TLS 1.2 alone, which has no early data.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = self.sessions.kept.take(key)?;
        let bound = value.split_off(value.len().checked_sub(BOUND_BYTES)?);
        if bound != self.bound() {
            return None;
        }
        match &self.sessions.continued {
            Some(continued) => continued.unmark(value),
            None => Some(value),
        }
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_continued_once_from_one_address_and_under_the_same_limits() {
        let sessions = EarlySessions::new(None);
        let (here, there) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let of = sessions.of(here, 7);
        for key in [b"a", b"b", b"c"] {
            assert!(of.put(key.to_vec(), b"session".to_vec()));
        }
        assert_eq!(of.get(b"a"), None);
        assert_eq!(of.take(b"a").as_deref(), Some(&b"session"[..]));
        assert_eq!(of.take(b"a"), None);
        assert_eq!(sessions.of(here, 8).take(b"b"), None);
        assert_eq!(sessions.of(there, 7).take(b"c"), None);
        // What was shown elsewhere is no secret any more.
        assert_eq!(of.take(b"c"), None);
    }
}
