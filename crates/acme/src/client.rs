//! Requests to an authority and its answers: nonces, signatures, problems, limits.

use crate::error::{AcmeError, FailureKind, shown};
use crate::http::{Http, Raw, Target};
use crate::jose::{AccountKey, Signer};
use crate::limits::{
    ANSWER_WITHIN, NONCE_RETRIES_MAX, NONCES_MAX, RETRY_AFTER_MAX, TEXT_BYTES_MAX,
};
use crate::messages::{Directory, Problem};
use freshet_base::clock::UnixMillis;
use freshet_http::fields::Fields;
use freshet_http::message::Method;
use freshet_http::retry_after;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Who asks an authority.
pub(crate) struct Client {
    http: Http,
    directory_url: String,
    directory: Option<Directory>,
    nonces: Vec<String>,
    key: AccountKey,
    account: Option<String>,
}

/// What an authority answered, when it did what it was asked.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) location: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(
        directory_url: &str,
        ca: Option<PathBuf>,
        key: AccountKey,
        account: Option<String>,
    ) -> Self {
        Self {
            http: Http::new(ca),
            directory_url: directory_url.to_owned(),
            directory: None,
            nonces: Vec::new(),
            key,
            account,
        }
    }

    /// The key of the account.
    pub(crate) fn key(&self) -> &AccountKey {
        &self.key
    }

    /// Where the account is, once there is one.
    pub(crate) fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// Signs as this account from here on.
    pub(crate) fn set_account(&mut self, account: Option<String>) {
        self.account = account;
    }

    /// Where what is done; asked once, and again after [`Client::forget`].
    pub(crate) async fn directory(&mut self) -> Result<Directory, AcmeError> {
        if let Some(directory) = &self.directory {
            return Ok(directory.clone());
        }
        let url = self.directory_url.clone();
        let answer = self.get(&url).await?;
        let directory: Directory = answer.json("directory")?;
        self.directory = Some(directory.clone());
        Ok(directory)
    }

    /// Asks for the directory again next time, and for fresh nonces: after a failure, both may be of
    /// an authority that is not there any more.
    pub(crate) fn forget(&mut self) {
        self.directory = None;
        self.nonces.clear();
        self.http.forget();
    }

    /// Asks without a signature, as for the directory and renewal information.
    pub(crate) async fn get(&mut self, url: &str) -> Result<Answer, AcmeError> {
        let raw = self.http(Method::Get, url, None).await?;
        self.answer(raw)
    }

    /// A signed request for the account, or for the key where there is none yet; without a payload it
    /// asks (POST-as-GET).
    ///
    /// # Errors
    /// What the authority says, after it was given a fresh nonce as often as it wanted one, up to
    /// [`NONCE_RETRIES_MAX`].
    pub(crate) async fn post(
        &mut self,
        url: &str,
        payload: Option<&Value>,
        is_new_account: bool,
    ) -> Result<Answer, AcmeError> {
        let mut retries = 0;
        loop {
            let nonce = self.nonce().await?;
            let account = self.account.clone().filter(|_| !is_new_account);
            let signer = account.as_deref().map_or(Signer::Key, Signer::Account);
            let body = self.key.sign(&signer, url, &nonce, payload)?;
            let raw = self.http(Method::Post, url, Some(body)).await?;
            match self.answer(raw) {
                Err(error) if error.problem == "badNonce" && retries < NONCE_RETRIES_MAX => {
                    retries += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn nonce(&mut self) -> Result<String, AcmeError> {
        if let Some(nonce) = self.nonces.pop() {
            return Ok(nonce);
        }
        let url = self.directory().await?.new_nonce;
        let raw = self.http(Method::Head, &url, None).await?;
        self.answer(raw)?;
        self.nonces.pop().ok_or_else(|| AcmeError::malformed("the authority gives no nonce"))
    }

    /// Keeps the nonce of an answer, and makes an error of a refusal.
    fn answer(&mut self, raw: Raw) -> Result<Answer, AcmeError> {
        // RFC 8555 §6.5.1: base64url; anything else is not one.
        let is_nonce = |text: &&str| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            !text.is_empty() && text.len() <= TEXT_BYTES_MAX && text.bytes().all(letter)
        };
        if let Some(nonce) = raw.fields.get_str("replay-nonce").filter(is_nonce) {
            self.nonces.truncate(NONCES_MAX - 1);
            self.nonces.push(nonce.to_owned());
        }
        let retry_after = left_alone_for(&raw.fields, UnixMillis::now());
        if (200..300).contains(&raw.status) {
            let location = raw.fields.get_str("location").map(str::to_owned);
            return Ok(Answer { location, retry_after, body: raw.body });
        }
        let problem: Problem = serde_json::from_slice(&raw.body).unwrap_or_default();
        let kind = match (raw.status, problem.word()) {
            (429, _) | (_, "rateLimited") => FailureKind::RateLimited,
            (500.., _) => FailureKind::Server,
            (400.., _) => FailureKind::Refused,
            _ => FailureKind::Malformed,
        };
        let mut message = format!("the authority answers {}", raw.status);
        if !problem.word().is_empty() {
            message = format!("{message} ({}): {}", shown(problem.word()), shown(&problem.detail));
        }
        let problem = problem.word().to_owned();
        Err(AcmeError { kind, message, retry_after, problem })
    }

    async fn http(
        &mut self,
        method: Method,
        url: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Raw, AcmeError> {
        self.http.ask(method, Target::of_authority(url)?, body, ANSWER_WITHIN).await
    }
}

impl Answer {
    /// The body as what it should be.
    pub(crate) fn json<T: DeserializeOwned>(&self, what: &str) -> Result<T, AcmeError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let message = format!("the authority's {what} cannot be read: {error}");
            AcmeError::malformed(shown(&message))
        })
    }
}

/// How long the authority wants to be left alone (RFC 9110 §10.2.3), within what is believed.
fn left_alone_for(fields: &Fields, now: UnixMillis) -> Option<Duration> {
    Some(retry_after::wait(fields, now)?.min(RETRY_AFTER_MAX))
}

/// Whether a URL can be that of a directory.
///
/// # Errors
/// Why not.
pub(crate) fn check_url(url: &str) -> Result<(), AcmeError> {
    Target::of_authority(url).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let read = |text: &str| {
            let mut fields = Fields::new();
            fields.append("Retry-After", text);
            left_alone_for(&fields, UnixMillis(784_111_777_000))
        };
        assert_eq!(read("120"), Some(Duration::from_secs(120)));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(read("Sun, 06 Nov 1993 08:50:37 GMT"), Some(Duration::ZERO));
        assert_eq!(read("99999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(read("soon"), None);
    }
}
