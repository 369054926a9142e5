//! One exchange over HTTP with somebody that a URL names, bounded in bytes and time.

use crate::error::{AcmeError, FailureKind, shown};
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_WITHIN, HOSTS_MAX, TEXT_BYTES_MAX};
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, Scheme};
use freshet_origin::pool::Pool;
use freshet_origin::request_body::{BodyProvider, WholeBody};
use freshet_origin::{Origin, OriginError, OriginSettings, exchange};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Who asks.
pub(crate) struct Http {
    pool: Pool,
    ca: Option<PathBuf>,
    /// By scheme and authority.
    origins: HashMap<String, Arc<Origin>>,
}

/// What an exchange brought.
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
}

impl Http {
    /// Trusts the authorities of this file, or the system's.
    pub(crate) fn new(ca: Option<PathBuf>) -> Self {
        Self { pool: Pool::new(), ca, origins: HashMap::new() }
    }

    /// Looks names up anew from here on.
    pub(crate) fn forget(&mut self) {
        self.origins.clear();
    }

    /// Asks, and reads the answer to its end. `body` is a signed message of ACME.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        target: Target,
        body: Option<Vec<u8>>,
        within: Duration,
    ) -> Result<Raw, AcmeError> {
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
        let body = body.map(|body| Box::new(WholeBody::new(body)) as Box<dyn BodyProvider>);
        let raw = timeout(within, whole(&self.pool, &origin, &head, body)).await;
        // One that is kept would be closed by the other side by the time of the next order.
        self.pool.close_idle(origin.id);
        raw.unwrap_or_else(|_| {
            let seconds = within.as_secs();
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
    body: Option<Box<dyn BodyProvider>>,
) -> Result<Raw, AcmeError> {
    let mut response = exchange(pool, origin, head, body, &mut |_interim| {}).await?;
    let bytes = response.body.read_whole(ANSWER_BYTES_MAX).await?.ok_or_else(|| {
        AcmeError::malformed(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"))
    })?;
    Ok(Raw { status: response.head.status, fields: response.head.fields, body: bytes })
}

/// A URL in its parts.
pub(crate) struct Target {
    scheme: Scheme,
    authority: String,
    path: String,
}

impl Target {
    /// # Errors
    /// Why it is none that can be asked.
    pub(crate) fn of(url: &str) -> Result<Self, &'static str> {
        if url.len() > TEXT_BYTES_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it is too long, or not of letters, digits and signs");
        }
        let (scheme, rest) = match url.split_once("://") {
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            _ => return Err("it is neither http nor https"),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.is_empty() {
            return Err("it has no host");
        }
        if authority.contains(['@', '#']) || path.contains('#') {
            return Err("it has a user or a fragment");
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { scheme, authority: authority.to_owned(), path: format!("{slash}{path}") })
    }

    /// That of an authority: RFC 8555 §6.1 wants HTTPS; on this machine itself, as in tests, HTTP will
    /// do.
    pub(crate) fn of_authority(url: &str) -> Result<Self, AcmeError> {
        let target = Self::of(url).and_then(|target| {
            let host =
                target.authority.rsplit_once(':').map_or(&*target.authority, |(host, _)| host);
            let is_here = ["127.0.0.1", "[::1]", "localhost"].contains(&host);
            if target.scheme == Scheme::Https || is_here {
                Ok(target)
            } else {
                Err("it is not https")
            }
        });
        target.map_err(|why| {
            let message = format!("`{}` is not a URL of an authority: {why}", shown(url));
            AcmeError::malformed(message)
        })
    }

    /// The same with a further parameter in its query.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        let sign = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{sign}{name}={value}", self.path);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_https_or_of_this_machine() {
        for good in ["https://a.example/dir", "https://a", "http://127.0.0.1:14000/d?x=1"] {
            assert!(Target::of_authority(good).is_ok(), "{good}");
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
            assert!(Target::of_authority(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_parameter_goes_into_the_query() {
        for (url, path) in [("http://a", "/?d=b"), ("https://a/x?y=z", "/x?y=z&d=b")] {
            assert_eq!(Target::of(url).ok().unwrap().with("d", "b").path, path);
        }
    }
}
