//! What lets one machine into a fleet, once.

use super::IdentityError;
use crate::limits::{CLOCKS_APART_MAX, TOKEN_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use freshet_base::clock::UnixMillis;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What the text of a token begins with. Another form has another number.
const BEGINS: &str = "freshet-join-1.";

/// A token. Who has its text can join in the place of whom it is for, until it is used or its time is over.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct Token {
    /// Tells it from others.
    pub id: String,
    /// The fleet.
    pub fleet: String,
    /// Its servers.
    pub servers: Vec<String>,
    /// Certificate of the issuing key, PEM: whom to believe.
    pub ca: String,
    /// A certificate with its key, PEM, that servers let in to ask the issuer and for nothing else.
    pub identity: String,
    /// When it was made.
    pub from_ms: u64,
    /// When it ends.
    pub until_ms: u64,
}

impl Token {
    /// As people carry it: one line without white space.
    pub fn text(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{BEGINS}{}", URL_SAFE_NO_PAD.encode(json))
    }

    /// What such a text says.
    ///
    /// # Errors
    /// It is another text, or one of a later form.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        let wrong = |why: &str| IdentityError::ConfigToken(why.to_owned());
        let text = text.trim();
        if text.len() > TOKEN_BYTES_MAX {
            return Err(wrong("it is longer than any"));
        }
        let Some(coded) = text.strip_prefix(BEGINS) else {
            return Err(wrong(match text.starts_with("freshet-join-") {
                true => "a newer version of Freshet made it; install that one here",
                false => "it begins in another way",
            }));
        };
        let json = URL_SAFE_NO_PAD.decode(coded).map_err(|_| wrong("a part of it is missing"))?;
        serde_json::from_slice(&json).map_err(|_| wrong("a part of it is missing"))
    }

    /// Whether it holds by this machine's clock.
    ///
    /// # Errors
    /// Why not, and what may be wrong with the clock.
    pub fn holds_at(&self, now: UnixMillis) -> Result<(), IdentityError> {
        let (from, until) = (UnixMillis(self.from_ms), UnixMillis(self.until_ms));
        if now > until {
            let ago = span(now.since(until));
            let why = format!(
                "by this machine's clock the token ended {ago} ago: have a new one made, or put the clock right"
            );
            return Err(IdentityError::TokenTime(why));
        }
        if now.plus(CLOCKS_APART_MAX) < from {
            let behind = span(from.since(now));
            let why = format!(
                "this machine's clock is {behind} behind the one that the token was made by: put it right"
            );
            return Err(IdentityError::TokenTime(why));
        }
        Ok(())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token {} of {}", self.id, self.fleet)
    }
}

/// A span for people: in seconds below a minute, else in whole minutes.
fn span(span: Duration) -> String {
    let (number, unit) = match span.as_secs() {
        seconds @ 0..60 => (seconds.max(1), "second"),
        seconds => (seconds.div_ceil(60), "minute"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}
