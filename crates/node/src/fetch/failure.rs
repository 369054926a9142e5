//! Why a fetch came to nothing: of which kind, from where it happened to the page a client sees.

use crate::body::ClientBodyError;
use freshet_cache::Failure;
use freshet_http::proxy_status::ProxyError;
use freshet_http::reason::Reason;
use freshet_origin::error::FailureKind;

/// What was in the way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cause {
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
    pub(crate) fn failure(self, detail: impl ToString) -> Failure {
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
                    ClientBodyError::Gone | ClientBodyError::Malformed => {
                        (400, Reason::ClientMalformed)
                    }
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
        FailureKind::ClientBody => Reason::ClientMalformed,
    }
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
                kind == FailureKind::ClientBody,
                "{kind:?}"
            );
        }
        let too_large = Cause::Client(ClientBodyError::TooLarge).failure("");
        assert_eq!((too_large.status, too_large.reason), (413, Reason::ClientBodyTooLarge));
        assert_eq!(Cause::Status(502).failure("").error, None);
    }
}
