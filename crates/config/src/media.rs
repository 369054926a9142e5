//! `[media]`: what is made of playlists and manifests, and of what players say.

use super::document::Document;
use super::mistake::Mistake;
use super::values::optional;
use std::sync::Arc;
use std::time::Duration;

/// `[media]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Media {
    /// Whether they are read.
    pub read: bool,
    /// The longest window of what is live.
    pub dvr_after: Duration,
    /// Whether playlists of channels are shared against their origin's word.
    pub overrides: bool,
    /// Fetches of what nobody has asked for yet, at a time and by a worker.
    pub ahead: u64,
    /// Bytes of what they bring, at a time and by a worker.
    pub ahead_bytes: u64,
    /// Where reports of players are taken.
    pub cmcd_collector: Option<String>,
    /// Whether origins get what players say of themselves.
    pub cmcd_forward: bool,
    /// Whether players are told of the way to them.
    pub cmsd: bool,
    /// Where players are told the time of day.
    pub clock: Option<String>,
    /// Where they are told which pathway to take.
    pub steering: Option<Arc<Steering>>,
}

/// `media.steering`, `media.steering_ttl` and `[[pathway]]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Steering {
    /// Where it is asked for.
    pub path: String,
    /// When a player asks again.
    pub ttl: Duration,
    /// In the order of the file.
    pub pathways: Vec<Pathway>,
}

/// `[[pathway]]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pathway {
    /// Its name in playlists.
    pub id: String,
    /// Its share of the players; those with none are for when all others fail.
    pub weight: u32,
    /// The pathway in the playlists whose URLs it has, with another host.
    pub clone_of: Option<(String, String)>,
}

/// Pathways of a site.
const PATHWAYS_MAX: usize = 32;

/// What a document says of it.
pub(super) fn media(document: &Document, wrong: &mut Vec<Mistake>) -> Media {
    let mut path = |key: &str| {
        let path = optional(document.value(key).text())?;
        // It is told to players inside of JSON.
        let is_fine = path.starts_with('/')
            && path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\?#".contains(&byte));
        if !is_fine {
            let message = format!("{key} is a path, as `/steering`, not `{path}`");
            wrong.push(Mistake::error(document.at(key), message));
        }
        Some(path).filter(|_| is_fine)
    };
    let (clock, steering) = (path("media.clock"), path("media.steering"));
    Media {
        read: document.value("media.read").bool(),
        dvr_after: document.value("media.dvr_after").span(),
        overrides: document.value("media.override").bool(),
        ahead: document.value("media.ahead").number(),
        ahead_bytes: document.value("media.ahead_bytes").number(),
        cmcd_collector: optional(document.value("media.cmcd_collector").text()),
        cmcd_forward: document.value("media.cmcd_forward").bool(),
        cmsd: document.value("media.cmsd").bool(),
        clock,
        steering: steering_at(steering, document, wrong).map(Arc::new),
    }
}

fn steering_at(
    path: Option<String>,
    document: &Document,
    wrong: &mut Vec<Mistake>,
) -> Option<Steering> {
    let rows = document.rows("pathway");
    let mut refuse = |key: &str, message: String| {
        wrong.push(Mistake::error(document.at(key), message));
    };
    let Some(path) = path else {
        // A site without steering may stand beside one with it that has the node's pathways.
        if !document.own_rows("pathway").is_empty() && document.value("media.steering").text() == ""
        {
            refuse("pathway[].id", "[[pathway]] is of use with media.steering only".to_owned());
        }
        return None;
    };
    if rows.is_empty() || rows.len() > PATHWAYS_MAX {
        let message = format!("media.steering has 1 to {PATHWAYS_MAX} of [[pathway]]");
        refuse("media.steering", message);
    }
    let mut pathways: Vec<Pathway> = Vec::new();
    for row in &rows {
        let text = |key: &str| row.value(key).text();
        let (id, base, host) =
            (text("pathway[].id"), text("pathway[].clone_of"), text("pathway[].host"));
        let mut refuse = |key: &str, message: String| {
            wrong.push(Mistake::error(row.at(&format!("pathway[].{key}")), message));
        };
        let is_id = |id: &str| {
            let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            !id.is_empty() && id.bytes().all(is_sign)
        };
        if !is_id(&id) {
            refuse("id", format!("pathway.id is of letters, digits, `.`, `-` and `_`, not `{id}`"));
        } else if pathways.iter().any(|other| other.id == id) {
            refuse("id", format!("there is another pathway `{id}`"));
        } else if base.is_empty() != host.is_empty() {
            let message =
                "pathway.clone_of and pathway.host go together: whose URLs, at which host";
            refuse(if base.is_empty() { "host" } else { "clone_of" }, message.to_owned());
        } else if !base.is_empty() && !is_id(&base) {
            refuse("clone_of", format!("pathway.clone_of is the id of a pathway, not `{base}`"));
        } else if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
        {
            let message =
                format!("pathway.host is a host, as `b.example` or `b.example:8443`, not `{host}`");
            refuse("host", message);
        } else {
            let weight = u32::try_from(row.value("pathway[].weight").number()).unwrap_or(u32::MAX);
            let clone_of = (!base.is_empty()).then_some((base, host));
            pathways.push(Pathway { id, weight, clone_of });
        }
    }
    Some(Steering { path, ttl: document.value("media.steering_ttl").span(), pathways })
}
