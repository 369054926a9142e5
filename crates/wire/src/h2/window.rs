//! Flow control (RFC 9113 §6.9).

/// The largest window.
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// What we may send. Below zero after the client made the first window smaller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SendWindow(i64);

/// The window would be larger than any may be.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Overflow;

impl SendWindow {
    pub(super) fn new(bytes: u32) -> Self {
        Self(bytes.into())
    }

    /// Bytes that may be sent.
    pub(super) fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Uses up what is sent: at most [`bytes`](Self::bytes).
    pub(super) fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes(), "no more is sent than the client takes");
        self.0 -= bytes as i64;
    }

    pub(super) fn widen(&mut self, bytes: i64) -> Result<(), Overflow> {
        let wider = self.0 + bytes;
        if wider > i64::from(WINDOW_MAX) {
            return Err(Overflow);
        }
        self.0 = wider;
        Ok(())
    }
}

/// What the client may send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReceiveWindow {
    open: u32,
    /// Received, and not taken yet.
    waiting: u32,
    /// Taken, and not given back yet.
    taken: u32,
    /// Whether every byte is given back at once.
    at_once: bool,
}

impl ReceiveWindow {
    /// A window of which some is given back at a time, or every byte `at_once`.
    pub(super) fn new(bytes: u32, at_once: bool) -> Self {
        Self { open: bytes, waiting: 0, taken: 0, at_once }
    }

    /// How much more the client may send.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// The client sent `bytes`; false when it might not.
    pub(super) fn receive(&mut self, bytes: u32) -> bool {
        match self.open.checked_sub(bytes) {
            Some(left) => {
                self.open = left;
                self.waiting += bytes;
                true
            }
            None => false,
        }
    }

    /// `bytes` of what was received are not needed any more. Returns by how much the client may be
    /// told to go on, once that is worth a frame: when it is as much as what is still open, however
    /// much of the window is filled with what nobody takes.
    ///
    /// # Panics
    /// Less was received: the client would be let send more than the window has.
    pub(super) fn take(&mut self, bytes: u32) -> Option<u32> {
        let waiting = self.waiting.checked_sub(bytes);
        self.waiting = waiting.expect("no more is taken than was received");
        self.taken += bytes;
        if self.taken < self.open && !self.at_once {
            return None;
        }
        self.open += self.taken;
        Some(std::mem::take(&mut self.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_never_passes_its_maximum_and_may_be_negative() {
        let mut window = SendWindow::new(10);
        window.take(10);
        assert_eq!(window.widen(-20), Ok(()));
        assert_eq!(window.bytes(), 0);
        assert_eq!(window.widen(21), Ok(()));
        assert_eq!(window.bytes(), 1);
        assert_eq!(window.widen(WINDOW_MAX.into()), Err(Overflow));
    }

    proptest! {
        #[test]
        fn what_is_received_and_taken_comes_back(
            size in 1_u32..2000,
            at_once: bool,
            steps in proptest::collection::vec(1_u32..600, 1..200),
        ) {
            let mut window = ReceiveWindow::new(size, at_once);
            let (mut client, mut waiting) = (size, 0);
            for bytes in steps {
                let bytes = bytes.min(client);
                prop_assert!(window.receive(bytes));
                prop_assert!(!window.receive(size + 1));
                client -= bytes;
                waiting += bytes;
                let taken = waiting.div_ceil(2);
                waiting -= taken;
                client += window.take(taken).unwrap_or(0);
                prop_assert!(client + waiting <= size);
            }
            // When nothing waits, the client can send at least half.
            client += window.take(waiting).unwrap_or(0);
            prop_assert!(client >= size / 2);
        }
    }
}
