//! Who has a fleet's issuing key, in a folder of one machine.
//!
//! ```text
//! issuer.json         the fleet, its servers: Known
//! issuer.key ca.pem   the issuing key, and its certificate
//! secret              the fleet's secret, which goes to each machine that joins
//! operator/           a machine's folder (Identity) for who gives commands, and for the issuer itself
//! servers/NAME/       for a server of NATS: certificate, key, and the part of its configuration
//! tokens/ nodes/      what is known of each: TokenRecord, NodeRecord
//! ```

use super::certificate::{Facts, PublicKey, Wanted, authority, issue, new_key};
use super::folder::{CA, IDENTITY, SECRET};
use super::message::{Answer, Given, Heard, Request, Wish};
use super::record::{NodeRecord, Records, TokenRecord};
use super::sealed::{Half, Own, Sealed};
use super::{Identity, IdentityError, Member, Removed, Role, Token, checked, node_name, servers};
use crate::config::Secret;
use crate::limits::{LABELS_MAX, NODE_LIFE_MAX, TOKEN_LIFE_MAX};
use aws_lc_rs::rand;
use freshet_base::clock::UnixMillis;
use freshet_base::hexadecimal;
use freshet_base::private::{make_folder, replace};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The form that this version writes, and the newest it reads.
const FORMAT: u32 = 1;
const KNOWN: &str = "issuer.json";
const KEY: &str = "issuer.key";
/// How long the issuing key's own certificate holds: nothing replaces it but a fleet's second beginning.
const AUTHORITY_LIFE: Duration = Duration::from_secs(20 * 365 * 86_400);
/// How long what people renew by hand holds: certificates of servers and of operators.
const BY_HAND_LIFE: Duration = Duration::from_secs(2 * 365 * 86_400);

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Known {
    format: u32,
    fleet: String,
    servers: Vec<String>,
    /// Where the servers of NATS have their files.
    servers_folder: PathBuf,
}

/// An issuer.
pub struct Issuer {
    folder: PathBuf,
    known: Known,
    key: KeyPair,
    ca: String,
    /// Held while a request is decided: what is known is read, and then written.
    deciding: Mutex<()>,
}

impl Issuer {
    /// Makes what is missing of an issuer's folder: all of it, or what further servers need. Certificates of servers
    /// and operators of which less than a third is left are made anew.
    ///
    /// # Errors
    /// Names, files, and a folder of another fleet.
    pub fn init(
        folder: &Path,
        fleet: &str,
        servers: &[String],
        servers_folder: &Path,
        now: UnixMillis,
    ) -> Result<Self, IdentityError> {
        checked(fleet)?;
        make_folder(folder).map_err(IdentityError::file(folder))?;
        let mut known = read_known(folder)?.unwrap_or_else(|| Known {
            format: FORMAT,
            fleet: fleet.to_owned(),
            servers: Vec::new(),
            servers_folder: servers_folder.to_owned(),
        });
        if known.fleet != fleet {
            let why = format!("it is the folder of the fleet `{}`", known.fleet);
            return Err(IdentityError::ConfigContent { path: folder.to_owned(), why });
        }
        known.servers_folder = servers_folder.to_owned();
        for server in servers {
            servers::host(server)?;
            if !known.servers.contains(server) {
                known.servers.push(server.clone());
            }
        }
        missing(folder, KEY, || Ok(new_key()?.serialize_pem()))?;
        let key = read_key(folder)?;
        missing(folder, CA, || Ok(authority(fleet, now, AUTHORITY_LIFE).self_signed(&key)?.pem()))?;
        missing(folder, SECRET, || {
            let secret =
                Secret::random().map_err(|error| IdentityError::LocalKey(error.to_string()))?;
            Ok(format!("{}\n", secret.text()))
        })?;
        write_known(folder, &known)?;
        let issuer = Self::open(folder)?;
        issuer.init_operator(now)?;
        issuer.init_servers(now)?;
        Ok(issuer)
    }

    /// The one of a folder that is there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(folder: &Path) -> Result<Self, IdentityError> {
        let known = read_known(folder)?.ok_or_else(|| IdentityError::ConfigContent {
            path: folder.to_owned(),
            why: "it is no issuer's folder: `freshet fleet issuer init` makes one".into(),
        })?;
        let (key, ca) = (read_key(folder)?, read(folder, CA)?);
        Ok(Self { folder: folder.to_owned(), known, key, ca, deciding: Mutex::default() })
    }

    /// The fleet's name.
    pub fn fleet(&self) -> &str {
        &self.known.fleet
    }

    /// The fleet's servers.
    pub fn servers(&self) -> &[String] {
        &self.known.servers
    }

    /// What the issuer and operators show to the servers.
    pub fn operator(&self) -> Identity {
        Identity::new(&self.folder.join("operator"))
    }

    /// A file that one process holds while it answers.
    pub fn lock_path(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// Makes a token for a machine that is to be this member.
    ///
    /// # Errors
    /// Names, files.
    pub fn token(
        &self,
        member: Member,
        life: Duration,
        now: UnixMillis,
    ) -> Result<Token, IdentityError> {
        checked(&member.node)?;
        member.group.iter().chain(&member.labels).try_for_each(|name| checked(name).map(drop))?;
        if member.labels.len() > LABELS_MAX {
            return Err(IdentityError::ConfigName(member.labels.join(" ")));
        }
        let life = life.min(TOKEN_LIFE_MAX);
        let mut id = [0; 16];
        rand::fill(&mut id).map_err(|_| IdentityError::LocalKey("no random bytes".into()))?;
        let id = hexadecimal::encode(&id);
        let names = [Role::Joining.name(self.fleet())];
        let wanted = Wanted { names: &names, serves: false, now, life };
        let (identity, key) = self.pair(&wanted)?;
        let until_ms = now.plus(life).0;
        self.tokens().forget_used_up(now);
        self.tokens().write(&id, &TokenRecord { key, member, until_ms, used_by: None })?;
        Ok(Token {
            id,
            fleet: self.known.fleet.clone(),
            servers: self.known.servers.clone(),
            ca: self.ca.clone(),
            identity,
            from_ms: now.0,
            until_ms,
        })
    }

    /// Answers a request, with a certificate that holds for `life`; nothing where it is none that anybody waits for.
    ///
    /// # Errors
    /// The folder: then nothing was decided, and the same may be asked again.
    pub fn answer(
        &self,
        request: &[u8],
        removed: &Removed,
        life: Duration,
        now: UnixMillis,
    ) -> Result<Option<(Answer, Vec<u8>)>, IdentityError> {
        let Some(heard) = Heard::read(request) else { return Ok(None) };
        let _one_at_a_time = self.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match self.decide(&heard, removed, life.min(NODE_LIFE_MAX), now) {
            Ok(given) => Answer::Given(Box::new(given)),
            Err(IdentityError::Refused(why)) => Answer::Refused { why },
            Err(error) => return Err(error),
        };
        Ok(Some((answer.clone(), answer.encode(request, &self.key)?)))
    }

    fn decide(
        &self,
        heard: &Heard,
        removed: &Removed,
        life: Duration,
        now: UnixMillis,
    ) -> Result<Given, IdentityError> {
        let Request { fleet, wish, key } = &heard.request;
        if fleet != self.fleet() {
            return refuse(format!("it is that of the fleet `{}`, not of `{fleet}`", self.fleet()));
        }
        let (member, secret) = match wish {
            Wish::Join { token, half } => {
                let record = self.token_of(heard, token, now)?;
                self.belongs(&record.member, removed, now)?;
                (record.member.clone(), Some(self.use_token(token, record, *key, *half)?))
            }
            Wish::Renew { node } => {
                let member = self.member(node, key, now)?;
                self.belongs(&member, removed, now)?;
                (member, None)
            }
        };
        let names = [node_name(self.fleet(), &member.node), Role::Node.name(self.fleet())];
        let wanted = Wanted { names: &names, serves: true, now, life };
        let certificate = issue(&wanted, key, &self.signs(now))?;
        let until_ms = now.plus(life).0;
        let record = NodeRecord { member: member.clone(), key: *key, until_ms };
        self.nodes().write(&member.node, &record)?;
        Ok(Given { certificate, member, secret })
    }

    fn tokens(&self) -> Records {
        Records::new(&self.folder, "tokens")
    }

    fn nodes(&self) -> Records {
        Records::new(&self.folder, "nodes")
    }

    fn belongs(
        &self,
        member: &Member,
        removed: &Removed,
        now: UnixMillis,
    ) -> Result<(), IdentityError> {
        let Some(until) = removed.until(&member.node, now) else { return Ok(()) };
        let days = until.since(now).as_secs().div_ceil(86_400);
        refuse(format!(
            "the node `{}` was removed from the fleet; the name is free again in {days} days",
            member.node
        ))
    }

    /// The token that a request was made with, if it may be used by who asks.
    fn token_of(
        &self,
        heard: &Heard,
        id: &str,
        now: UnixMillis,
    ) -> Result<TokenRecord, IdentityError> {
        let record = if checked(id).is_ok() { self.tokens().read(id)? } else { None };
        // Who has not the token's key learns no more than that.
        let record = record.filter(|record: &TokenRecord| heard.is_by_token(&record.key));
        match record {
            None => refuse(
                "it does not know the token: its time is long over, or another issuer made it",
            ),
            // The answer may have been lost.
            Some(record) if record.used_by == Some(heard.request.key) => Ok(record),
            Some(record) if record.used_by.is_some() => refuse(format!(
                "the token was used already. Where that was not this machine: `freshet fleet remove {}`",
                record.member.node
            )),
            Some(record) if now.0 > record.until_ms => {
                refuse("the token's time is over: have a new one made")
            }
            Some(record) => Ok(record),
        }
    }

    /// Has nobody else use a token from now on, and seals the fleet's secret for who does.
    fn use_token(
        &self,
        id: &str,
        record: TokenRecord,
        key: PublicKey,
        half: Half,
    ) -> Result<Sealed, IdentityError> {
        if record.used_by.is_none() {
            self.tokens().write(id, &TokenRecord { used_by: Some(key), ..record })?;
        }
        let secret = read(&self.folder, SECRET)?;
        let sealed = Own::new().and_then(|own| own.seal(half, &secret));
        sealed.ok_or_else(|| IdentityError::Refused("what it is to seal for is no key".into()))
    }

    /// Who has this name and key, and a certificate yet. Otherwise somebody was away for long, or was removed so long ago that
    /// nobody knows it any more.
    fn member(
        &self,
        node: &str,
        key: &PublicKey,
        now: UnixMillis,
    ) -> Result<Member, IdentityError> {
        let record = if checked(node).is_ok() { self.nodes().read(node)? } else { None };
        match record {
            Some(NodeRecord { key: known, .. }) if known != *key => {
                refuse(format!("another machine has joined as `{node}` since"))
            }
            Some(NodeRecord { until_ms, .. }) if now.0 > until_ms => refuse(format!(
                "the certificate of `{node}` has ended: have it join with another token"
            )),
            Some(NodeRecord { member, .. }) => Ok(member),
            None => refuse(format!("it knows no node `{node}`")),
        }
    }

    fn signs(&self, now: UnixMillis) -> rcgen::Issuer<'static, &KeyPair> {
        rcgen::Issuer::new(authority(self.fleet(), now, AUTHORITY_LIFE), &self.key)
    }

    /// A certificate with a new key, both PEM in one text, and the key's public part.
    fn pair(&self, wanted: &Wanted<'_>) -> Result<(String, PublicKey), IdentityError> {
        let pair = new_key()?;
        let key = PublicKey::of(&pair)
            .ok_or_else(|| IdentityError::LocalKey("it is not of P-256".into()))?;
        let certificate = issue(wanted, &key, &self.signs(wanted.now))?;
        Ok((certificate + &pair.serialize_pem(), key))
    }

    fn init_operator(&self, now: UnixMillis) -> Result<(), IdentityError> {
        let folder = self.folder.join("operator");
        let names = [Role::Operator.name(self.fleet())];
        self.init_pair(&folder, &Wanted { names: &names, serves: false, now, life: BY_HAND_LIFE })?;
        let member = Member { node: "operator".into(), group: None, labels: Vec::new() };
        Identity::new(&folder).write_member(self.fleet(), self.servers(), &member)
    }

    fn init_servers(&self, now: UnixMillis) -> Result<(), IdentityError> {
        for server in self.servers() {
            let host = servers::host(server)?;
            let folder = self.folder.join("servers").join(&host);
            let names = [host];
            self.init_pair(
                &folder,
                &Wanted { names: &names, serves: true, now, life: BY_HAND_LIFE },
            )?;
            let text = servers::configuration(self.fleet(), &self.known.servers_folder);
            put(&folder, servers::CONFIGURATION, &text)?;
        }
        Ok(())
    }

    fn init_pair(&self, folder: &Path, wanted: &Wanted<'_>) -> Result<(), IdentityError> {
        make_folder(folder).map_err(IdentityError::file(folder))?;
        put(folder, CA, &self.ca)?;
        let known = fs::read_to_string(folder.join(IDENTITY)).ok();
        let is_good =
            known.and_then(|pem| Facts::of(&pem)).is_some_and(|facts| wanted.now < facts.renewal());
        if is_good { Ok(()) } else { put(folder, IDENTITY, &self.pair(wanted)?.0) }
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, IdentityError> {
    Err(IdentityError::Refused(why.into()))
}

fn read_known(folder: &Path) -> Result<Option<Known>, IdentityError> {
    let path = folder.join(KNOWN);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(IdentityError::file(path)(error)),
    };
    let wrong = |why: String| IdentityError::ConfigContent { path: path.clone(), why };
    let known: Known = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if known.format > FORMAT {
        return Err(wrong("a newer version of Freshet wrote it: run that one".into()));
    }
    Ok(Some(known))
}

fn write_known(folder: &Path, known: &Known) -> Result<(), IdentityError> {
    put(folder, KNOWN, &serde_json::to_string(known).unwrap_or_default())
}

fn read_key(folder: &Path) -> Result<KeyPair, IdentityError> {
    let wrong = |error: rcgen::Error| IdentityError::ConfigContent {
        path: folder.join(KEY),
        why: error.to_string(),
    };
    KeyPair::from_pem(&read(folder, KEY)?).map_err(wrong)
}

fn read(folder: &Path, name: &str) -> Result<String, IdentityError> {
    let path = folder.join(name);
    fs::read_to_string(&path).map_err(IdentityError::file(path))
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), IdentityError> {
    let path = folder.join(name);
    replace(&path, text.as_bytes()).map_err(IdentityError::file(path))
}

/// Writes a file unless it is there.
fn missing(
    folder: &Path,
    name: &str,
    text: impl FnOnce() -> Result<String, IdentityError>,
) -> Result<(), IdentityError> {
    if folder.join(name).exists() { Ok(()) } else { put(folder, name, &text()?) }
}
