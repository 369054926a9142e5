//! Whom a request was let in as.

use crate::doors::Places;
use freshet_limits::Place;
use freshet_telemetry::calls::Call;
use freshet_tokens::Grant;
use std::sync::Arc;

/// A field that a service has given to a request: its name and value.
pub type Said = (Box<str>, Vec<u8>);

/// Whom a request was let in as, by a password, a service or a token.
#[derive(Debug, Default)]
pub struct Identity {
    /// The name that came with a password, or that a service says.
    pub name: Option<Box<str>>,
    /// What a token says.
    pub token: Option<Arc<Grant>>,
    /// Fields of the request that say so, as one service after the other gave them.
    pub fields: Vec<Arc<[Said]>>,
    /// Where its request goes, as a service has said.
    pub places: Option<Arc<Places>>,
    /// What it is counted with.
    pub call: Option<Arc<Call>>,
    /// Its place among those under way, where there are only so many.
    pub share: Option<Place>,
}

impl Identity {
    /// Whether nothing is known.
    pub fn is_nobody(&self) -> bool {
        self.name.is_none()
            && self.token.is_none()
            && self.fields.is_empty()
            && self.places.is_none()
            && self.call.is_none()
            && self.share.is_none()
    }

    /// What services have said, the first one's first.
    pub fn said(&self) -> impl DoubleEndedIterator<Item = &Said> {
        self.fields.iter().flat_map(|of_one| of_one.iter())
    }

    /// The name of who has the password, or whom the token is for; empty where nobody is named.
    pub fn user(&self) -> &str {
        let subject = || self.token.as_ref()?.subject.as_deref();
        self.name.as_deref().or_else(subject).unwrap_or_default()
    }

    /// The token's own name or number; empty where it has none.
    pub fn token_id(&self) -> &str {
        self.token.as_ref().and_then(|token| token.id.as_deref()).unwrap_or_default()
    }
}
