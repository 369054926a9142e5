//! Which origin is asked, and whether the next one is where that one did not answer.

use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_http::message::{Method, RequestHead};
use freshet_origin::director::stable_hash;
use freshet_origin::{Origin, OriginError, OriginId};
use freshet_site::policy::OriginChoice;
use freshet_site::site::Site;
use std::sync::Arc;

/// Whether a request that an origin may have seen goes to the next one all the same: a safe one, whose
/// connection ended before an answer.
pub(super) fn is_failed_over(of: (&OriginChoice, &RequestHead), error: &OriginError) -> bool {
    error.is_unanswered() && may_fail_over(of)
}

/// Whether a request that one origin leaves unanswered may go to another. A policy that has chosen its origins says
/// itself when it retries.
pub(super) fn may_fail_over((choice, request): (&OriginChoice, &RequestHead)) -> bool {
    matches!(choice, OriginChoice::Director) && matches!(request.method, Method::Get | Method::Head)
}

/// The origin a policy chose, or its director's next choice but those that were `tried`.
pub(super) fn choose(
    choice: &OriginChoice,
    (site, request, goes_to_siblings): (&Site, &RequestHead, bool),
    key: &Key,
    tried: &[OriginId],
    now: UnixMillis,
) -> Option<Arc<Origin>> {
    match choice {
        OriginChoice::Exactly(origin) => Some(origin).filter(|one| !tried.contains(&one.id)),
        OriginChoice::Among(places) => places.choose(tried, now),
        OriginChoice::Nobody(_) => None,
        OriginChoice::Director => {
            // The same on every node, unlike the index's own hash.
            let hash = stable_hash(key.text());
            site.upstreams.choose(request, goes_to_siblings, hash, tried, now)
        }
    }
    .cloned()
}
