//! The sentences of an explanation.

use super::{Fact, Known, cure, life};
use freshet_base::units::{format_bytes, span};
use freshet_cache::Object;
use freshet_http::reason::{Group, Reason};
use freshet_http::target::key_target;
use freshet_node::policy::Recv;

/// The one sentence.
pub(super) fn verdict(known: &Known<'_>) -> String {
    match &known.preview.recv {
        Recv::Hash => {}
        Recv::Synth(status, _) => return format!("refused: the policy answers {status}"),
        Recv::Hangup => {
            return "refused: the connection ends, as the policy could not keep the body"
                .to_owned();
        }
        Recv::Pass | Recv::PassNoted(_) | Recv::Pipe | Recv::Purge | Recv::Restart => {
            return format!("never looked up: {}", sentence(known.preview.reason));
        }
    }
    if known.preview.selected.is_some() {
        return stored(known.preview.reason).to_owned();
    }
    if known.preview.reason == Reason::MissVary {
        return "stored for other requests only (RFC 9111 §4.1)".to_owned();
    }
    if let Some(entry) = known.not_stored {
        return match &entry.field {
            Some(field) => {
                format!("not stored: the origin sent \"{field}\"{}", section(entry.reason))
            }
            None => format!("not stored: {}", sentence(entry.reason)),
        };
    }
    if known.preview.peek.fetches > 0 {
        return "not stored yet: it is being fetched".to_owned();
    }
    match &known.history.last {
        Some((_, reason, _)) if reason.group() != Group::Lookup => {
            format!("not stored: {}", sentence(*reason))
        }
        Some((_, reason, _)) if passed(*reason) => {
            format!("not stored: {}", sentence(*reason))
        }
        Some(_) if known.home.is_some() => {
            "not stored here: another node of this place is its home".to_owned()
        }
        Some(_) => "not stored any more: it was purged or evicted since".to_owned(),
        None => "not stored: nobody asked for it lately".to_owned(),
    }
}

fn passed(reason: Reason) -> bool {
    matches!(reason, Reason::PassMethod | Reason::PassRequest | Reason::PassPolicy | Reason::Pipe)
}

/// The state of what is stored, by what the next request would find.
fn stored(reason: Reason) -> &'static str {
    match reason {
        Reason::Hit => "stored and fresh",
        Reason::HitFilling => "being stored now, and served while it arrives",
        Reason::HitStale => "stored and stale, within the time it may be served all the same",
        Reason::MissPurged => "stored, and made stale by a soft purge",
        Reason::MissFenced => "stored, and to be validated, as purges may have been missed",
        Reason::MissMustValidate => "stored, but the origin has to be asked before each use",
        Reason::MissRequest => "stored and fresh, but the request asks for a newer one",
        Reason::MissPartial => "stored in part",
        _ => "stored and stale",
    }
}

/// The lines below the verdict.
pub(super) fn facts(known: &Known<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |label, text: String| facts.push(Fact { label, text });
    add("key", key(known));
    if !known.preview.site.as_str().is_empty() {
        add("site", known.preview.site.as_str().to_owned());
    }
    if let Some(text) = &known.places {
        add("group", text.clone());
    }
    add("policy", known.policy.clone());
    if let Some(text) = &known.preview.caching {
        add("rule", text.clone());
    }
    if let Some(object) = &known.preview.selected {
        add("life", life::lifetime(object, known.now));
        add("stale", life::stale(&object.freshness()));
        add("body", body(object));
    } else if let Some(entry) = known.not_stored {
        let origin = if entry.origin.is_empty() { "the origin" } else { &*entry.origin };
        let ago = span(known.now.since(entry.last));
        add(
            "why",
            format!(
                "{} Status {} from {origin}, {ago} ago.",
                entry.reason.sentence(),
                entry.status
            ),
        );
    }
    if let Some(text) = &known.preview.channel {
        add("media", text.clone());
    }
    for text in &known.preview.doors {
        add("access", text.clone());
    }
    if let Some(text) = &known.preview.access {
        add("access", text.sentence.clone());
    }
    for text in &known.preview.limits {
        add("limit", text.clone());
    }
    if let Some(text) = vary(known) {
        add("vary", text);
    }
    if let Some(entry) = known.not_stored.filter(|_| known.preview.selected.is_none()) {
        let times = match entry.count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        add("fetched", format!("{times} without being stored"));
    }
    add("seen", known.history.words(known.now));
    if let Some(host) = known.history.other_host.as_ref().filter(|_| known.history.last.is_none()) {
        add("but", format!("the same path was asked for as {host}; the host is part of the key"));
    }
    if known.no_origin && !is_answered_here(known) {
        add("origins", "none is up, so nothing can be fetched".to_owned());
    }
    add("next", next(known));
    if let Some(text) = cure_of(known) {
        add("cure", text);
    }
    facts
}

fn key(known: &Known<'_>) -> String {
    let target = &known.request.target;
    let left_out = if key_target(target).len() == target.len() { "" } else { " (CMCD left out)" };
    format!("{}{left_out}", known.preview.key)
}

fn body(object: &Object) -> String {
    let (total, held) = (object.body().total(), object.body().held_bytes());
    let hits = match object.hits() {
        0 => "not yet served from here".to_owned(),
        1 => "served from here once".to_owned(),
        2 => "served from here twice".to_owned(),
        count => format!("served from here {count} times"),
    };
    let size = match total {
        Some(total) if total == held => format_bytes(total),
        Some(total) => format!("{} of {}", format_bytes(held), format_bytes(total)),
        None => format!("{} so far", format_bytes(held)),
    };
    let arriving = if object.body().writers() > 0 { ", arriving" } else { "" };
    let status = object.with_head(|head| head.status);
    format!("status {status}, {size}{arriving}, {hits}")
}

/// The rule of Vary, of the selected variant or else of the newest.
fn vary(known: &Known<'_>) -> Option<String> {
    let variants = &known.preview.peek.variants;
    let object = known.preview.selected.as_ref().or_else(|| variants.first())?;
    let rule = &object.variation()?.rule;
    let names: Vec<_> = rule.names().map(|name| String::from_utf8_lossy(name)).collect();
    let count = match variants.len() {
        1 => "1 variant is stored".to_owned(),
        count => format!("{count} variants are stored"),
    };
    let this = match known.preview.selected {
        Some(_) => "this request selects one",
        None => "none is for this request",
    };
    Some(format!("by {}; {count}, {this}", names.join(", ")))
}

/// Whether it is answered without an origin or what is stored.
fn is_answered_here(known: &Known<'_>) -> bool {
    matches!(known.preview.recv, Recv::Synth(..) | Recv::Hangup)
}

/// What a next request would get.
fn next(known: &Known<'_>) -> String {
    let preview = &known.preview;
    if preview.is_under_maintenance {
        return "503: the site is under maintenance, but for clients in maintenance.allow"
            .to_owned();
    }
    if let Some(status) = preview.access.as_ref().and_then(|access| access.refused) {
        return format!(
            "{status}, for want of a token that is good; what is said here is for who has one"
        );
    }
    match &preview.recv {
        Recv::Synth(status, _) => return format!("{status}, answered here ({})", preview.reason),
        Recv::Pipe => return "a tunnel to the origin, where that agrees".to_owned(),
        _ => {}
    }
    if let (Some(home), Reason::Miss) = (&known.home, preview.reason) {
        return format!(
            "{home} is asked, where it is at home; it is kept here as well once it is asked for often (miss)"
        );
    }
    let is_fetched = matches!(
        preview.reason,
        Reason::Miss | Reason::MissVary | Reason::MissPartial | Reason::HitForMiss
    );
    if known.no_origin && is_fetched {
        return "503, as no origin is up: `freshet origins` lists them, and the log says why"
            .to_owned();
    }
    let text = match preview.reason {
        Reason::Hit => "a hit",
        Reason::HitFilling => "a hit, read while it arrives",
        Reason::HitStale => "a hit; one request refreshes it behind",
        Reason::Miss if known.preview.peek.fetches > 0 => "waits for the fetch under way",
        Reason::Miss | Reason::MissVary => "a miss: it is fetched, and stored if it may be",
        Reason::MissPartial => "the missing parts are fetched",
        Reason::HitForMiss => {
            "fetched without waiting for others, as the last answers were not to be stored"
        }
        Reason::MissExpired
        | Reason::MissMustValidate
        | Reason::MissPurged
        | Reason::MissFenced => "the origin is asked whether it is still good",
        Reason::MissRequest => "the origin is asked, because the request wants it so",
        other => other.sentence(),
    };
    format!("{text} ({})", known.preview.reason)
}

fn cure_of(known: &Known<'_>) -> Option<String> {
    if known.preview.selected.is_some() || known.preview.reason == Reason::MissVary {
        let status = known.preview.selected.as_ref().map(|o| o.with_head(|head| head.status));
        return cure::for_reason(known.preview.reason, status.unwrap_or(200));
    }
    if let Some(entry) = known.not_stored {
        let field = entry.field.as_deref().unwrap_or_default();
        if entry.reason == Reason::StaleOnArrival && field.starts_with("Date: ") {
            return Some(
                "set the origin's clock: by its Date, answers are stale as they come".into(),
            );
        }
        return cure::for_reason(entry.reason, entry.status);
    }
    let (_, reason, _) = known.history.last.as_ref()?;
    if reason.group() == Group::Lookup { None } else { cure::for_reason(*reason, 200) }
}

/// A reason's sentence for the middle of a line, with its section.
fn sentence(reason: Reason) -> String {
    let text = reason.sentence().trim_end_matches('.');
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}{}", characters.as_str(), section(reason))
}

fn section(reason: Reason) -> String {
    match reason.rfc() {
        "" => String::new(),
        rfc => format!(" ({rfc})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_fit_the_middle_of_a_line() {
        assert_eq!(sentence(Reason::NoStore), "the response says no-store (RFC 9111 §5.2.2.5)");
        assert_eq!(sentence(Reason::TooLarge), "the response is larger than an object may be");
    }
}
