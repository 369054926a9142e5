//! One order, from wherever its journal says it is to the certificate (RFC 8555 §7.1.6).

use crate::certificate::{self, Facts};
use crate::client::Client;
use crate::error::{AcmeError, FailureKind, shown};
use crate::limits::{LIST_MAX, TEXT_BYTES_MAX};
use crate::messages::{Authorization, Challenge, Order, Problem};
use crate::plan::{ChallengeKind, Plan};
use crate::schedule::pause;
use crate::state::{Journal, State};
use aws_lc_rs::digest::{SHA256, digest};
use freshet_base::clock::UnixMillis;
use freshet_net::tls::challenge::Challenges;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

/// Longest time between two questions about what is under way.
const POLL_MAX: Duration = Duration::from_secs(15);

/// What an order is made with.
pub(crate) struct Work<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) state: &'a State,
    pub(crate) client: &'a mut Client,
    pub(crate) challenges: &'a Challenges,
}

impl Work<'_> {
    /// Gets the certificate for `name` and puts it in its place. What is done is in the journal before
    /// it is done; dropped at any moment, the next call goes on. `replaces` is what the certificate
    /// to be renewed is called (RFC 9773 §4.1).
    ///
    /// # Errors
    /// What went wrong; where that ends the order, the journal has none any more.
    pub(crate) async fn obtain(
        &mut self,
        name: &str,
        journal: &mut Journal,
        replaces: Option<&str>,
    ) -> Result<Facts, AcmeError> {
        let result = self.steps(name, journal, replaces).await;
        if let Err(error) = &result {
            match error.kind {
                FailureKind::Network
                | FailureKind::Server
                | FailureKind::RateLimited
                | FailureKind::Storage => {}
                FailureKind::Certificate => {
                    journal.order = None;
                    journal.key_pem.clear();
                }
                _ => journal.order = None,
            }
            if error.problem == "accountDoesNotExist" {
                // The authority has begun anew, as one for tests does. The key is still ours.
                self.client.set_account(None);
            }
        }
        result
    }

    async fn steps(
        &mut self,
        name: &str,
        journal: &mut Journal,
        replaces: Option<&str>,
    ) -> Result<Facts, AcmeError> {
        self.ensure_account().await?;
        if journal.directory != self.plan.directory {
            (journal.order, journal.token) = (None, None);
            journal.directory.clone_from(&self.plan.directory);
        }
        let (mut url, mut was_left) = match &journal.order {
            Some(url) => (url.clone(), true),
            None => (self.begin(name, journal, replaces).await?, false),
        };
        let mut wait = self.plan.pace.poll;
        loop {
            let answer = self.client.post(&url, None, false).await?;
            let mut order: Order = answer.json("order")?;
            if std::mem::take(&mut was_left) && order.status == "invalid" {
                // It ended while nobody looked; what is wanted now is another one.
                (journal.order, journal.token) = (None, None);
                url = self.begin(name, journal, replaces).await?;
                continue;
            }
            if order.status == "pending" {
                self.prove(name, journal, &order).await?;
            } else if order.status == "ready" {
                let csr = certificate::request(&journal.key_pem, name)?;
                let payload = json!({"csr": crate::jose::encode(&csr)});
                let answer = self.client.post(&order.finalize, Some(&payload), false).await?;
                order = answer.json("order")?;
            }
            match order.status.as_str() {
                "pending" | "ready" | "processing" => {}
                "valid" => return self.take(name, journal, &order).await,
                // What proves the name was seen before.
                "invalid" => {
                    let error = invalid("the order", order.error.as_ref());
                    return Err(AcmeError { kind: FailureKind::Refused, ..error });
                }
                other => {
                    let message = format!("the authority's order is `{}`", shown(other));
                    return Err(AcmeError::malformed(message));
                }
            }
            sleep(answer.retry_after.unwrap_or(wait).min(POLL_MAX)).await;
            wait = (wait * 2).min(POLL_MAX);
        }
    }

    /// Has an account, made now where there is none (RFC 8555 §7.3). One that this key has already is
    /// the answer too, so that nothing is lost between the authority's answer and the disk.
    async fn ensure_account(&mut self) -> Result<(), AcmeError> {
        if self.client.account().is_some() {
            return Ok(());
        }
        let directory = self.client.directory().await?;
        let mut payload = json!({"termsOfServiceAgreed": true, "contact": self.plan.contact});
        match &self.plan.external_account {
            Some(account) => {
                let binding = self.client.key().binding(account, &directory.new_account);
                payload["externalAccountBinding"] = binding;
            }
            None if directory.meta.is_some_and(|meta| meta.external_account_required) => {
                let message = "the authority wants an account of its own first: give \
                               acme.eab_key_id and acme.eab_hmac_file as it says";
                return Err(AcmeError::new(FailureKind::Config, message));
            }
            None => {}
        }
        let answer = self.client.post(&directory.new_account, Some(&payload), true).await?;
        let url = location(answer.location, "account")?;
        self.state.set_account(&self.plan.directory, &url)?;
        self.client.set_account(Some(url));
        Ok(())
    }

    /// Makes the order. The key is on disk before, so that no certificate is ever without its key, and
    /// so is that this was tried: a process that is killed just here does not order again at once.
    async fn begin(
        &mut self,
        name: &str,
        journal: &mut Journal,
        replaces: Option<&str>,
    ) -> Result<String, AcmeError> {
        if journal.key_pem.is_empty() {
            journal.key_pem = certificate::new_key(self.plan.key_type)?;
        }
        journal.token = None;
        let refused = FailureKind::Refused;
        let wait = pause(self.plan.pace, refused, journal.failures + 1, None, 0.5);
        let before_ms = journal.not_before_ms;
        journal.not_before_ms = i64::try_from(UnixMillis::now().plus(wait).0).unwrap_or(i64::MAX);
        self.state.set_journal(name, journal)?;
        let directory = self.client.directory().await?;
        let mut payload = json!({"identifiers": [{"type": "dns", "value": name}]});
        if let Some(replaces) = replaces.filter(|_| directory.renewal_info.is_some()) {
            payload["replaces"] = json!(replaces);
        }
        let mut answer = self.client.post(&directory.new_order, Some(&payload), false).await;
        if let (Err(error), Some(object)) = (&answer, payload.as_object_mut())
            && error.kind == refused
            && object.remove("replaces").is_some()
        {
            // It was replaced already, or the authority does not know it (RFC 9773 §5).
            answer = self.client.post(&directory.new_order, Some(&payload), false).await;
        }
        let url = location(answer?.location, "order")?;
        journal.order = Some(url.clone());
        journal.not_before_ms = before_ms;
        self.state.set_journal(name, journal)?;
        Ok(url)
    }

    /// Proves what the authority has not seen proved yet.
    async fn prove(
        &mut self,
        name: &str,
        journal: &mut Journal,
        order: &Order,
    ) -> Result<(), AcmeError> {
        if !(1..=LIST_MAX).contains(&order.authorizations.len()) {
            return Err(AcmeError::malformed("the authority's order has no authorization"));
        }
        for url in &order.authorizations {
            let mut authorization = self.authorization(url).await?.0;
            if !authorization.identifier.value.eq_ignore_ascii_case(name) {
                return Err(AcmeError::malformed("the authority wants another name proved"));
            }
            if authorization.status == "pending" {
                let challenge = self.show(name, journal, &authorization)?;
                self.state.set_journal(name, journal)?;
                if challenge.status != "processing" {
                    self.client.post(&challenge.url, Some(&json!({})), false).await?;
                }
            }
            let mut wait = self.plan.pace.poll;
            while authorization.status == "pending" {
                sleep(wait.min(POLL_MAX)).await;
                let (next, retry_after) = self.authorization(url).await?;
                authorization = next;
                wait = retry_after.unwrap_or(wait * 2);
            }
            if authorization.status != "valid" {
                let failed = authorization.challenges.iter().find_map(|one| one.error.as_ref());
                return Err(invalid(name, failed));
            }
        }
        Ok(())
    }

    async fn authorization(
        &mut self,
        url: &str,
    ) -> Result<(Authorization, Option<Duration>), AcmeError> {
        let answer = self.client.post(url, None, false).await?;
        let authorization: Authorization = answer.json("authorization")?;
        if authorization.challenges.len() > LIST_MAX {
            return Err(AcmeError::malformed("the authority's authorization is too long"));
        }
        Ok((authorization, answer.retry_after))
    }

    /// Puts the proof where workers find it. After a failure another kind gets its turn.
    fn show(
        &self,
        name: &str,
        journal: &mut Journal,
        authorization: &Authorization,
    ) -> Result<Challenge, AcmeError> {
        let offered = |kind: &ChallengeKind| {
            authorization.challenges.iter().find(|one| one.kind == kind.as_str())
        };
        let possible: Vec<_> = self.plan.challenges.iter().filter_map(offered).collect();
        let turn = (journal.failures as usize).checked_rem(possible.len());
        let Some(challenge) = turn.and_then(|turn| possible.get(turn)) else {
            let kinds: Vec<_> =
                authorization.challenges.iter().map(|one| one.kind.as_str()).collect();
            let kinds = shown(&kinds.join(", "));
            let message = format!("none of acme.challenges will do for {name}, only {kinds}");
            return Err(AcmeError::new(FailureKind::Refused, message));
        };
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let token = &challenge.token;
        if token.is_empty() || token.len() > TEXT_BYTES_MAX || !token.bytes().all(is_letter) {
            return Err(AcmeError::malformed("the authority's token is none (RFC 8555 §8.3)"));
        }
        journal.token = Some(token.clone());
        show(self.client, self.challenges, name, token)?;
        Ok((*challenge).clone())
    }

    /// Fetches the certificate and puts it in its place; the journal ends after that.
    async fn take(
        &mut self,
        name: &str,
        journal: &mut Journal,
        order: &Order,
    ) -> Result<Facts, AcmeError> {
        let missing = || AcmeError::malformed("the authority's order has no certificate");
        let url = order.certificate.as_deref().ok_or_else(missing)?;
        let answer = self.client.post(url, None, false).await?;
        let text = String::from_utf8_lossy(&answer.body);
        let now_s = UnixMillis::now().seconds();
        let (facts, chain) = certificate::check(&text, &journal.key_pem, name, now_s)?;
        self.state.set_certificate(name, &journal.key_pem, &chain)?;
        self.state.end_journal(name)?;
        Ok(facts)
    }
}

/// Answers the challenge of this token in both ways.
pub(crate) fn show(
    client: &Client,
    challenges: &Challenges,
    name: &str,
    token: &str,
) -> Result<(), AcmeError> {
    let proof = client.key().key_authorization(token);
    let (chain, key) = certificate::challenge(name, digest(&SHA256, proof.as_bytes()).as_ref())?;
    challenges.add_answer(token, &proof);
    challenges
        .add_certificate(name, &chain, &key)
        .map_err(|error| AcmeError::new(FailureKind::Storage, error.to_string()))
}

fn location(found: Option<String>, what: &str) -> Result<String, AcmeError> {
    found.filter(|url| url.len() <= TEXT_BYTES_MAX).ok_or_else(|| {
        AcmeError::malformed(format!("the authority does not say where the {what} is"))
    })
}

fn invalid(what: &str, problem: Option<&Problem>) -> AcmeError {
    let why = match problem {
        Some(problem) => format!("{} ({})", shown(&problem.detail), shown(problem.word())),
        None => "it does not say why".to_owned(),
    };
    let message = format!("the authority did not accept {what}: {why}");
    let problem = problem.map(|problem| problem.word().to_owned()).unwrap_or_default();
    AcmeError { problem, ..AcmeError::new(FailureKind::Challenge, message) }
}
