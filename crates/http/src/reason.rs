//! Why something was decided: one table of codes.
//!
//! The code stands in the `detail` of `Cache-Status`, in logs and as a label of metrics; the
//! sentence is what `freshet explain` says; the section is where the rule is written. Codes are an
//! interface: they are not renamed.

use crate::cache_status::Forward;
use std::fmt;

/// What a reason belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Group {
    /// Why a response was not stored.
    Storage,
    /// How a request was answered.
    Lookup,
    /// What went wrong.
    Error,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident, $group:ident, $code:literal, $rfc:literal, $sentence:literal;)+) => {
        /// Why something was decided.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum Reason {
            $(#[doc = $sentence] $name,)+
        }

        impl Reason {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The short name: lower case, digits and hyphens.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// One plain sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)+ }
            }

            /// Where the rule is written, such as `RFC 9111 §3`; empty where it is our own.
            pub const fn rfc(self) -> &'static str {
                match self { $(Self::$name => $rfc,)+ }
            }

            /// What it belongs to.
            pub const fn group(self) -> Group {
                match self { $(Self::$name => Group::$group,)+ }
            }
        }
    };
}

reasons! {
    MethodNotStored, Storage, "method-not-stored", "RFC 9111 §3",
        "Responses to this method are not stored.";
    StatusNotFinal, Storage, "status-not-final", "RFC 9111 §3",
        "The response is an interim one.";
    StatusNotModified, Storage, "status-not-modified", "RFC 9111 §4.3.4",
        "A 304 response updates what is stored and is not stored itself.";
    StatusNotUnderstood, Storage, "status-not-understood", "RFC 9111 §5.2.2.3",
        "The response has must-understand and a status this cache does not know.";
    StatusNotCacheable, Storage, "status-not-cacheable", "RFC 9111 §3",
        "Responses with this status are stored only with an explicit lifetime, and it has none.";
    StatusOfRequest, Storage, "status-of-request", "RFC 9110 §15",
        "The status answers how this client asked, which is not how others ask.";
    UnusualRequest, Storage, "unusual-request", "",
        "The error or redirect may be about something unusual in this client's request.";
    SetCookie, Storage, "set-cookie", "RFC 6265 §4.1",
        "The response sets a cookie, which is for one user.";
    NoStore, Storage, "no-store", "RFC 9111 §5.2.2.5",
        "The response says no-store.";
    RequestNoStore, Storage, "request-no-store", "RFC 9111 §5.2.1.5",
        "The request says no-store, and the settings honour that.";
    Private, Storage, "private", "RFC 9111 §5.2.2.7",
        "The response is for one user only.";
    Authorization, Storage, "authorization", "RFC 9111 §3.5",
        "The request had Authorization, and the response does not allow sharing.";
    VaryAny, Storage, "vary-any", "RFC 9111 §4.1",
        "The response says that it fits no other request (Vary: *).";
    NoFreshness, Storage, "no-freshness", "RFC 9111 §4.2.1",
        "Nothing says how long the response may be reused, and it has no validator.";
    StaleOnArrival, Storage, "stale-on-arrival", "RFC 9111 §4.2",
        "The response was stale when it arrived, and it has no validator.";
    NoCacheNoValidator, Storage, "no-cache-no-validator", "RFC 9111 §5.2.2.4",
        "The response must be validated before each use, and it has no validator.";
    PartialWithoutRange, Storage, "partial-without-range", "RFC 9111 §3.3",
        "The response is partial and does not say which single range it is.";
    Truncated, Storage, "truncated", "RFC 9111 §3.3",
        "The response ended before its length.";
    TooLarge, Storage, "too-large", "",
        "The response is larger than an object may be.";
    NoRoom, Storage, "no-room", "",
        "There was no room in the store.";
    NotAdmitted, Storage, "not-admitted", "",
        "The object was not asked for often enough to be stored.";
    PolicyNotStored, Storage, "policy-not-stored", "",
        "The policy chose not to store the response.";
    Outdated, Storage, "outdated", "RFC 9111 §4.4",
        "The target was purged or changed while the response was on its way.";

    MediaLive, Storage, "media-live", "",
        "It is of a channel that goes on, so it is in memory only, and no longer than it is of use.";
    MediaWindow, Storage, "media-window", "",
        "It is of a channel that goes on, and leaves when the channel's window has left it behind.";
    MediaKey, Storage, "media-key", "",
        "It is what a playlist's segments are deciphered with, so it is in memory only.";
    MediaLate, Storage, "media-late", "",
        "It may be there in a moment, so its absence is kept for a moment only.";

    Hit, Lookup, "hit", "RFC 9111 §4",
        "A fresh stored response was used.";
    HitStale, Lookup, "hit-stale", "RFC 5861 §3",
        "A stale stored response was used while a newer one is fetched.";
    HitStaleOnError, Lookup, "hit-stale-on-error", "RFC 9111 §4.2.4",
        "A stale stored response was used because the origin failed.";
    HitRevalidated, Lookup, "revalidated", "RFC 9111 §4.3.4",
        "The origin said that the stored response is still good.";
    MediaBehind, Lookup, "media-behind", "",
        "The origin's version of the playlist is behind the stored one, which was used on.";
    HitFilling, Lookup, "hit-filling", "",
        "The response was used while it was still arriving for another request.";
    HitPartial, Lookup, "hit-partial", "RFC 9111 §3.4",
        "The part that was asked for is stored.";
    Miss, Lookup, "miss", "RFC 9111 §4",
        "Nothing is stored for this target.";
    MissVary, Lookup, "vary-mismatch", "RFC 9111 §4.1",
        "What is stored for this target is for other requests.";
    MissExpired, Lookup, "expired", "RFC 9111 §4.2",
        "The stored response is stale.";
    MissMustValidate, Lookup, "must-validate", "RFC 9111 §5.2.2.4",
        "The stored response may not be used without asking the origin.";
    MissRequest, Lookup, "request-directive", "RFC 9111 §5.2.1",
        "The client asked for a newer response than the stored one.";
    MissPartial, Lookup, "partial", "RFC 9111 §3.4",
        "Only other parts of the response are stored.";
    MissPurged, Lookup, "purged", "",
        "The stored response was marked for validation by a purge.";
    MissFenced, Lookup, "fenced", "",
        "This node may have missed purges, so the stored response is validated before it is used.";
    HitForMiss, Lookup, "hit-for-miss", "",
        "Responses for this target were lately not storable, so requests do not wait for each other.";
    PassMethod, Lookup, "pass-method", "RFC 9111 §4",
        "Requests with this method go to the origin.";
    PassRequest, Lookup, "pass-request", "",
        "A rule of the site has requests like this one go to the origin.";
    PassPolicy, Lookup, "pass-policy", "",
        "The policy sends this request to the origin.";
    PassBehind, Lookup, "pass-behind", "",
        "The cache that asked has carried out a purge that is still to come here, so it was answered from nothing stored.";
    Bypass, Lookup, "bypass", "",
        "What is stored could not be read for this request, so it went to the origin.";
    Pipe, Lookup, "pipe", "RFC 9110 §7.8",
        "The connection was handed to the origin.";
    Synthetic, Lookup, "synthetic", "",
        "The answer was made by the node itself.";
    Purge, Lookup, "purge", "",
        "The request asked to forget the target.";
    Invalidated, Lookup, "invalidated", "RFC 9111 §4.4",
        "The request changed the target, so what was stored is no longer used.";
    OnlyIfCached, Lookup, "only-if-cached", "RFC 9111 §5.2.1.7",
        "The client wants a stored response only, and there is none it can have.";
    NotModified, Lookup, "not-modified", "RFC 9110 §13.1.2",
        "The client has the current response already.";
    PreconditionFailed, Lookup, "precondition-failed", "RFC 9110 §13.1.1",
        "A condition of the request is not met.";
    RangeNotSatisfiable, Lookup, "range-not-satisfiable", "RFC 9110 §15.5.17",
        "The response has none of the parts that were asked for.";

    ClientMalformed, Error, "client-malformed", "RFC 9110 §15.5.1",
        "The request is not valid.";
    ClientHeadTooLarge, Error, "client-head-too-large", "RFC 6585 §5",
        "The head of the request is too large.";
    ClientBodyTooLarge, Error, "client-body-too-large", "RFC 9110 §15.5.14",
        "The body of the request is too large.";
    ClientTimeout, Error, "client-timeout", "RFC 9110 §15.5.9",
        "The client took too long.";
    ClientGone, Error, "client-gone", "",
        "The client left before the end.";
    ClientDenied, Error, "client-denied", "RFC 9110 §15.5.4",
        "The client may not do this.";
    ClientTooMany, Error, "client-too-many", "RFC 6585 §4",
        "The client sent too many requests.";
    ClientBlocked, Error, "client-blocked", "",
        "The client's network is blocked for a while.";
    TokenMissing, Error, "token-missing", "",
        "The request has no token, and what it asks for needs one.";
    TokenWrong, Error, "token-wrong", "",
        "The token of the request is not a good one here.";
    TokenExpired, Error, "token-expired", "",
        "The token of the request is not valid at this time.";
    TokenNotForThis, Error, "token-not-for-this", "",
        "The token of the request is for another URL, method or client.";
    TokenRevoked, Error, "token-revoked", "",
        "The token of the request has been revoked.";
    NetworkDenied, Error, "network-denied", "RFC 9110 §15.5.4",
        "Clients of this network are not let in.";
    CertificateMissing, Error, "certificate-missing", "",
        "The client has shown no certificate, and the site wants one.";
    CertificateWrong, Error, "certificate-wrong", "",
        "The certificate of the client is not signed by an authority of the site, or not valid now.";
    HandshakeOfOther, Error, "handshake-of-other", "RFC 9110 §7.4",
        "The site wants certificates, and the connection was opened for another site.";
    PasswordMissing, Error, "password-missing", "RFC 7617 §2",
        "The request has no name and password, and what it asks for needs them.";
    PasswordWrong, Error, "password-wrong", "RFC 7617 §2",
        "The name and password of the request are not good ones here.";
    ServiceRefused, Error, "service-refused", "",
        "The service that is asked who may have this does not let the request in.";
    ServiceFailed, Error, "service-failed", "",
        "The service that is asked who may have this did not answer as it should.";
    Maintenance, Error, "maintenance", "RFC 9110 §15.6.4",
        "The site is under maintenance.";
    MediaAhead, Error, "media-ahead", "",
        "The version of the playlist that is asked for is too far ahead to be waited for.";
    UnknownHost, Error, "unknown-host", "RFC 9110 §15.5.20",
        "No site is for the host that was asked for.";
    Loop, Error, "loop", "RFC 8586 §2",
        "The request has been through this node before.";
    OriginNameUnknown, Error, "origin-name-unknown", "RFC 9209 §2.3.2",
        "The name of the origin could not be resolved.";
    OriginUnhealthy, Error, "origin-unhealthy", "RFC 9209 §2.3.3",
        "No origin is healthy.";
    OriginRefused, Error, "origin-refused", "RFC 9209 §2.3.6",
        "The origin refused the connection.";
    OriginConnectTimeout, Error, "origin-connect-timeout", "RFC 9209 §2.3.8",
        "Connecting to the origin took too long.";
    OriginTls, Error, "origin-tls", "RFC 9209 §2.3.13",
        "The TLS handshake with the origin failed.";
    OriginTimeout, Error, "origin-timeout", "RFC 9209 §2.3.9",
        "The origin took too long to answer.";
    OriginClosed, Error, "origin-closed", "RFC 9209 §2.3.7",
        "The origin closed the connection before the end of its answer.";
    OriginMalformed, Error, "origin-malformed", "RFC 9209 §2.3.18",
        "The answer of the origin is not valid HTTP.";
    OriginHeadTooLarge, Error, "origin-head-too-large", "RFC 9209 §2.3.20",
        "The head of the origin's answer is too large.";
    OriginError, Error, "origin-error", "RFC 5861 §4",
        "The origin answered with an error.";
    LocalLimit, Error, "local-limit", "RFC 9209 §2.3.12",
        "A limit of this node was reached.";
    LocalDraining, Error, "local-draining", "",
        "The node is shutting down.";
    LocalPolicy, Error, "local-policy", "",
        "The policy failed.";
    LocalFault, Error, "local-fault", "RFC 9209 §2.3.28",
        "Something inside the node failed.";
}

impl Reason {
    /// The `fwd` parameter of `Cache-Status` that goes with it (RFC 9211 §2.2), where it is a
    /// reason to go to the origin.
    pub const fn forward(self) -> Option<Forward> {
        Some(match self {
            Self::Miss | Self::HitForMiss => Forward::UriMiss,
            Self::MissVary => Forward::VaryMiss,
            Self::MissExpired
            | Self::MissMustValidate
            | Self::MissPurged
            | Self::MissFenced
            | Self::MediaBehind
            | Self::HitRevalidated => Forward::Stale,
            Self::MissRequest => Forward::Request,
            Self::MissPartial => Forward::Partial,
            Self::PassMethod => Forward::Method,
            Self::PassRequest | Self::PassPolicy | Self::PassBehind | Self::Bypass | Self::Pipe => {
                Forward::Bypass
            }
            _ => return None,
        })
    }

    /// Whether a response is not stored for what the client has sent of its own, which says nothing of what others
    /// get.
    pub const fn is_of_request(self) -> bool {
        matches!(self, Self::RequestNoStore | Self::UnusualRequest | Self::Authorization)
    }

    /// Whether the request was answered without one of its own to an origin: from the store, fresh or
    /// stale, or with what another's fetch brings or has just brought. This is what a hit is wherever
    /// hits are counted.
    pub const fn is_hit(self) -> bool {
        matches!(
            self,
            Self::Hit
                | Self::HitStale
                | Self::HitStaleOnError
                | Self::HitFilling
                | Self::HitPartial
        )
    }

    /// The reason with this code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_tokens_and_no_two_are_the_same() {
        let mut seen = HashSet::new();
        for reason in Reason::ALL {
            let code = reason.code();
            assert!(seen.insert(code), "{code} is there twice");
            assert!(code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
            assert_eq!(Reason::from_code(code), Some(*reason));
        }
    }

    #[test]
    fn sentences_are_sentences_and_sections_name_an_rfc() {
        for reason in Reason::ALL {
            let sentence = reason.sentence();
            assert!(sentence.ends_with('.') && sentence.starts_with(char::is_uppercase));
            assert!(reason.rfc().is_empty() || reason.rfc().starts_with("RFC "), "{reason}");
        }
    }

    #[test]
    fn only_lookups_go_to_the_origin() {
        for reason in Reason::ALL {
            let leads_on = reason.forward().is_some();
            assert!(!leads_on || reason.group() == Group::Lookup, "{reason}");
            assert!(!(leads_on && reason.is_hit()), "{reason}");
        }
    }
}
