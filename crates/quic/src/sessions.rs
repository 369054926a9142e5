//! Sessions of version 2: they are not continued under version 1, and the other way round (RFC 9369 §5).

use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};
use std::sync::Arc;

/// What sessions of version 2 begin with. As one of version 1 it would be of a server that cannot be: a
/// name of seven bytes with a space in it.
const MARK: &[u8; 9] = b"\x01\x07quic v2";

/// The configuration for a connection of version 2.
pub(super) fn of_version_2(config: &ServerConfig) -> ServerConfig {
    let mut config = config.clone();
    config.ticketer = Arc::new(Marked(config.ticketer));
    config.session_storage = Arc::new(Marked(config.session_storage));
    config
}

/// Tickets, or a memory of sessions, all of version 2.
#[derive(Debug)]
struct Marked<T>(T);

fn marked(session: &[u8]) -> Vec<u8> {
    [MARK, session].concat()
}

fn unmarked(session: Vec<u8>) -> Option<Vec<u8>> {
    session.strip_prefix(MARK).map(<[u8]>::to_vec)
}

impl ProducesTickets for Marked<Arc<dyn ProducesTickets>> {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(&marked(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        unmarked(self.0.decrypt(cipher)?)
    }
}

impl StoresServerSessions for Marked<Arc<dyn StoresServerSessions>> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, marked(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        unmarked(self.0.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        unmarked(self.0.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.0.can_cache()
    }
}
