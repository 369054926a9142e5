//! What a machine of a fleet has on its disk to show who it is.
//!
//! ```text
//! ca.pem          certificate of the issuing key
//! identity.pem    its own certificate, and its key
//! member.json     what the fleet knows it as: Written
//! secret          the fleet's secret
//! removed.json    who was removed from the fleet, as far as it knows: Removed
//! joining/        while it joins: key.pem, its key to be, and token.pem, what it asks with
//! ```

use super::certificate::{Facts, PublicKey, new_key};
use super::message::{Answer, Given, Request, Wish};
use super::sealed::Own;
use super::statement::StatementKey;
use super::{IdentityError, Removed, Token};
use freshet_base::clock::UnixMillis;
use freshet_base::private::{make_folder, replace};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub(super) const CA: &str = "ca.pem";
pub(super) const IDENTITY: &str = "identity.pem";
pub(super) const SECRET: &str = "secret";
const MEMBER: &str = "member.json";
const REMOVED: &str = "removed.json";
const JOINING: &str = "joining";

/// What a fleet knows a machine as.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Member {
    /// The node's name.
    pub node: String,
    /// The group whose configuration it gets, where it gets one.
    pub group: Option<String>,
    /// What roll-outs may choose it by.
    pub labels: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Written {
    fleet: String,
    servers: Vec<String>,
    #[serde(flatten)]
    member: Member,
}

/// A machine's folder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity(PathBuf);

/// A machine that is about to join.
pub struct Joining {
    folder: Identity,
    token: Token,
    key: KeyPair,
    own: Own,
    request: Vec<u8>,
}

impl Identity {
    /// The one in this folder.
    pub fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// File of whom to believe.
    pub fn ca(&self) -> PathBuf {
        self.0.join(CA)
    }

    /// File with what to show: certificate and key.
    pub fn certificate(&self) -> PathBuf {
        self.0.join(IDENTITY)
    }

    /// File with the fleet's secret.
    pub fn secret(&self) -> PathBuf {
        self.0.join(SECRET)
    }

    /// What its certificate says.
    ///
    /// # Errors
    /// There is none.
    pub fn facts(&self) -> Result<Facts, IdentityError> {
        let path = self.certificate();
        let pem = read(&path)?;
        Facts::of(&pem).ok_or_else(|| {
            let why = "no certificate of a fleet's issuer in it".to_owned();
            IdentityError::ConfigContent { path, why }
        })
    }

    /// What the machine signs with what it says of itself.
    ///
    /// # Errors
    /// There is none.
    pub fn statement_key(&self) -> Result<StatementKey, IdentityError> {
        let path = self.certificate();
        let why = || "no certificate in it".to_owned();
        StatementKey::new(&read(&path)?, key_of(&path)?)
            .ok_or_else(|| IdentityError::ConfigContent { path, why: why() })
    }

    /// The fleet and its servers.
    ///
    /// # Errors
    /// The folder is none of a machine that has joined.
    pub fn fleet(&self) -> Result<(String, Vec<String>), IdentityError> {
        let Written { fleet, servers, .. } = self.written()?;
        Ok((fleet, servers))
    }

    fn written(&self) -> Result<Written, IdentityError> {
        let path = self.0.join(MEMBER);
        let text = read(&path)?;
        serde_json::from_str(&text)
            .map_err(|error| IdentityError::ConfigContent { path, why: error.to_string() })
    }

    pub(super) fn write_member(
        &self,
        fleet: &str,
        servers: &[String],
        member: &Member,
    ) -> Result<(), IdentityError> {
        let (fleet, servers) = (fleet.to_owned(), servers.to_vec());
        let written = Written { fleet, servers, member: member.clone() };
        put(&self.0.join(MEMBER), &serde_json::to_string(&written).unwrap_or_default())
    }

    /// Begins to join, or goes on where that was cut short: the key is the same until it has joined.
    ///
    /// # Errors
    /// The token does not hold by this machine's clock; the folder, also where it is of another fleet.
    pub fn join(&self, token: Token, now: UnixMillis) -> Result<Joining, IdentityError> {
        token.holds_at(now)?;
        if let Ok((fleet, _)) = self.fleet()
            && fleet != token.fleet
        {
            let why = format!("it is for the fleet `{fleet}`, and the token for `{}`", token.fleet);
            return Err(IdentityError::ConfigContent { path: self.0.clone(), why });
        }
        let joining = self.0.join(JOINING);
        make_folder(&joining).map_err(IdentityError::file(&*joining))?;
        let path = joining.join("key.pem");
        if !path.exists() {
            put(&path, &new_key()?.serialize_pem())?;
        }
        let key = key_of(&path)?;
        put(&joining.join("token.pem"), &token.identity)?;
        put(&joining.join(CA), &token.ca)?;
        let own = Own::new().ok_or_else(|| IdentityError::LocalKey("no random bytes".into()))?;
        let token_key = key_of(&joining.join("token.pem"))?;
        let request = Request {
            fleet: token.fleet.clone(),
            wish: Wish::Join { token: token.id.clone(), half: own.half() },
            key: public(&key)?,
        };
        let request = request.encode(&key, Some(&token_key))?;
        Ok(Joining { folder: self.clone(), token, key, own, request })
    }

    /// Ends what [`Identity::join`] began, once all is done that comes behind it.
    ///
    /// # Errors
    /// The folder.
    pub fn joined(&self) -> Result<(), IdentityError> {
        let path = self.0.join(JOINING);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(IdentityError::file(path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Who was removed, as far as was known when this machine last heard of it.
    pub fn known_removed(&self) -> Removed {
        let bytes = fs::read(self.0.join(REMOVED)).unwrap_or_default();
        Removed::decode(&bytes).unwrap_or_default().at(UnixMillis::now())
    }

    /// Keeps who was removed.
    ///
    /// # Errors
    /// The folder.
    pub fn know_removed(&self, removed: &Removed) -> Result<(), IdentityError> {
        let path = self.0.join(REMOVED);
        replace(&path, &removed.encode()).map_err(IdentityError::file(path))
    }

    /// A request for a certificate that ends later.
    ///
    /// # Errors
    /// The folder.
    pub fn renewal(&self) -> Result<Vec<u8>, IdentityError> {
        let Written { fleet, member, .. } = self.written()?;
        let key = key_of(&self.certificate())?;
        let wish = Wish::Renew { node: member.node };
        Request { fleet, wish, key: public(&key)? }.encode(&key, None)
    }

    /// Takes the answer to such a request.
    ///
    /// # Errors
    /// It is a refusal, or none of the issuer; the folder.
    pub fn renewed(&self, request: &[u8], answer: &[u8]) -> Result<Facts, IdentityError> {
        let key = key_of(&self.certificate())?;
        let given = given(&read(&self.ca())?, request, answer)?;
        self.take(&given, &key)
    }

    /// Keeps a certificate with its key, in one file: after a crash it has this or the one before.
    fn take(&self, given: &Given, key: &KeyPair) -> Result<Facts, IdentityError> {
        let facts = Facts::of(&given.certificate)
            .filter(|facts| public(key).is_ok_and(|own| own == facts.key))
            .ok_or_else(|| {
                IdentityError::PeerAnswer("its certificate is for another key".into())
            })?;
        put(&self.certificate(), &format!("{}{}", given.certificate, key.serialize_pem()))?;
        Ok(facts)
    }
}

impl Joining {
    /// What the servers are to be shown.
    pub fn files(&self) -> (PathBuf, PathBuf) {
        let joining = self.folder.0.join(JOINING);
        (joining.join(CA), joining.join("token.pem"))
    }

    /// The token.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// What to ask.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Takes the answer; the machine belongs to the fleet then.
    ///
    /// # Errors
    /// It is a refusal, or none of the issuer; the folder.
    pub fn answered(
        self,
        answer: &[u8],
        servers: &[String],
    ) -> Result<(Member, Facts), IdentityError> {
        let Self { folder, token, key, own, request } = self;
        let given = given(&token.ca, &request, answer)?;
        if let Some(sealed) = &given.secret {
            let secret = own.open(sealed);
            let secret = secret.ok_or_else(|| {
                IdentityError::PeerAnswer("the fleet's secret in it cannot be opened".into())
            })?;
            put(&folder.secret(), &secret)?;
        }
        put(&folder.ca(), &token.ca)?;
        folder.write_member(&token.fleet, servers, &given.member)?;
        let facts = folder.take(&given, &key)?;
        Ok((given.member, facts))
    }
}

/// What the issuer gives, whose certificate `ca` is.
fn given(ca: &str, request: &[u8], answer: &[u8]) -> Result<Given, IdentityError> {
    let issuer = Facts::of(ca).ok_or_else(|| {
        IdentityError::PeerAnswer("the certificate of its key cannot be read".into())
    })?;
    match Answer::read(answer, request, &issuer.key)? {
        Answer::Given(given) => Ok(*given),
        Answer::Refused { why } => Err(IdentityError::Refused(why)),
    }
}

fn public(key: &KeyPair) -> Result<PublicKey, IdentityError> {
    PublicKey::of(key).ok_or_else(|| IdentityError::LocalKey("it is not of P-256".into()))
}

/// The key in a file that may have certificates as well.
fn key_of(path: &Path) -> Result<KeyPair, IdentityError> {
    let pem = read(path)?;
    let wrong = |why: String| IdentityError::ConfigContent { path: path.to_owned(), why };
    let begin = pem.find("-----BEGIN PRIVATE KEY-----");
    let begin = begin.ok_or_else(|| wrong("no key in it".into()))?;
    KeyPair::from_pem(&pem[begin..]).map_err(|error| wrong(error.to_string()))
}

fn read(path: &Path) -> Result<String, IdentityError> {
    fs::read_to_string(path).map_err(IdentityError::file(path))
}

fn put(path: &Path, text: &str) -> Result<(), IdentityError> {
    replace(path, text.as_bytes()).map_err(IdentityError::file(path))
}
