//! Requests for certificates, on their way to who has the issuing key and back; and the list of who was removed.

use super::link::{FleetError, Link, LinkSettings, failed};
use super::publish::Retention;
use super::shelf::{Shelf, Told};
use crate::identity::{Answer, Facts, Identity, Issuer, Joining, Member, Removed};
use crate::limits::NODE_LIFE_MAX;
use async_nats::client::RequestErrorKind;
use freshet_base::clock::UnixMillis;
use futures_util::StreamExt;
use std::time::Duration;

/// The subject of requests, and the shelf of the list.
const IDENTITY: &str = "identity";
/// The list's key.
const REMOVED: &str = "removed";
/// What answers to who joins begin with: the servers show them to nobody else.
const JOINING: &str = "_JOINING";
/// What else they may begin with: a connection's own, and what a server has put in its place between accounts. To any
/// other subject an answer would be a word of the issuer's.
const ANSWERED: [&str; 3] = [JOINING, "_INBOX", "_R_"];
/// How often a change of the list is tried behind those of others.
const TRIES_MAX: usize = 20;
/// Time between two tries to hear requests.
const PAUSE: Duration = Duration::from_secs(1);

impl Link {
    fn identities(&self) -> Shelf {
        self.shelf(IDENTITY)
    }

    /// Makes the place for the list of who was removed, where it is not there yet.
    pub(super) async fn init_removed(&self, retention: Retention) -> Result<(), FleetError> {
        self.identities().make_documents(retention.replicas).await
    }

    /// Asks who has the issuing key.
    async fn ask_issuer(&self, request: Vec<u8>) -> Result<Vec<u8>, FleetError> {
        let asked = self.client.request(self.subject(IDENTITY), request.into()).await;
        let answer = asked.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders | RequestErrorKind::TimedOut => {
                FleetError::NoIssuer(self.fleet().to_owned())
            }
            _ => failed(error),
        })?;
        Ok(answer.payload.to_vec())
    }

    /// Who was removed, and may still have a certificate.
    ///
    /// # Errors
    /// No answer, or a list that this version cannot read.
    pub async fn removed(&self) -> Result<Removed, FleetError> {
        Ok(self.read_removed().await?.0)
    }

    async fn read_removed(&self) -> Result<(Removed, u64), FleetError> {
        match self.identities().read(REMOVED).await? {
            None => Ok((Removed::default(), 0)),
            Some(document) => {
                let removed = Removed::decode(&document.bytes).map_err(FleetError::Config)?;
                Ok((removed.at(UnixMillis::now()), document.revision))
            }
        }
    }

    /// Tells when that changes.
    pub(super) async fn removed_told(&self) -> Told {
        self.identities().told(REMOVED, PAUSE).await
    }

    /// Has nobody take a node's certificates any more.
    ///
    /// # Errors
    /// No answer, or a list that this version cannot read.
    pub async fn remove_identity(&self, node: &str) -> Result<(), FleetError> {
        for _ in 0..TRIES_MAX {
            let (mut removed, revision) = self.read_removed().await?;
            removed.add(node, UnixMillis::now().plus(NODE_LIFE_MAX));
            match self.identities().write(REMOVED, removed.encode(), Some(revision)).await {
                Err(FleetError::Contended) => {}
                written => return written.map(drop),
            }
        }
        Err(FleetError::Contended)
    }
}

/// What became of a request.
#[derive(Debug)]
pub enum Issued {
    /// Requests are heard from now on.
    Heard,
    /// It was answered so.
    Answered(Box<Answer>),
    /// It was not, and who asked may ask again.
    Unanswered(FleetError),
}

/// Answers requests for certificates, which hold for `life`, for as long as it is polled, and says what became of each.
pub async fn issue(link: &Link, issuer: &Issuer, life: Duration, mut said: impl FnMut(Issued)) {
    let lacking = "requests for certificates cannot be heard";
    let mut requests = link.subscribed(IDENTITY, PAUSE, lacking).await;
    // A server that answers has taken in what this connection said before.
    match link.removed().await {
        Ok(_) => said(Issued::Heard),
        Err(error) => said(Issued::Unanswered(error)),
    }
    while let Some(message) = requests.next().await {
        let is_answered =
            |reply: &str| reply.split_once('.').is_some_and(|(first, _)| ANSWERED.contains(&first));
        let Some(reply) = message.reply.filter(|reply| is_answered(reply)) else { continue };
        match answer(link, issuer, life, &message.payload).await {
            Ok(None) => {}
            Ok(Some((answer, bytes))) => {
                // Whoever waits in vain asks again.
                match link.client.publish(reply, bytes.into()).await {
                    Ok(()) => said(Issued::Answered(Box::new(answer))),
                    Err(error) => said(Issued::Unanswered(failed(error))),
                }
            }
            Err(error) => said(Issued::Unanswered(error)),
        }
    }
}

async fn answer(
    link: &Link,
    issuer: &Issuer,
    life: Duration,
    request: &[u8],
) -> Result<Option<(Answer, Vec<u8>)>, FleetError> {
    let removed = link.removed().await?;
    Ok(issuer.answer(request, &removed, life, UnixMillis::now())?)
}

/// Has a machine join by one of these servers.
///
/// # Errors
/// Servers and an issuer that cannot be had, a refusal, the machine's folder.
pub async fn join(joining: Joining, servers: &[String]) -> Result<(Member, Facts), FleetError> {
    let (ca, certificate) = joining.files();
    let settings = LinkSettings {
        servers: servers.to_vec(),
        fleet: joining.token().fleet.clone(),
        ca: Some(ca),
        certificate: Some((certificate.clone(), certificate)),
        inbox: Some(JOINING),
        ..LinkSettings::default()
    };
    let link = Link::connect(&settings, false).await?;
    let answer = link.ask_issuer(joining.request().to_vec()).await?;
    Ok(joining.answered(&answer, servers)?)
}

/// Has a machine's certificate be replaced by one that ends later.
///
/// # Errors
/// No issuer that can be had, a refusal, the machine's folder.
pub async fn renew(link: &Link, identity: &Identity) -> Result<Facts, FleetError> {
    let request = identity.renewal()?;
    let answer = link.ask_issuer(request.clone()).await?;
    Ok(identity.renewed(&request, &answer)?)
}
