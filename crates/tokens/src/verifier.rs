//! One way of letting requests in, with its keys.

use crate::cat::{Cat, CatToken};
use crate::cloudfront::{CloudFront, Policy};
use crate::denied::Denied;
use crate::edge_auth::EdgeAuth;
use crate::jwt::{Jwt, JwtToken};
use crate::keys::Keys;
use crate::question::{Places, Question};
use crate::secure_link::SecureLink;
use crate::seen::Seen;
use std::collections::HashSet;

/// How requests are let in.
#[derive(Debug)]
pub enum Scheme {
    /// URLs as nginx's `secure_link` signs them.
    SecureLink(SecureLink),
    /// Akamai's EdgeAuth token 2.0.
    EdgeAuth(EdgeAuth),
    /// URLs and cookies signed for CloudFront.
    CloudFront(CloudFront),
    /// JSON Web Tokens.
    Jwt(Jwt),
    /// Common Access Tokens.
    Cat(Cat),
}

/// A scheme with keys. Shared by workers; what costs much to check is remembered.
#[derive(Debug)]
pub struct Verifier {
    scheme: Scheme,
    keys: Keys,
    revoked: HashSet<Box<str>>,
    leeway_s: u64,
    policies: Seen<Policy>,
    jwts: Seen<JwtToken>,
    cats: Seen<CatToken>,
}

/// What a good token says of who has it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grant {
    /// The subject, where it names one.
    pub subject: Option<Box<str>>,
    /// Its own number or name, where it has one.
    pub id: Option<Box<str>>,
}

impl Verifier {
    /// A verifier; `random` keeps others from aiming at places in its memory.
    pub fn new(scheme: Scheme, keys: Keys, random: [u8; 16]) -> Self {
        Self {
            scheme,
            keys,
            revoked: HashSet::new(),
            leeway_s: 0,
            policies: Seen::new(random),
            jwts: Seen::new(random),
            cats: Seen::new(random),
        }
    }

    /// With tokens that are not good any more, by their ids (`jti`, `cti` in hexadecimal, `id`), or
    /// all of a subject's, as `sub:NAME`.
    #[must_use]
    pub fn revoking<'a>(mut self, revoked: impl IntoIterator<Item = &'a str>) -> Self {
        self.revoked = revoked.into_iter().map(Into::into).collect();
        self
    }

    /// With clocks that may differ by so much.
    #[must_use]
    pub fn with_leeway(mut self, leeway_s: u64) -> Self {
        self.leeway_s = leeway_s;
        self
    }

    /// Whether a request is let in. A few µs where its token is new, a tenth where it is not.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(&self, question: &Question<'_>) -> Result<Grant, Denied> {
        let Self { keys, leeway_s, .. } = self;
        let grant = match &self.scheme {
            Scheme::SecureLink(scheme) => scheme.verify(question, keys, *leeway_s),
            Scheme::EdgeAuth(scheme) => scheme.verify(question, keys, *leeway_s),
            Scheme::CloudFront(scheme) => scheme.verify(question, keys, &self.policies, *leeway_s),
            Scheme::Jwt(scheme) => scheme.verify(question, keys, &self.jwts, *leeway_s),
            Scheme::Cat(scheme) => scheme.verify(question, keys, &self.cats, *leeway_s),
        }?;
        if self.is_revoked(&grant) { Err(Denied::Revoked) } else { Ok(grant) }
    }

    /// Where in a request tokens are.
    pub fn places(&self) -> Places<'_> {
        match &self.scheme {
            Scheme::SecureLink(scheme) => {
                Places { parameters: scheme.parameters(), ..Places::default() }
            }
            Scheme::CloudFront(_) => Places {
                parameters: CloudFront::PARAMETERS.to_vec(),
                cookies: CloudFront::COOKIES.to_vec(),
                header: None,
            },
            Scheme::EdgeAuth(EdgeAuth { source, .. })
            | Scheme::Jwt(Jwt { source, .. })
            | Scheme::Cat(Cat { source, .. }) => source.places(),
        }
    }

    fn is_revoked(&self, grant: &Grant) -> bool {
        let has = |text: &str| self.revoked.contains(text);
        !self.revoked.is_empty()
            && (grant.id.as_deref().is_some_and(has)
                || grant.subject.as_deref().is_some_and(|name| has(&format!("sub:{name}"))))
    }
}
