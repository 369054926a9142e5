//! One way of letting requests in, with its keys.

use crate::cat::{Cat, CatToken};
use crate::cloudfront::{CloudFront, Policy};
use crate::denied::Denied;
use crate::edge_auth::EdgeAuth;
use crate::jwt::{Jwt, JwtToken};
use crate::keys::Keys;
use crate::question::{Parts, Place, Question};
use crate::revoked::Revoked;
use crate::secure_link::SecureLink;
use crate::seen::Seen;
use std::sync::Arc;

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
    revoked: Revoked,
    leeway_s: u64,
    policies: Seen<Policy>,
    jwts: Seen<JwtToken>,
    cats: Seen<CatToken>,
}

/// What a token claims, by name.
pub type Claims = Vec<(Box<str>, Box<str>)>;

/// What a good token says of who has it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grant {
    /// The subject, where it names one.
    pub subject: Option<Box<str>>,
    /// Its own number or name, where it has one.
    pub id: Option<Box<str>>,
    /// All that it claims, by name, as text: numbers and truth values as JSON has them, lists of them
    /// with commas between, whatever has parts as JSON.
    pub claims: Claims,
}

/// That a request is let in.
#[derive(Clone, Debug, Default)]
pub struct Granted {
    /// What its token says; tokens that are remembered share it.
    pub grant: Arc<Grant>,
    /// A field for the response, where the token asks to be renewed and is: its name and value.
    pub renewal: Option<(String, String)>,
    /// Where the token was, where it may be in several places.
    pub place: Option<Place>,
}

impl From<Arc<Grant>> for Granted {
    fn from(grant: Arc<Grant>) -> Self {
        Self { grant, renewal: None, place: None }
    }
}

impl From<Grant> for Granted {
    fn from(grant: Grant) -> Self {
        Arc::new(grant).into()
    }
}

impl Grant {
    /// What it says under a name.
    pub fn claim(&self, name: &str) -> Option<&str> {
        self.claims.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }
}

impl Verifier {
    /// A verifier; `random` keeps others from aiming at places in its memory.
    pub fn new(scheme: Scheme, keys: Keys, random: [u8; 16]) -> Self {
        Self {
            scheme,
            keys,
            revoked: Revoked::default(),
            leeway_s: 0,
            policies: Seen::new(random),
            jwts: Seen::new(random),
            cats: Seen::new(random),
        }
    }

    /// With tokens that are not good any more.
    #[must_use]
    pub fn revoking(mut self, revoked: Revoked) -> Self {
        self.revoked = revoked;
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
    pub fn verify(&self, question: &Question<'_>) -> Result<Granted, Denied> {
        let Self { keys, revoked, leeway_s, .. } = self;
        let leeway_s = *leeway_s;
        match &self.scheme {
            Scheme::SecureLink(scheme) => {
                revoked.admit(scheme.verify(question, keys, leeway_s)?.into())
            }
            Scheme::EdgeAuth(scheme) => scheme.verify(question, (keys, revoked), leeway_s),
            Scheme::CloudFront(scheme) => {
                revoked.admit(scheme.verify(question, keys, &self.policies, leeway_s)?.into())
            }
            Scheme::Jwt(scheme) => scheme.verify(question, (keys, revoked), &self.jwts, leeway_s),
            Scheme::Cat(scheme) => scheme.verify(question, (keys, revoked), &self.cats, leeway_s),
        }
    }

    /// Where in a request tokens are.
    pub fn parts(&self) -> Parts<'_> {
        match &self.scheme {
            Scheme::SecureLink(scheme) => {
                Parts { parameters: scheme.parameters(), ..Parts::default() }
            }
            Scheme::CloudFront(_) => Parts {
                parameters: CloudFront::PARAMETERS.to_vec(),
                cookies: CloudFront::COOKIES.to_vec(),
                header: None,
            },
            Scheme::EdgeAuth(EdgeAuth { source, .. })
            | Scheme::Jwt(Jwt { source, .. })
            | Scheme::Cat(Cat { source, .. }) => source.parts(),
        }
    }

    /// The places in a request of the token that has let it in.
    pub fn parts_of(&self, granted: &Granted) -> Parts<'_> {
        let parts = self.parts();
        match granted.place {
            Some(place) => parts.of(place),
            None => parts,
        }
    }
}
