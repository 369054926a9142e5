//! The policy without a VCL file: a shared cache by RFC 9111.

use crate::rules;
use freshet_access::client::Client;
use freshet_cache::{KeyBuilder, Object};
use freshet_content::heads::{Wish, filters_for, forbids_change, vary_by_encoding};
use freshet_http::cdn_loop::{self, CdnLoop};
use freshet_http::coding::Coding;
use freshet_http::conditional::is_conditional;
use freshet_http::fields::Fields;
use freshet_http::hop_by_hop;
use freshet_http::message::{Method, RequestHead, ResponseHead};
use freshet_http::reason::Reason;
use freshet_site::keys::resource;
use freshet_site::policy::{
    Answer, BackendError, BackendFetch, BackendResponse, ClientTask, Deliver, FetchKind, FetchTask,
    Hit, Miss, Pass, Pipe, Policy, Purge, Recv, Served,
};
use freshet_site::site::Site;
use freshet_site::synthetic::Synthetic;
use freshet_site::wishes::{allows_upgrade, hops_left};
use std::any::Any;

/// Follows RFC 9111 as a shared cache. What the key does not know reaches no origin that is asked
/// for the cache. The key is host, path and query as sent, without a `CMCD`
/// parameter (CTA-5004 §2: it says nothing about the content). A port belongs to the key, and reaches the origin,
/// unless it is the usual one of a scheme: HTTP and HTTPS share objects, and what an origin writes of a port is read
/// by those who named it.
#[derive(Debug, Default)]
pub struct Builtin;

impl Policy for Builtin {
    fn recv(&self, task: &mut ClientTask) -> Recv {
        let fields = &task.request.fields;
        match cdn_loop::check(fields, task.site.node().loop_id.as_bytes()) {
            CdnLoop::New => {}
            CdnLoop::Again => {
                task.reason = Reason::Loop;
                return Recv::Synth(508, None);
            }
            CdnLoop::Malformed => {
                task.reason = Reason::ClientMalformed;
                return Recv::Synth(400, None);
            }
        }
        if let Some(status) = rules::receive(task) {
            return Recv::Synth(status, None);
        }
        let fields = &task.request.fields;
        // Any other wish may be ignored (RFC 9110 §7.8), and would be a way past the cache.
        let upgrades = &task.site.settings.upgrades;
        if task.upgrade && fields.tokens("upgrade").any(|name| allows_upgrade(upgrades, name)) {
            return Recv::Pipe;
        }
        match task.request.method {
            // Content of theirs means nothing (RFC 9110 §9.3.1) and stays here.
            Method::Get | Method::Head => {
                if rules::leads_past_cache(task) {
                    task.reason = Reason::PassRequest;
                    return Recv::Pass;
                }
                Recv::Hash
            }
            Method::Purge if self.lets_purge(&task.site, &task.client, &task.request) => {
                Recv::Purge
            }
            Method::Purge => Recv::Synth(405, Some("Purging is not allowed from here".into())),
            // Nothing behind an edge should be reflected to clients (RFC 9110 §9.3.8), and an edge
            // is no forward proxy.
            Method::Trace | Method::Connect => Recv::Synth(405, None),
            Method::Options if hops_left(&task.request) == Some(0) => Recv::Synth(204, None),
            _ => {
                task.reason = Reason::PassMethod;
                Recv::Pass
            }
        }
    }

    fn hash<'a>(&self, task: &mut ClientTask, key: KeyBuilder<'a>) -> KeyBuilder<'a> {
        resource(key, &task.site, &task.request.authority, &task.request.target)
    }

    fn hit(&self, _: &mut ClientTask, _: &Object) -> Hit {
        Hit::Deliver
    }

    fn miss(&self, task: &mut ClientTask) -> Miss {
        match is_for_one_as_it_is(task) {
            false => Miss::Fetch,
            true => {
                if task.reason != Reason::HitForMiss {
                    task.reason = Reason::PassRequest;
                }
                Miss::Pass
            }
        }
    }

    fn pass(&self, _: &mut ClientTask) -> Pass {
        Pass::Fetch
    }

    fn pipe(&self, _: &mut ClientTask) -> Pipe {
        Pipe::Pipe
    }

    fn purge(&self, _: &mut ClientTask, objects: usize) -> Purge {
        if objects > 0 {
            Purge::Synth(200, Some("Purged".into()))
        } else {
            Purge::Synth(404, Some("Not in cache".into()))
        }
    }

    fn deliver(
        &self,
        task: &mut ClientTask,
        response: &mut ResponseHead,
        served: Served<'_>,
    ) -> Deliver {
        if served.for_caches && !task.site.is_peer(&task.client, &task.request.fields) {
            hop_by_hop::strip_for_caches(&mut response.fields);
        }
        if served.form.parts && task.site.is_asked_by_sibling(&task.client, &task.request.fields) {
            // It puts its pages together itself: what is in one may be for one client, and new for each.
            task.shaping.esi = false;
            response.fields.append("Surrogate-Control", "content=\"ESI/1.0\"");
        }
        rules::deliver(task, served.reason, response);
        if task.site.error_pages.replaces(response.status) {
            return Deliver::Dress;
        }
        Deliver::Deliver
    }

    fn synth(&self, task: &mut ClientTask, page: &mut Synthetic) -> Deliver {
        rules::deliver(task, task.reason, &mut page.head);
        Deliver::Deliver
    }

    fn begin_fetch(&self, task: &mut ClientTask, kind: FetchKind) -> Option<Box<dyn Any>> {
        let sent = rules::begin_fetch(task, kind)?;
        Some(Box::new(sent))
    }

    fn sent_target<'a>(&self, task: &'a ClientTask) -> Option<&'a str> {
        rules::sent_target(task)
    }

    fn leads_elsewhere(&self, site: &Site, request: &RequestHead) -> bool {
        rules::leads_elsewhere(&site.settings.rules, request)
    }

    fn lets_purge(&self, site: &Site, client: &Client, request: &RequestHead) -> bool {
        let from = &site.settings.cache.purge_from;
        let is_in = |ip| from.iter().any(|network| network.contains(ip));
        request.method == Method::Purge && client.address.is_some_and(|address| is_in(address.ip()))
    }

    fn writes(&self, site: &Site, name: &[u8]) -> bool {
        rules::writes(&site.settings.rules, name)
    }

    fn write(&self, task: &ClientTask, fields: &mut Fields) {
        rules::write(task, fields);
    }

    fn backend_fetch(&self, task: &mut FetchTask) -> BackendFetch {
        rules::fetch(task);
        BackendFetch::Fetch
    }

    fn backend_response(&self, task: &mut FetchTask, answer: &mut Answer) -> BackendResponse {
        let (esi, may_code) = (task.site.settings.cache.esi, task.site.codes_gzip);
        if esi || may_code {
            let fields = &mut answer.head.fields;
            let esi = esi && fields.tokens("surrogate-control").any(asks_for_esi);
            if esi {
                // It was for us.
                fields.remove("surrogate-control");
            }
            let may_change = may_code && !forbids_change(fields);
            let is_coded = Coding::of(fields).is_some();
            if !esi && forbids_change(fields) {
                // It is as its origin says, for those who take it so (RFC 9110 §7.7).
                if is_coded {
                    vary_by_encoding(fields);
                }
                return BackendResponse::Deliver;
            }
            // What a client gets as it asked for it is not changed for it alone.
            let recodes = may_change && task.kind != FetchKind::Pass;
            let gains = is_coded || (is_text(fields) && (esi || is_long(fields)));
            let pack = Some(task.coding).filter(|_| may_change && gains);
            let wish = Wish { esi, pack, gunzip: false, may_code, recodes };
            answer.filters = filters_for(fields, wish);
            answer.any_coding = may_code;
        }
        BackendResponse::Deliver
    }

    fn backend_error(&self, _: &mut FetchTask, _: &mut Synthetic) -> BackendError {
        BackendError::Deliver
    }
}

/// Whether a member of `Surrogate-Control` names the language of edge side includes (W3C Note Edge
/// Architecture Specification §3).
fn asks_for_esi(member: &[u8]) -> bool {
    let Some(languages) = member.strip_prefix(b"content=") else { return false };
    languages
        .split(|byte| *byte == b'"' || byte.is_ascii_whitespace())
        .any(|language| language == b"ESI/1.0")
}

/// Bodies shorter than this stay as they are: what a coding saves on them is in the same packet, and
/// one of a few bytes becomes longer.
const CODED_BYTES_MIN: u64 = 128;

/// Whether a body is long enough for a coding to pay; one whose length is not known is.
fn is_long(fields: &Fields) -> bool {
    let bytes = fields.get_str("content-length").and_then(|text| text.parse::<u64>().ok());
    bytes.is_none_or(|bytes| bytes >= CODED_BYTES_MIN)
}

/// Whether a body is of a type that becomes shorter under a coding.
fn is_text(fields: &Fields) -> bool {
    const TYPES: [&[u8]; 17] = [
        b"application/json",
        b"application/javascript",
        b"application/x-javascript",
        b"application/xml",
        b"application/vnd.apple.mpegurl",
        b"application/x-mpegurl",
        b"application/mpegurl",
        b"audio/mpegurl",
        b"audio/x-mpegurl",
        b"application/wasm",
        b"application/x-ndjson",
        b"application/vnd.ms-fontobject",
        b"font/ttf",
        b"font/otf",
        b"image/bmp",
        b"image/x-icon",
        b"image/vnd.microsoft.icon",
    ];
    let Some(value) = fields.get("content-type") else { return false };
    let name = value.split(|byte| *byte == b';').next().unwrap_or(b"").trim_ascii();
    let name = name.to_ascii_lowercase();
    let is_of_family = name.ends_with(b"+json") || name.ends_with(b"+xml");
    name.starts_with(b"text/") || is_of_family || TYPES.contains(&&*name)
}

/// Whether a request goes on as it came, HEAD as HEAD and with its conditions, where something else would be asked
/// for in its place to be stored: what is answered will hardly be. Who has signed a request has signed all of it, and
/// whoever validates what only its client has is to hear that it is still good.
fn is_for_one_as_it_is(task: &ClientTask) -> bool {
    let RequestHead { method, fields, .. } = &task.request;
    let is_nothing_stored =
        matches!(task.reason, Reason::Miss | Reason::MissVary | Reason::HitForMiss);
    let is_for_one = task.reason == Reason::HitForMiss || task.site.is_for_one(fields);
    let would_change = || *method == Method::Head || is_conditional(fields);
    is_nothing_stored && is_for_one && would_change()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playlists_are_text_by_each_of_their_types() {
        let is = |kind: &str| is_text(&[("Content-Type", kind)].into_iter().collect());
        for kind in ["vnd.apple.mpegurl", "x-mpegurl", "mpegurl"] {
            assert!(is(&format!("application/{kind}")), "{kind}");
        }
        for kind in ["audio/mpegurl", "Audio/X-MpegURL; charset=utf-8"] {
            assert!(is(kind), "{kind}");
        }
        assert!(!is("audio/mpeg") && !is("application/octet-stream"));
    }
}
