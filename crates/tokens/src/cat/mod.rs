//! Common Access Tokens (CTA-5007): a CWT (RFC 8392) in COSE (RFC 9052), with claims that an edge
//! checks for each request.

mod circle;
mod claims;
mod cose;
mod matching;
mod renewal;
mod uses;

use crate::denied::Denied;
use crate::keys::Keys;
use crate::question::{Place, Question, Source};
use crate::revoked::Revoked;
use crate::seen::Seen;
use crate::times::{Named, Wanted};
use crate::verifier::Granted;
pub(crate) use claims::CatToken;
use std::sync::Arc;

/// Which tokens let in, and where they are.
#[derive(Clone, Debug, Default)]
pub struct Cat {
    /// Where tokens are.
    pub source: Source,
    /// Issuers, one of which a token has to name; empty for any.
    pub issuers: Vec<String>,
    /// Audiences, one of which a token has to name; empty for any.
    pub audiences: Vec<String>,
    /// Whether tokens may go without an end.
    pub may_be_endless: bool,
}

impl Cat {
    pub(crate) fn verify(
        &self,
        question: &Question<'_>,
        (keys, revoked): (&Keys, &Revoked),
        seen: &Seen<CatToken>,
        leeway_s: u64,
    ) -> Result<Granted, Denied> {
        self.source.first_good(question, |token, place| {
            revoked.admit(self.check((token, place), question, (keys, seen), leeway_s)?)
        })
    }

    fn check(
        &self,
        (token, place): (&str, Place),
        question: &Question<'_>,
        (keys, seen): (&Keys, &Seen<CatToken>),
        leeway_s: u64,
    ) -> Result<Granted, Denied> {
        let read = seen.get_or(&[token.as_bytes()], || {
            let bytes = crate::text::base64_url(&token.replace('+', "-").replace('/', "_"));
            CatToken::read(cose::open(&bytes.ok_or(Denied::Malformed)?, keys)?)
        })?;
        let wanted = Wanted {
            issuers: &self.issuers,
            audiences: &self.audiences,
            may_be_endless: self.may_be_endless,
        };
        let named = Named { issuer: read.issuer.as_deref(), audiences: &read.audiences };
        wanted.check(&read.times, &named, (question.now_s, leeway_s))?;
        read.check(question, self.source.parameter.as_deref())?;
        read.uses.take(read.times.expires_s, question, leeway_s)?;
        let renewal = read.renewal.as_ref();
        Ok(Granted {
            grant: Arc::clone(&read.grant),
            place: Some(place),
            renewal: renewal.and_then(|renewal| {
                let until_s = read.times.expires_s?;
                renewal.field(&self.source, place, (question.now_s, until_s))
            }),
        })
    }
}
