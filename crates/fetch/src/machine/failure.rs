//! Why a fetch came to nothing: of which kind, from where it happened to the page a client sees.

use freshet_cache::Failure;
use freshet_http::proxy_status::{ProxyError, ProxyStatus};
use freshet_http::reason::Reason;
use freshet_origin::error::FailureKind;
use freshet_site::client_body::ClientBodyError;
use freshet_site::site::Site;
use freshet_site::synthetic::Synthetic;

/// Seconds after which a client may try again when no origin is there.
pub const RETRY_AFTER_S: &str = "5";

/// What was in the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// An origin failed, or the way to it.
    Origin(FailureKind),
    /// An origin answered with an error of this status, in place of which something stale may do.
    Status(u16),
    /// No origin is there to be asked.
    NoOrigin,
    /// The origin's answer contradicts itself.
    Contradiction,
    /// The origin confirms what nobody asked it about.
    Unasked,
    /// The body is not under the coding its head says.
    Coding,
    /// The client did not send all of its request.
    Client(ClientBodyError),
    /// Too many wait already.
    Crowded,
    /// The policy gave it up.
    Policy,
    /// This node.
    Local,
}

impl Cause {
    /// The failure, with what happened in words for logs.
    pub fn failure(self, detail: impl ToString) -> Failure {
        let (status, error, reason) = self.facts();
        Failure { status, error, reason, detail: detail.to_string().into() }
    }

    /// The status to answer with, the type of RFC 9209 §2.3 where there is one, and the reason.
    fn facts(self) -> (u16, Option<ProxyError>, Reason) {
        use ProxyError as Error;
        let (status, error, reason) = match self {
            Self::Origin(kind) => (kind.status(), kind.proxy_status(), reason_of(kind)),
            Self::Status(status) => return (status, None, Reason::OriginError),
            Self::NoOrigin => (503, Error::DestinationUnavailable, Reason::OriginUnhealthy),
            Self::Contradiction => (503, Error::HttpProtocolError, Reason::OriginMalformed),
            Self::Unasked => (502, Error::HttpProtocolError, Reason::OriginMalformed),
            Self::Coding => (502, Error::HttpResponseContentCoding, Reason::OriginMalformed),
            Self::Client(error) => {
                let (status, reason) = match error {
                    ClientBodyError::Gone => (400, Reason::ClientGone),
                    ClientBodyError::Malformed => (400, Reason::ClientMalformed),
                    ClientBodyError::Silent => (408, Reason::ClientTimeout),
                    ClientBodyError::TooLarge => (413, Reason::ClientBodyTooLarge),
                    ClientBodyError::NoRoom => (503, Reason::LocalLimit),
                };
                (status, Error::HttpRequestError, reason)
            }
            Self::Crowded => (503, Error::ConnectionLimitReached, Reason::LocalLimit),
            Self::Policy => (503, Error::ProxyInternalResponse, Reason::LocalPolicy),
            Self::Local => (503, Error::ProxyInternalError, Reason::LocalFault),
        };
        (status, Some(error), reason)
    }
}

/// The reason that goes with what an origin failed at.
fn reason_of(kind: FailureKind) -> Reason {
    match kind {
        FailureKind::Name | FailureKind::NameTimeout => Reason::OriginNameUnknown,
        FailureKind::Refused | FailureKind::HeldDown | FailureKind::Unreachable => {
            Reason::OriginRefused
        }
        FailureKind::ConnectTimeout => Reason::OriginConnectTimeout,
        FailureKind::Tls | FailureKind::Certificate => Reason::OriginTls,
        FailureKind::ConnectionLimit => Reason::LocalLimit,
        FailureKind::LocalResources => Reason::LocalFault,
        FailureKind::Closed | FailureKind::BodyIncomplete => Reason::OriginClosed,
        FailureKind::WriteTimeout | FailureKind::FirstByteTimeout | FailureKind::BodyTimeout => {
            Reason::OriginTimeout
        }
        FailureKind::HeadTooLarge => Reason::OriginHeadTooLarge,
        FailureKind::HeadMalformed
        | FailureKind::Upgrade
        | FailureKind::BodyMalformed
        | FailureKind::Config => Reason::OriginMalformed,
        FailureKind::ClientBody | FailureKind::ClientPath => Reason::ClientMalformed,
    }
}

/// The page for a failure, with its cause in `Proxy-Status` (RFC 9209).
pub fn page(failure: &Failure, site: &Site) -> Synthetic {
    let mut page = Synthetic::page(failure.status, None);
    let Failure { error, reason, .. } = *failure;
    ProxyStatus {
        proxy: &site.settings.cache.name,
        error,
        details: Some(reason.sentence()),
        ..ProxyStatus::default()
    }
    .append(&mut page.head.fields);
    if matches!(failure.status, 503 | 504) {
        page.head.fields.append("Retry-After", RETRY_AFTER_S);
    }
    page.body =
        format!("{} {}\n{}\n", failure.status, page.head.reason_phrase(), reason.sentence()).into();
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_the_same_in_its_status_its_type_and_its_reason() {
        for kind in FailureKind::all() {
            let failure = Cause::Origin(kind).failure("");
            assert_eq!((failure.status, failure.error), (kind.status(), Some(kind.proxy_status())));
            assert_eq!(
                failure.reason == Reason::ClientMalformed,
                matches!(kind, FailureKind::ClientBody | FailureKind::ClientPath),
                "{kind:?}"
            );
        }
        let too_large = Cause::Client(ClientBodyError::TooLarge).failure("");
        assert_eq!((too_large.status, too_large.reason), (413, Reason::ClientBodyTooLarge));
        let gone = Cause::Client(ClientBodyError::Gone).failure("");
        assert_eq!((gone.status, gone.reason), (400, Reason::ClientGone));
        assert_eq!(Cause::Status(502).failure("").error, None);
    }
}
