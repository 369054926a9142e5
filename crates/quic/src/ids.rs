//! The ids under which both sides know a connection (RFC 9000 §5.1).

use super::error::{Error, code};
use super::id::Id;
use super::limits::{OWN_IDS_MAX, PEER_IDS_MAX, RETIRED_IDS_MAX};

/// An id of the client's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PeerId {
    pub(super) sequence: u64,
    pub(super) id: Id,
    /// What a datagram ends with that says that the client knows nothing of it (RFC 9000 §10.3). The first one has none.
    pub(super) reset_token: Option<[u8; 16]>,
}

/// Ids of a client that are used for a way: the present one, the one before, and one that is tried.
const USED_MAX: usize = 3;

/// The client's ids.
#[derive(Debug)]
pub(super) struct PeerIds {
    active: PeerId,
    /// Those that were not used yet, in order, but for the one that a way is tried with.
    spare: Vec<PeerId>,
    trying: Option<u64>,
    /// The one of the way before.
    former: Option<PeerId>,
    /// All below are retired.
    retired_before: u64,
    /// Retirements to be told.
    retiring: Vec<u64>,
    /// Tokens of those in use, as they were told last.
    told: Vec<[u8; 16]>,
}

/// How the tokens by which a client can end a connection have changed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResetTokens {
    /// Those that it can use from now on.
    pub new: Vec<[u8; 16]>,
    /// Those that mean nothing any more.
    pub gone: Vec<[u8; 16]>,
}

impl PeerIds {
    pub(super) fn new(first: Id) -> Self {
        Self {
            active: PeerId { sequence: 0, id: first, reset_token: None },
            spare: Vec::new(),
            trying: None,
            former: None,
            retired_before: 0,
            retiring: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Whom packets are for.
    pub(super) fn active(&self) -> &Id {
        &self.active.id
    }

    /// Tokens of ids that packets were for and are not retired: no others end the connection (RFC 9000 §10.3.1).
    pub(super) fn reset_tokens(&self) -> impl Iterator<Item = [u8; 16]> {
        let tried = self.tried_at().and_then(|at| self.spare.get(at));
        let used = [Some(&self.active), self.former.as_ref(), tried];
        used.into_iter().flatten().filter_map(|used| used.reset_token)
    }

    /// How these have changed since that was asked last.
    pub(super) fn take_reset_tokens(&mut self) -> Option<ResetTokens> {
        if self.reset_tokens().eq(self.told.iter().copied()) {
            return None;
        }
        let mut used = Vec::with_capacity(USED_MAX);
        used.extend(self.reset_tokens());
        let told = std::mem::replace(&mut self.told, used);
        let new = self.told.iter().filter(|token| !told.contains(token)).copied().collect();
        let gone = told.into_iter().filter(|token| !self.told.contains(token)).collect();
        Some(ResetTokens { new, gone })
    }

    /// Those that were told.
    pub(super) fn told_reset_tokens(&self) -> &[[u8; 16]] {
        &self.told
    }

    /// The client has another id. False when it was known.
    ///
    /// # Errors
    /// CONNECTION_ID_LIMIT_ERROR, PROTOCOL_VIOLATION
    pub(super) fn add(&mut self, retire_before: u64, new: PeerId) -> Result<bool, Error> {
        if self.active.id.as_bytes().is_empty() {
            return Err(Error::violation("a client without ids has another"));
        }
        let mixes = |other: &PeerId| (other.sequence == new.sequence) != (other.id == new.id);
        let is_known = {
            let mut all = self.spare.iter().chain([&self.active]).chain(&self.former);
            if all.clone().any(mixes) {
                return Err(Error::violation("a connection id is used twice"));
            }
            all.any(|known| known.sequence == new.sequence)
        };
        // One before the active one was used up, or would never be used.
        let is_behind = !is_known && new.sequence < self.active.sequence;
        if new.sequence < self.retired_before || is_behind {
            return self.retire(new.sequence).map(|()| true);
        }
        if !is_known {
            let at = self.spare.partition_point(|spare| spare.sequence < new.sequence);
            self.spare.insert(at, new);
        }
        if retire_before > self.retired_before {
            self.retire_before(retire_before)?;
        }
        if self.spare.len() + 1 + usize::from(self.former.is_some()) > PEER_IDS_MAX {
            let reason = "there are too many connection ids";
            return Err(Error::new(code::CONNECTION_ID_LIMIT_ERROR, reason));
        }
        Ok(!is_known)
    }

    fn retire_before(&mut self, sequence: u64) -> Result<(), Error> {
        self.retired_before = sequence;
        let (gone, kept) = self.spare.iter().partition(|spare| spare.sequence < sequence);
        self.spare = kept;
        let gone: Vec<PeerId> = gone;
        for gone in gone {
            self.retire(gone.sequence)?;
        }
        if let Some(former) = self.former.take_if(|former| former.sequence < sequence) {
            self.retire(former.sequence)?;
        }
        if self.active.sequence < sequence {
            let Some(old) = self.replace_active() else {
                return Err(Error::violation("all connection ids are retired"));
            };
            self.retire(old.sequence)?;
        }
        Ok(())
    }

    /// Goes on with another id: the one that the way was tried with, if it was. The one before is
    /// retired, or kept in case its way comes back. Without another it stays.
    pub(super) fn change(&mut self, keeps: bool) -> Result<(), Error> {
        let Some(old) = self.replace_active() else { return Ok(()) };
        if !keeps {
            return self.retire(old.sequence);
        }
        self.forget_former()?;
        self.former = Some(old);
        Ok(())
    }

    /// Goes on with the id of the way before.
    pub(super) fn change_back(&mut self) -> Result<(), Error> {
        let Some(former) = self.former.take() else { return Ok(()) };
        let gone = std::mem::replace(&mut self.active, former);
        self.retire(gone.sequence)
    }

    /// The way before does not come back.
    pub(super) fn forget_former(&mut self) -> Result<(), Error> {
        self.former.take().map_or(Ok(()), |former| self.retire(former.sequence))
    }

    /// The id to try a way with; `None` when there is none to spare.
    pub(super) fn for_trying(&mut self) -> Option<Id> {
        if self.active.id.as_bytes().is_empty() {
            return Some(self.active.id);
        }
        let at = self.tried_at().unwrap_or(0);
        let tried = self.spare.get(at)?;
        self.trying = Some(tried.sequence);
        Some(tried.id)
    }

    /// The way that was tried is of no use.
    pub(super) fn end_trying(&mut self) -> Result<(), Error> {
        let at = self.tried_at();
        self.trying = None;
        at.map_or(Ok(()), |at| {
            let tried = self.spare.remove(at);
            self.retire(tried.sequence)
        })
    }

    fn tried_at(&self) -> Option<usize> {
        let trying = self.trying?;
        self.spare.iter().position(|spare| spare.sequence == trying)
    }

    fn replace_active(&mut self) -> Option<PeerId> {
        let at = self.tried_at().unwrap_or(0);
        self.trying = None;
        (at < self.spare.len()).then(|| std::mem::replace(&mut self.active, self.spare.remove(at)))
    }

    fn retire(&mut self, sequence: u64) -> Result<(), Error> {
        if !self.retiring.contains(&sequence) {
            self.retiring.push(sequence);
        }
        if self.retiring.len() > RETIRED_IDS_MAX {
            let reason = "too many connection ids are retired";
            return Err(Error::new(code::CONNECTION_ID_LIMIT_ERROR, reason));
        }
        Ok(())
    }

    /// A retirement to be told.
    pub(super) fn take_retired(&mut self) -> Option<u64> {
        self.retiring.pop()
    }

    /// That was lost.
    pub(super) fn retirement_lost(&mut self, sequence: u64) {
        if !self.retiring.contains(&sequence) {
            self.retiring.push(sequence);
        }
    }

    pub(super) fn has_due(&self) -> bool {
        !self.retiring.is_empty()
    }
}

/// Our ids.
#[derive(Debug)]
pub(super) struct OwnIds {
    /// Those a client may use, by number.
    issued: Vec<(u64, Id, [u8; 16])>,
    next: u64,
    /// How many it keeps.
    peer_max: u64,
    /// Those to be told.
    telling: Vec<u64>,
    /// Those that mean nothing from now on.
    retired: Vec<Id>,
}

impl OwnIds {
    pub(super) fn new(first: Id, reset_token: [u8; 16]) -> Self {
        Self {
            issued: vec![(0, first, reset_token)],
            next: 1,
            peer_max: 1,
            telling: Vec::new(),
            retired: Vec::new(),
        }
    }

    pub(super) fn set_peer_max(&mut self, count: u64) {
        self.peer_max = count;
    }

    /// The id of our first packets.
    pub(super) fn first(&self) -> Id {
        self.issued.first().map_or_else(Id::default, |issued| issued.1)
    }

    /// How many more the client could have.
    pub(super) fn wanted(&self) -> usize {
        self.peer_max.min(OWN_IDS_MAX).saturating_sub(self.issued.len() as u64) as usize
    }

    /// Another id, to be told.
    pub(super) fn add(&mut self, id: Id, reset_token: [u8; 16]) {
        self.issued.push((self.next, id, reset_token));
        self.telling.push(self.next);
        self.next += 1;
    }

    /// The client does not use one any more. `used` is the one the frame came under.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION: it was never told, or is in use.
    pub(super) fn retire(&mut self, sequence: u64, used: &Id) -> Result<bool, Error> {
        if sequence >= self.next {
            return Err(Error::violation("a connection id is retired that was never told"));
        }
        let Some(at) = self.issued.iter().position(|issued| issued.0 == sequence) else {
            return Ok(false);
        };
        if self.issued.get(at).is_some_and(|issued| issued.1 == *used) {
            return Err(Error::violation("a connection id is retired under itself"));
        }
        let (_, id, _) = self.issued.remove(at);
        self.telling.retain(|telling| *telling != sequence);
        self.retired.push(id);
        Ok(true)
    }

    /// An id to be told.
    pub(super) fn take_telling(&mut self) -> Option<(u64, Id, [u8; 16])> {
        let sequence = self.telling.pop()?;
        self.issued.iter().find(|issued| issued.0 == sequence).copied()
    }

    /// That was lost.
    pub(super) fn telling_lost(&mut self, sequence: u64) {
        let is_issued = self.issued.iter().any(|issued| issued.0 == sequence);
        if is_issued && !self.telling.contains(&sequence) {
            self.telling.push(sequence);
        }
    }

    pub(super) fn has_due(&self) -> bool {
        !self.telling.is_empty()
    }

    /// Ids that mean nothing from now on.
    pub(super) fn take_retired(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.retired)
    }

    /// All ids that mean this connection.
    pub(super) fn all(&self) -> impl Iterator<Item = Id> {
        self.issued.iter().map(|issued| issued.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> Id {
        Id::new(&[number; 8]).unwrap()
    }

    /// An id with a token.
    fn peer_id(sequence: u64, number: u8) -> PeerId {
        PeerId { sequence, id: id(number), reset_token: Some([number; 16]) }
    }

    #[test]
    fn a_client_has_so_many_ids_and_no_more() {
        let mut ids = PeerIds::new(id(0));
        for number in 1..4 {
            assert_eq!(ids.add(0, peer_id(u64::from(number), number)), Ok(true));
            assert_eq!(ids.add(0, peer_id(u64::from(number), number)), Ok(false));
        }
        assert!(ids.add(0, peer_id(4, 4)).is_err());
        let mut ids = PeerIds::new(id(0));
        assert!(ids.add(0, peer_id(1, 0)).is_err());
        assert_eq!(ids.add(1, peer_id(1, 1)), Ok(true));
        assert_eq!((*ids.active(), ids.take_retired()), (id(1), Some(0)));
        // One that was retired before it came is retired at once.
        assert_eq!(ids.add(0, peer_id(0, 9)), Ok(true));
        assert_eq!(ids.take_retired(), Some(0));
    }

    #[test]
    fn the_id_of_the_way_before_is_kept_until_that_is_over() {
        let mut ids = PeerIds::new(id(0));
        // In the order of their numbers, whichever came first.
        assert_eq!((ids.add(0, peer_id(3, 3)), ids.add(0, peer_id(1, 1))), (Ok(true), Ok(true)));
        ids.change(true).unwrap();
        assert_eq!((*ids.active(), ids.take_retired()), (id(1), None));
        ids.change_back().unwrap();
        assert_eq!((*ids.active(), ids.take_retired()), (id(0), Some(1)));
        // What was tried is what is gone on with.
        assert_eq!((ids.for_trying(), ids.for_trying()), (Some(id(3)), Some(id(3))));
        assert_eq!(ids.add(0, peer_id(2, 2)), Ok(true));
        ids.change(true).unwrap();
        assert_eq!(*ids.active(), id(3));
        ids.forget_former().unwrap();
        assert_eq!(ids.take_retired(), Some(0));
        // One that was used up is not used again when it is told again.
        ids.change(false).unwrap();
        assert_eq!((*ids.active(), ids.take_retired()), (id(2), Some(3)));
        assert_eq!((ids.for_trying(), ids.add(0, peer_id(4, 4))), (None, Ok(true)));
        assert_eq!((ids.add(0, peer_id(1, 1)), ids.take_retired()), (Ok(true), Some(1)));
        // What was tried in vain is not used again either.
        assert_eq!(ids.for_trying(), Some(id(4)));
        ids.end_trying().unwrap();
        assert_eq!((ids.for_trying(), ids.take_retired()), (None, Some(4)));
    }

    #[test]
    fn a_client_that_only_retires_is_stopped() {
        let mut ids = PeerIds::new(id(0));
        let flood = (1..100_u8).try_for_each(|number| {
            ids.add(u64::from(number), peer_id(u64::from(number), number)).map(|_| ())
        });
        assert_eq!(flood.map_err(|error| error.code), Err(code::CONNECTION_ID_LIMIT_ERROR));
    }

    #[test]
    fn tokens_count_while_their_ids_are_in_use() {
        let mut ids = PeerIds::new(id(0));
        let all = |ids: &PeerIds| ids.reset_tokens().map(|token| token[0]).collect::<Vec<_>>();
        for number in 1..4 {
            assert_eq!(ids.add(0, peer_id(u64::from(number), number)), Ok(true));
        }
        // None of them was used yet.
        assert_eq!((all(&ids), ids.take_reset_tokens()), (vec![], None));
        assert_eq!(ids.for_trying(), Some(id(1)));
        assert_eq!(all(&ids), [1]);
        let changes = |new: &[u8], gone: &[u8]| {
            let tokens = |numbers: &[u8]| numbers.iter().map(|number| [*number; 16]).collect();
            Some(ResetTokens { new: tokens(new), gone: tokens(gone) })
        };
        assert_eq!(ids.take_reset_tokens(), changes(&[1], &[]));
        ids.change(true).unwrap();
        assert_eq!((all(&ids), ids.take_reset_tokens()), (vec![1], None));
        ids.change(true).unwrap();
        assert_eq!((all(&ids), ids.take_reset_tokens()), (vec![2, 1], changes(&[2], &[])));
        ids.forget_former().unwrap();
        assert_eq!((all(&ids), ids.take_reset_tokens()), (vec![2], changes(&[], &[1])));
        assert_eq!(ids.told_reset_tokens(), [[2; 16]]);
        assert_eq!(ids.take_reset_tokens(), None);
    }

    #[test]
    fn our_ids_are_replaced_as_they_are_retired() {
        let mut ids = OwnIds::new(id(0), [0; 16]);
        ids.set_peer_max(100);
        assert_eq!(ids.wanted(), OWN_IDS_MAX as usize - 1);
        ids.add(id(1), [1; 16]);
        assert!(ids.retire(2, &id(0)).is_err() && ids.retire(0, &id(0)).is_err());
        assert_eq!(ids.retire(0, &id(1)), Ok(true));
        assert_eq!(ids.retire(0, &id(1)), Ok(false));
        assert_eq!((ids.take_retired(), ids.wanted()), (vec![id(0)], 3));
    }
}
