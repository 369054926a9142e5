//! Which sessions are continued where clients are asked for certificates: those whose client was asked, and
//! would be let in with what it has shown. Others get a full handshake, in which it may show another.
//!
//! A session's state, as rustls writes it, begins with the name and has the certificates in it. In front of
//! that is a byte here: whether the client was asked. Whoever continues it has been asked as much, and no more.

use crate::tls::client_auth::AsksClients;
use crate::tls::handshake_context::present;
use crate::tls::ticket::TicketKeys;
use rustls::server::ProducesTickets;
use rustls_pki_types::CertificateDer;
use std::fmt;
use std::sync::Arc;

const ASKED: u8 = b'a';
const NOT_ASKED: u8 = b'n';

/// Who decides of sessions.
#[derive(Clone, Debug)]
pub(super) struct Continued(Arc<dyn AsksClients>);

impl Continued {
    pub(super) fn by(asks: Arc<dyn AsksClients>) -> Self {
        Self(asks)
    }

    /// What is kept of the session of the present handshake, in this state; nothing where its client was not let in.
    pub(super) fn mark(&self, state: &[u8]) -> Option<Vec<u8>> {
        let was_asked = present(|handshake| handshake.was_asked());
        let mark = if was_asked { ASKED } else { NOT_ASKED };
        let marked = [&[mark], state].concat();
        self.goes_on(&marked).then_some(marked)
    }

    /// The state of what was kept, where the session may go on in the present handshake.
    pub(super) fn unmark(&self, mut marked: Vec<u8>) -> Option<Vec<u8>> {
        if !self.goes_on(&marked) {
            return None;
        }
        let was_asked = marked.remove(0) == ASKED;
        present(|handshake| handshake.note_asked(was_asked));
        Some(marked)
    }

    fn goes_on(&self, marked: &[u8]) -> bool {
        let Some((&mark, state)) = marked.split_first() else { return false };
        let Some(session) = Shown::read(state) else { return false };
        match (mark, self.0.asks(session.name)) {
            (ASKED | NOT_ASKED, false) => true,
            (ASKED, true) => self.0.lets_in(session.name, &session.chain),
            _ => false,
        }
    }
}

/// Tickets of sessions that go on.
pub(super) struct Tickets {
    pub(super) keys: Arc<TicketKeys>,
    pub(super) continued: Continued,
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.keys.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.keys.lifetime()
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        self.keys.encrypt(&self.continued.mark(state)?)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.continued.unmark(self.keys.decrypt(ticket)?)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// What a client asked for and showed, in a state.
#[derive(Debug, Eq, PartialEq)]
struct Shown<'a> {
    /// Empty where it named none.
    name: &'a str,
    chain: Vec<CertificateDer<'a>>,
}

impl<'a> Shown<'a> {
    /// `None` where the state is not as this version of rustls writes it.
    fn read(state: &'a [u8]) -> Option<Self> {
        let (has_name, state) = flag(state)?;
        let (name, state) = if has_name { sized::<1>(state)? } else { (&[][..], state) };
        // The version and the suite.
        let state = state.get(4..)?;
        let (_secret, state) = sized::<1>(state)?;
        let (_extended, state) = flag(state)?;
        let (has_chain, state) = flag(state)?;
        let mut chain = Vec::new();
        let mut rest = if has_chain { sized::<3>(state)?.0 } else { &[] };
        while !rest.is_empty() {
            let (certificate, behind) = sized::<3>(rest)?;
            chain.push(certificate.into());
            rest = behind;
        }
        Some(Self { name: std::str::from_utf8(name).ok()?, chain })
    }
}

fn flag(bytes: &[u8]) -> Option<(bool, &[u8])> {
    match bytes.split_first()? {
        (0, rest) => Some((false, rest)),
        (1, rest) => Some((true, rest)),
        _ => None,
    }
}

/// What has its size in front, in so many bytes, and what is behind it.
fn sized<const BYTES: usize>(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<BYTES>()?;
    let size = size.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    rest.split_at_checked(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::client_auth::Chain;

    const STATE: &[u8] = b"\x01\x06a.test\x03\x04\x13\x01\x02ms\x01\x01\x00\x00\x09\
        \x00\x00\x02c1\x00\x00\x01c\x00rest";
    const BARE: &[u8] = b"\x00\x03\x04\x13\x01\x02ms\x01\x00\x00rest";

    /// Names for which clients are asked, and whether those without a certificate are let in.
    #[derive(Debug)]
    struct Asking(Option<&'static str>, bool);

    impl AsksClients for Asking {
        fn asks(&self, name: &str) -> bool {
            self.0 == Some(name)
        }

        fn asks_any(&self) -> bool {
            self.0.is_some()
        }

        fn lets_in(&self, _: &str, chain: &Chain<'_>) -> bool {
            chain.first().map_or(self.1, |first| **first == *b"c1")
        }
    }

    fn by(name: Option<&'static str>, anybody: bool) -> Continued {
        Continued::by(Arc::new(Asking(name, anybody)))
    }

    #[test]
    fn a_state_says_what_was_shown() {
        let chain = vec![b"c1"[..].into(), b"c"[..].into()];
        assert_eq!(Shown::read(STATE), Some(Shown { name: "a.test", chain }));
        assert_eq!(Shown::read(BARE), Some(Shown { name: "", chain: Vec::new() }));
        for end in 0..STATE.len() - 5 {
            assert_eq!(Shown::read(&STATE[..end]), None, "{end}");
        }
    }

    /// What is kept of a handshake in which the client was asked, or was not.
    fn mark(continued: &Continued, was_asked: bool, state: &[u8]) -> Option<Vec<u8>> {
        present(|handshake| handshake.note_asked(was_asked));
        continued.mark(state)
    }

    #[test]
    fn a_session_goes_on_where_its_client_would_be_let_in() {
        let (asked, open) = (by(Some("a.test"), false), by(None, false));
        let marked = mark(&asked, true, STATE).unwrap();
        assert_eq!(asked.unmark(marked.clone()).as_deref(), Some(STATE));
        assert_eq!(open.unmark(marked).as_deref(), Some(STATE));
        let unasked = mark(&open, false, STATE).unwrap();
        assert_eq!(open.unmark(unasked.clone()).as_deref(), Some(STATE));
        assert_eq!(asked.unmark(unasked), None);
        // Without a certificate.
        let (required, optional) = (by(Some(""), false), by(Some(""), true));
        assert_eq!(mark(&required, true, BARE), None);
        let marked = mark(&optional, true, BARE).unwrap();
        assert_eq!(optional.unmark(marked.clone()).as_deref(), Some(BARE));
        assert_eq!(required.unmark(marked), None);
        assert_eq!(optional.unmark(mark(&open, false, BARE).unwrap()), None);
        // Of another version.
        assert_eq!(open.unmark(STATE.to_vec()), None);
        assert_eq!(open.unmark(Vec::new()), None);
    }

    #[test]
    fn a_session_says_whether_its_client_was_asked_whatever_is_asked_at_its_end() {
        let (optional, open) = (by(Some(""), true), by(None, true));
        // Names began to be asked for certificates, or ended, while the handshake was under way.
        assert_eq!(mark(&optional, false, BARE), None);
        let asked = mark(&open, true, BARE).unwrap();
        let unasked = mark(&open, false, BARE).unwrap();
        for (marked, was_asked) in [(unasked, false), (asked, true)] {
            present(|handshake| handshake.note_asked(!was_asked));
            assert!(open.unmark(marked).is_some());
            assert_eq!(present(|handshake| handshake.was_asked()), was_asked);
        }
    }
}
