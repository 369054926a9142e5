//! Requests to an authority and its answers: nonces, signatures, problems, limits.

use crate::error::{AcmeError, FailureKind, shown};
use crate::jose::{AccountKey, Signer};
use crate::limits::{
    ANSWER_BYTES_MAX, ANSWER_WITHIN, HOSTS_MAX, NONCE_RETRIES_MAX, NONCES_MAX, RETRY_AFTER_MAX,
    TEXT_BYTES_MAX,
};
use crate::messages::{Directory, Problem};
use freshet_base::clock::UnixMillis;
use freshet_http::date;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, Scheme};
use freshet_origin::pool::Pool;
use freshet_origin::request_body::{BodyProvider, WholeBody};
use freshet_origin::{Origin, OriginError, OriginSettings, exchange};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Who asks an authority.
pub(crate) struct Client {
    pool: Pool,
    ca: Option<PathBuf>,
    directory_url: String,
    directory: Option<Directory>,
    /// By scheme and authority.
    origins: HashMap<String, Arc<Origin>>,
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

/// What an HTTP exchange brought.
struct Raw {
    status: u16,
    fields: Fields,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(
        directory_url: &str,
        ca: Option<PathBuf>,
        key: AccountKey,
        account: Option<String>,
    ) -> Self {
        Self {
            pool: Pool::new(),
            ca,
            directory_url: directory_url.to_owned(),
            directory: None,
            origins: HashMap::new(),
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
        self.origins.clear();
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
        let retry_after = retry_after(&raw.fields, UnixMillis::now());
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
        let target = Target::of(url)?;
        let origin = self.origin(&target)?;
        let mut head = RequestHead {
            method,
            scheme: target.scheme,
            authority: target.authority.clone(),
            target: target.path,
            ..RequestHead::default()
        };
        head.fields.append("User-Agent", concat!("freshet/", env!("CARGO_PKG_VERSION")));
        if body.is_some() {
            head.fields.append("Content-Type", "application/jose+json");
        }
        let mut body = body.map(WholeBody::new);
        let body = body.as_mut().map(|body| body as &mut dyn BodyProvider);
        let raw = timeout(ANSWER_WITHIN, whole(&self.pool, &origin, &head, body)).await;
        // One that is kept would be closed by the other side by the time of the next order.
        self.pool.close_idle(origin.id);
        raw.unwrap_or_else(|_| {
            let seconds = ANSWER_WITHIN.as_secs();
            let message = format!("{} did not answer within {seconds} s", target.authority);
            Err(AcmeError::new(FailureKind::Network, message))
        })
    }

    fn origin(&mut self, target: &Target) -> Result<Arc<Origin>, AcmeError> {
        let name = format!("{}://{}", target.scheme.as_str(), target.authority);
        if let Some(origin) = self.origins.get(&name) {
            return Ok(Arc::clone(origin));
        }
        let refuse = |error: OriginError| AcmeError::new(FailureKind::Config, error.to_string());
        let mut settings: OriginSettings = name.parse().map_err(refuse)?;
        settings.logs_outages = false;
        settings.timeouts.connect = ANSWER_WITHIN;
        settings.timeouts.first_byte = ANSWER_WITHIN;
        if let Some(tls) = &mut settings.tls {
            tls.ca.clone_from(&self.ca);
        }
        let origin = Origin::new(settings).map_err(refuse)?;
        if self.origins.len() >= HOSTS_MAX {
            self.origins.clear();
        }
        self.origins.insert(name, Arc::clone(&origin));
        Ok(origin)
    }
}

async fn whole(
    pool: &Pool,
    origin: &Arc<Origin>,
    head: &RequestHead,
    body: Option<&mut dyn BodyProvider>,
) -> Result<Raw, AcmeError> {
    let mut response = exchange(pool, origin, head, body, &mut |_interim| {}).await?;
    let mut bytes = Vec::new();
    let mut piece = [0; 8192];
    loop {
        match response.body.read(&mut piece).await? {
            0 => break,
            count => bytes.extend_from_slice(&piece[..count]),
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            let message = format!("the authority's answer is longer than {ANSWER_BYTES_MAX} bytes");
            return Err(AcmeError::malformed(message));
        }
    }
    Ok(Raw { status: response.head.status, fields: response.head.fields, body: bytes })
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
fn retry_after(fields: &Fields, now: UnixMillis) -> Option<Duration> {
    let text = fields.get_str("retry-after")?.trim();
    let time = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => date::parse(text.as_bytes())?.since(now),
    };
    Some(time.min(RETRY_AFTER_MAX))
}

/// A URL in its parts.
struct Target {
    scheme: Scheme,
    authority: String,
    path: String,
}

impl Target {
    /// RFC 8555 §6.1 wants HTTPS; on this machine itself, as in tests, HTTP will do.
    fn of(url: &str) -> Result<Self, AcmeError> {
        let refuse = |why: &str| {
            let message = format!("`{}` is not a URL of an authority: {why}", shown(url));
            AcmeError::malformed(message)
        };
        if url.len() > TEXT_BYTES_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refuse("it is too long, or not of letters, digits and signs"));
        }
        let (scheme, rest) = match url.split_once("://") {
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            _ => return Err(refuse("it is not https")),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        if scheme == Scheme::Http && !["127.0.0.1", "[::1]", "localhost"].contains(&host) {
            return Err(refuse("it is not https"));
        }
        if authority.contains(['@', '#']) || path.contains('#') {
            return Err(refuse("it has a user or a fragment"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { scheme, authority: authority.to_owned(), path: format!("{slash}{path}") })
    }
}

/// Whether a URL can be that of a directory.
///
/// # Errors
/// Why not.
pub(crate) fn check_url(url: &str) -> Result<(), AcmeError> {
    Target::of(url).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_https_or_of_this_machine() {
        for good in ["https://a.example/dir", "https://a", "http://127.0.0.1:14000/d?x=1"] {
            assert!(check_url(good).is_ok(), "{good}");
        }
        let long = format!("https://a/{}", "x".repeat(TEXT_BYTES_MAX));
        for bad in [
            "",
            "http://a.example/",
            "ftp://a",
            "https://a@b/",
            "https://a/#x",
            "https://a\n",
            &long,
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let read = |text: &str| {
            let mut fields = Fields::new();
            fields.append("Retry-After", text);
            retry_after(&fields, UnixMillis(784_111_777_000))
        };
        assert_eq!(read("120"), Some(Duration::from_secs(120)));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(read("Sun, 06 Nov 1993 08:50:37 GMT"), Some(Duration::ZERO));
        assert_eq!(read("99999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(read("soon"), None);
    }
}
