//! What players ask the site itself: which pathway to take (HLS, RFC 8216 second edition §7; DASH,
//! ETSI TS 103 998), and what time it is (`UTCTiming`, ISO/IEC 23009-1 §5.8.5.7).

use freshet_base::clock::UnixMillis;
use freshet_config::media::{Pathway, Steering};
use freshet_http::message::ResponseHead;
use freshet_media::mpd::time::instant_text;
use freshet_origin::director::{score, stable_hash};
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};

/// The parameter by which a player is known again: the answer names it in the URL to ask next.
const SESSION: &str = "session";
/// The longest that is believed; it is only hashed.
const SESSION_BYTES_MAX: usize = 64;

/// The head and the body of what a player is told: which pathways there are, its own first. A player
/// keeps to one, and all nodes with the same pathways say the same.
pub fn pathways(steering: &Steering, target: &str, salt: u64) -> (ResponseHead, String) {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let named = query.split('&').find_map(|pair| pair.strip_prefix(SESSION)?.strip_prefix('='));
    let is_fine = |name: &&str| {
        name.len() <= SESSION_BYTES_MAX && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let session = named
        .filter(is_fine)
        .filter(|name| !name.is_empty())
        .map_or_else(|| format!("{:016x}", RandomState::new().hash_one(salt)), str::to_owned);
    let key = stable_hash(session.as_bytes());
    let mut order: Vec<_> = steering.pathways.iter().collect();
    // Without a weight all have the same score, and stay as they are.
    let rank = |one: &Pathway| score(stable_hash(one.id.as_bytes()), one.weight, key);
    order.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    let path = &steering.path;
    let mut text = format!(
        "{{\"VERSION\":1,\"TTL\":{},\"RELOAD-URI\":\"{path}?{SESSION}={session}\",\"PATHWAY-PRIORITY\":[",
        steering.ttl.as_secs().max(1)
    );
    let separator = |at: usize| if at == 0 { "" } else { "," };
    for (at, one) in order.iter().enumerate() {
        let _ = write!(text, "{}\"{}\"", separator(at), one.id);
    }
    text.push(']');
    let clones = steering.pathways.iter().filter_map(|one| Some((&one.id, one.clone_of.as_ref()?)));
    for (at, (id, (base, host))) in clones.enumerate() {
        text.push_str(if at == 0 { ",\"PATHWAY-CLONES\":[" } else { "," });
        let _ = write!(
            text,
            "{{\"BASE-ID\":\"{base}\",\"ID\":\"{id}\",\"URI-REPLACEMENT\":{{\"HOST\":\"{host}\"}}}}"
        );
    }
    let has_clones = steering.pathways.iter().any(|one| one.clone_of.is_some());
    text.push_str(if has_clones { "]}\n" } else { "}\n" });
    (head("application/json"), text)
}

/// The head and the body of the time.
pub fn time(now: UnixMillis) -> (ResponseHead, String) {
    (head("text/plain"), instant_text(now))
}

/// Each player is told its own, at each time another.
fn head(content_type: &str) -> ResponseHead {
    let mut head = ResponseHead::new(200);
    head.fields.append("Content-Type", content_type);
    head.fields.append("Cache-Control", "no-store");
    head
}
