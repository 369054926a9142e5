//! What an operator can do about it.

use freshet_http::reason::Reason;

/// What to change so that responses like this are stored or used, where something can be.
pub(super) fn for_reason(reason: Reason, status: u16) -> Option<String> {
    let text = match reason {
        Reason::NoStore | Reason::Private => {
            "if only browsers were meant, add \"CDN-Cache-Control: max-age=6\""
        }
        Reason::Authorization => {
            "if everybody may have it, send \"Cache-Control: public\" or s-maxage"
        }
        Reason::SetCookie => {
            "send the cookie with another response, or set cache.set_cookie = \"strip\" if nobody \
             needs it"
        }
        Reason::VaryAny => "name the request fields that matter in Vary instead of *",
        Reason::NoFreshness | Reason::StatusNotCacheable
            if matches!(status, 404 | 405 | 410 | 414 | 501) =>
        {
            return Some(format!(
                "set cache.negative, as 10s, to keep answers with status {status}"
            ));
        }
        Reason::NoFreshness | Reason::StaleOnArrival => {
            "send \"Cache-Control: max-age=60\" for as long as it may be reused, or an ETag"
        }
        Reason::NoCacheNoValidator => "send an ETag, so that the origin can be asked cheaply",
        Reason::StatusNotCacheable => {
            return Some(format!("send \"Cache-Control: max-age=10\" with status {status}"));
        }
        Reason::StatusNotUnderstood => "send it without must-understand",
        Reason::PartialWithoutRange => {
            "let the origin send one Content-Range with its length, and no multipart"
        }
        Reason::Truncated | Reason::OriginClosed => {
            "look at the origin: it closes connections before its answers are complete"
        }
        Reason::ClientTooMany => {
            "see its [[rate_limit]]: raise it, or name the client's network in except"
        }
        Reason::TokenMissing | Reason::TokenWrong | Reason::TokenExpired => {
            "sign a new URL or token; see its [[token]] for what it has to be"
        }
        Reason::ClientBlocked => "see who is blocked with: freshet block",
        Reason::TooLarge => {
            "raise cache.object_bytes_max, up to half of memory, or give it a [[store]]: what memory \
             has no room for is kept there"
        }
        Reason::NoRoom => "raise memory",
        Reason::RequestNoStore | Reason::MissRequest => {
            "set cache.client_cache_control = false, so that clients cannot do this"
        }
        Reason::MissVary => {
            "send Vary with fewer fields; each combination of their values is stored on its own"
        }
        Reason::MissExpired => {
            "send a longer lifetime, or set cache.grace to serve it while it is refreshed"
        }
        Reason::MissMustValidate => {
            "if it need not be asked for each time, send max-age instead of no-cache"
        }
        Reason::OriginUnhealthy
        | Reason::OriginRefused
        | Reason::OriginConnectTimeout
        | Reason::OriginNameUnknown
        | Reason::OriginTimeout
        | Reason::OriginTls => "see how origins do with: freshet origins",
        _ => return None,
    };
    Some(text.to_owned())
}
