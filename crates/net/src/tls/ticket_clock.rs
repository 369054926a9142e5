//! Keys of session tickets that the nodes of a fleet make of one secret and the clock, with no message
//! between them.
//!
//! The secret is the one that `freshet fleet secret` makes, in a file at each node. Tickets get keys of
//! their own from it: for each fleet, purpose and period another, none of which tells of the secret or of
//! the others. Whoever has the secret has them all.

use crate::error::NetError;
use crate::tls::ticket::{ROTATION, SECRET_BYTES, TicketKeys, TicketSecret};
use freshet_base::hexadecimal;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a file with a secret: more than it has.
const FILE_BYTES_MAX: u64 = 1024;

/// What keys are made of.
#[derive(Debug)]
pub struct TicketClock(TicketSecret);

impl TicketClock {
    /// Reads the secret of the fleet of this name.
    ///
    /// # Errors
    /// [`NetError::ConfigFile`] where it cannot be read or is none.
    pub fn open(path: &Path, fleet: &str) -> Result<Self, NetError> {
        let text = freshet_base::file::read_text(path, FILE_BYTES_MAX)
            .map_err(|error| NetError::file(path, error))?;
        let secret = hexadecimal::decode(text.trim()).map(TicketSecret::new).ok_or_else(|| {
            let digits = 2 * SECRET_BYTES;
            let why = format!(
                "a fleet's secret is {digits} hexadecimal digits, as `freshet fleet secret` makes it"
            );
            NetError::file(path, why)
        })?;
        Ok(Self(secret.derive(&[b"freshet tickets of a fleet\n", fleet.as_bytes()])))
    }

    /// Keys for one purpose, another each [`ROTATION`]. Those for another do not open what they seal.
    pub fn keys(&self, purpose: &str) -> Arc<TicketKeys> {
        TicketKeys::by_clock(self.0.derive(&[purpose.as_bytes()]), ROTATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::server::ProducesTickets as _;

    #[test]
    fn nodes_of_a_fleet_open_each_others_tickets_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (secret, same) = ("0123456789abcdef".repeat(4), "0123456789ABCDEF".repeat(4));
        let open = |path: &Path, fleet: &str, purpose: &str| {
            TicketClock::open(path, fleet).unwrap().keys(purpose)
        };
        let secret = file("secret", format!("{secret}\n"));
        let ticket = open(&secret, "fleet", "tls").encrypt(b"state").unwrap();
        let opens = |path: &Path, fleet: &str, purpose: &str| {
            open(path, fleet, purpose).decrypt(&ticket).is_some()
        };
        assert!(opens(&file("same", same), "fleet", "tls"));
        assert!(!opens(&secret, "fleet", "quic"), "for another purpose");
        assert!(!opens(&secret, "other", "tls"), "of another fleet");
        assert!(!opens(&file("another", "1".repeat(64)), "fleet", "tls"));
    }

    #[test]
    fn what_is_no_secret_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let wrong = |says: &str| {
            let error = TicketClock::open(&path, "fleet").unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        wrong("No such file");
        for text in [String::new(), "f".repeat(63), "+f".repeat(32), "g".repeat(64), "ä".repeat(32)]
        {
            std::fs::write(&path, text).unwrap();
            wrong("64 hexadecimal digits");
        }
        std::fs::write(&path, "f".repeat(2000)).unwrap();
        wrong("1024 bytes");
    }
}
