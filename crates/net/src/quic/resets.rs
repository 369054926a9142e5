//! Whose connection a client gives up that says that it knows nothing of it (RFC 9000 §10.3).
//!
//! Such a datagram is for an id that means nothing, so that any worker gets it; only its end, which the client told us before, says
//! which connection it is about. Of most connections there is no such token: it comes with the ids that a client moves with.

use freshet_quic::ResetTokens;
use freshet_quic::limits::RESET_BYTES_MIN;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tokens of clients' ids in use, of all workers of a port, and whose connection each is of.
#[derive(Debug, Default)]
pub struct ClientTokens(Mutex<HashMap<[u8; 16], u8>>);

impl ClientTokens {
    fn all(&self) -> MutexGuard<'_, HashMap<[u8; 16], u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose connection a datagram is about that gives one up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum GivenUp<K> {
    /// One of this worker.
    Ours(K),
    /// One of another.
    Of(u8),
}

/// What a worker knows of them.
#[derive(Debug)]
pub(super) struct Resets<K> {
    worker: u8,
    of_all: Arc<ClientTokens>,
    ours: HashMap<[u8; 16], K>,
}

impl<K: Copy> Resets<K> {
    pub(super) fn new(worker: u8, of_all: Arc<ClientTokens>) -> Self {
        Self { worker, of_all, ours: HashMap::new() }
    }

    /// The tokens of a connection have changed.
    pub(super) fn change(&mut self, tokens: &ResetTokens, connection: K) {
        self.forget(&tokens.gone);
        let mut of_all = self.of_all.all();
        for token in &tokens.new {
            self.ours.insert(*token, connection);
            of_all.insert(*token, self.worker);
        }
    }

    /// These tokens mean nothing any more.
    pub(super) fn forget(&mut self, tokens: &[[u8; 16]]) {
        // Most connections have none.
        if tokens.is_empty() {
            return;
        }
        let mut of_all = self.of_all.all();
        for token in tokens {
            self.ours.remove(token);
            of_all.remove(token);
        }
    }

    /// Whose connection a datagram is about that is for no id.
    pub(super) fn whose(&self, datagram: &[u8]) -> Option<GivenUp<K>> {
        let token = datagram.last_chunk::<16>().filter(|_| datagram.len() >= RESET_BYTES_MIN)?;
        match self.ours.get(token) {
            Some(connection) => Some(GivenUp::Ours(*connection)),
            None => {
                let of = self.of_all.all().get(token).copied();
                of.filter(|worker| *worker != self.worker).map(GivenUp::Of)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_knows_whose_a_token_is() {
        let of_all = Arc::default();
        let mut workers = [0, 1].map(|worker| Resets::new(worker, Arc::clone(&of_all)));
        let datagram = |token: u8, bytes: usize| [vec![0x41; bytes - 16], vec![token; 16]].concat();
        let is = |resets: &Resets<u32>, token| resets.whose(&datagram(token, RESET_BYTES_MIN));
        workers[0].change(&ResetTokens { new: vec![[1; 16], [2; 16]], gone: vec![] }, 7);
        assert_eq!(is(&workers[0], 1), Some(GivenUp::Ours(7)));
        assert_eq!((is(&workers[1], 2), is(&workers[1], 3)), (Some(GivenUp::Of(0)), None));
        assert_eq!(workers[0].whose(&datagram(1, RESET_BYTES_MIN - 1)), None);
        workers[0].change(&ResetTokens { new: vec![[3; 16]], gone: vec![[1; 16]] }, 7);
        assert_eq!((is(&workers[0], 1), is(&workers[1], 1)), (None, None));
        workers[0].forget(&[[2; 16], [3; 16]]);
        assert!(workers[0].ours.is_empty() && of_all.all().is_empty());
    }
}
