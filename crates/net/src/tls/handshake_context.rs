//! What certificates, verifiers and tickets know of the handshake that they are asked for.
//!
//! rustls asks them without saying for which connection. So what they are to know of one, and what they leave with it,
//! is in its place on the thread while rustls takes a step of its handshake, and with the connection in between: others
//! take steps meanwhile, and a reload may come.

use std::cell::RefCell;
use std::mem::swap;

/// What is known of one handshake besides what rustls tells of it.
#[derive(Debug, Default)]
pub struct HandshakeContext {
    /// The name in the client's hello, in lower case and empty where it has none; `None` before the hello.
    name: Option<Box<str>>,
    /// Whether a client could be asked for a certificate when the handshake began.
    may_ask: bool,
    was_asked: bool,
}

thread_local! {
    /// Of the handshake of which this thread takes a step.
    static PRESENT: RefCell<HandshakeContext> = RefCell::default();
}

/// Looks at the handshake of which this thread takes a step.
pub(super) fn present<T>(look: impl FnOnce(&mut HandshakeContext) -> T) -> T {
    PRESENT.with_borrow_mut(look)
}

impl HandshakeContext {
    /// Takes a step of its handshake.
    pub fn during<T>(&mut self, step: impl FnOnce() -> T) -> T {
        present(|present| swap(present, self));
        let result = step();
        present(|present| swap(present, self));
        result
    }

    /// The name that the client asked for, in lower case, where it asked for one. rustls does not tell it where
    /// the connection is driven without buffers.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether the client was asked for a certificate: in this handshake, or in the one whose session it continues.
    pub fn was_asked(&self) -> bool {
        self.was_asked
    }

    /// Notes the hello that was looked at last.
    pub(super) fn note_name(&mut self, name: &str) {
        self.name = Some(name.to_ascii_lowercase().into());
    }

    /// Notes what the session says that is continued.
    pub(super) fn note_asked(&mut self, was_asked: bool) {
        self.was_asked = was_asked;
    }

    /// Whether the client is asked, where those of some names are. rustls wants to know when a connection
    /// begins, whether it has to keep what is said, and again once it has the client's hello: who was not to be asked
    /// then cannot be any more.
    pub(super) fn ask(
        &mut self,
        any: impl FnOnce() -> bool,
        of: impl FnOnce(&str) -> bool,
    ) -> bool {
        match &self.name {
            None => {
                self.may_ask = any();
                self.may_ask
            }
            Some(name) => {
                self.was_asked = self.may_ask && of(name);
                self.was_asked
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handshake_has_its_own_between_the_steps_of_another() {
        let (mut one, mut two) = (HandshakeContext::default(), HandshakeContext::default());
        let ask = || present(|now| now.ask(|| true, |name| name == "one.test"));
        assert!(one.during(ask) && two.during(ask));
        one.during(|| present(|now| now.note_name("One.test")));
        two.during(|| present(|now| now.note_name("two.test")));
        assert!(one.during(ask) && !two.during(ask));
        assert_eq!((one.name(), one.was_asked()), (Some("one.test"), true));
        assert_eq!((two.name(), two.was_asked()), (Some("two.test"), false));
    }

    #[test]
    fn who_could_not_be_asked_at_first_is_not_asked() {
        let mut context = HandshakeContext::default();
        assert!(!context.ask(|| false, |_| true));
        context.note_name("");
        assert!(!context.ask(|| true, |_| true));
        assert_eq!((context.name(), context.was_asked()), (None, false));
    }
}
