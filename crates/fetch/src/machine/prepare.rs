//! Requests for origins, made from clients' requests.

use freshet_cache::Object;
use freshet_config::template::{Template, Value};
use freshet_http::fields::is_taken_for;
use freshet_http::message::{Method, RequestHead};
use freshet_http::range::RangeRequest;
use freshet_http::{changed, conditional, hop_by_hop, target, unkeyed};
use freshet_media::Format;
use freshet_site::keys::key_authority;
use freshet_site::policy::{ClientTask, FetchKind, FetchTask};
use freshet_site::wishes::hops_left;
use std::io::Write as _;
use std::ops::Range;

/// What a client says for its own response alone. Where a policy decides what goes to an origin, it
/// looks at a request without them for what others may get.
const OF_ONE: [&str; 5] = [
    "Cache-Control",
    "Accept-Ranges",
    "Content-Range",
    "Proxy-Authenticate",
    "Proxy-Authorization",
];

/// A request that fills the cache: a GET for the whole, or for the one range the client wants
/// where nothing is stored yet; conditional where `stale` has a validator (RFC 9111 §4.3.1).
///
/// What the key does not know of the client's request does not go along, but for fields that are
/// harmless or selected by `Vary` ([`unkeyed`]).
pub(crate) fn for_miss(task: &ClientTask, stale: Option<&Object>) -> RequestHead {
    let mut request = with_own_fields(for_all(task), task);
    request.method = Method::Get;
    let shows_all = task.site.semantics.forwards_as_it_is;
    if let Some(coding) = task.site.coding_for_all(&task.request.fields)
        // What a request says itself is replaced by the policy's fetch, whose log tells of it.
        && !(shows_all && request.fields.contains("accept-encoding"))
    {
        request.fields.set("Accept-Encoding", coding);
    }
    if shows_all {
        for name in OF_ONE {
            request.fields.remove(name);
        }
    }
    if let Some(stale) = stale {
        stale.with_head(|head| {
            // A 304 says that a page is as it was. Said of the date of an error page, of one that is
            // there by now and older, it would be taken for the error's where any is believed.
            let says_so = head.status == 200 || !task.site.semantics.trusts_any_304;
            // An `ETag` that is not of the bytes would be confirmed for what nobody has.
            let etag = match task.site.semantics.trusts_any_304 {
                true => head.etag().filter(|_| says_so),
                false => head.etag_as_it_came(),
            };
            let modified = head.fields.get("last-modified").filter(|_| says_so);
            conditional::validate(&mut request.fields, etag, modified);
        });
        return request;
    }
    let field = |name| task.request.fields.get(name).map(<[u8]>::to_vec);
    let (range, if_range) = (field("range"), field("if-range"));
    conditional::strip(&mut request.fields);
    // Other methods have no ranges (RFC 9110 §14.2), a part of a packed body is none of the unpacked one, and
    // what is read has to be there as a whole.
    let is_manifest =
        || task.site.settings.media.read && Format::of(None, &task.request.target).is_some();
    let is_whole = task.request.method != Method::Get || task.site.codes_gzip || is_manifest();
    let Some(range) = range.filter(|_| !is_whole) else { return request };
    if let Some(RangeRequest::One(spec)) = RangeRequest::parse(&range) {
        let mut value = b"bytes=".to_vec();
        spec.write(&mut value);
        request.fields.append("Range", value);
        // The part is of use only if it is of what the client has.
        if let Some(if_range) = if_range {
            request.fields.append("If-Range", if_range);
        }
    }
    request
}

/// The client's request as it is.
pub(crate) fn for_pass(task: &ClientTask) -> RequestHead {
    with_own_fields(for_one(task), task)
}

/// Whether other nodes of this place may be asked for what a client asks for: not for what is for it alone, nor where
/// it has shown something to be let in. They have the same doors, and what it has shown is for this node.
pub(super) fn goes_to_siblings(task: &ClientTask, kind: FetchKind) -> bool {
    let site = &task.site;
    // Of what nobody has asked for yet it is not known what that would be.
    let may_ask_more = || !site.access.is_empty() || !site.tokens.is_empty();
    kind != FetchKind::Pass && task.identity.is_none() && !(task.is_ahead && may_ask_more())
}

/// What they are asked for in place of the target by which this node asks an origin: their rules make the same of it.
pub(super) fn sent_target(task: &ClientTask) -> Option<String> {
    if !task.site.upstreams.has_siblings() {
        return None;
    }
    let sent = task.site.policy.sent_target(task)?;
    Some(task.site.target_for_all(sent).into_owned())
}

/// Asks for that. Returns the target this node asks by.
pub(super) fn ask_as_sent(task: &mut FetchTask) -> Option<String> {
    let sent = task.sent_target.clone()?;
    Some(std::mem::replace(&mut task.request.target, sent))
}

/// The client's request with its wish to change to the protocols of which `allows` is true.
pub fn for_pipe(task: &ClientTask, allows: impl Fn(&[u8]) -> bool) -> RequestHead {
    let mut request = for_pass(task);
    for protocol in task.request.fields.tokens("upgrade").filter(|name| allows(name)) {
        request.fields.append_to_list("Upgrade", protocol);
    }
    if request.fields.contains("upgrade") {
        request.fields.append("Connection", "upgrade");
    }
    request
}

/// The client's request as far as its answer may be for others too: authority and target as they
/// are in the key, no content, and without what no key knows. A policy may have its own word
/// for that.
pub(crate) fn for_all(task: &ClientTask) -> RequestHead {
    let mut request = for_one(task);
    if task.site.semantics.forwards_as_it_is {
        return request;
    }
    let forwards_cmcd = task.site.settings.media.cmcd_forward;
    request.target = task.site.target_for_all(&request.target).into_owned();
    let authority = key_authority(&request.authority).to_owned();
    request.authority = authority;
    let kept = &task.site.settings.cache.forward;
    let is_kept = |name: &[u8]| kept.iter().any(|kept| kept.as_bytes().eq_ignore_ascii_case(name));
    unkeyed::strip(&mut request.fields, |name| {
        (forwards_cmcd && unkeyed::is_cmcd(name)) || is_kept(name)
    });
    // Who this client is is nothing that others get an answer for.
    let own = task.identity.iter().flat_map(|identity| identity.said());
    for (name, _) in own.filter(|(name, _)| !is_kept(name.as_bytes())) {
        request.fields.remove_claims(&**name);
    }
    request
}

/// Whether an origin hears of who a client is where it answers that one alone.
pub(crate) fn names_client(task: &ClientTask) -> bool {
    let rules = task.site.settings.rules.request_fields.iter();
    let mut values = rules.filter_map(|rule| rule.action.template()).flat_map(Template::values);
    task.identity.as_ref().is_some_and(|identity| !identity.fields.is_empty())
        || values.any(Value::is_of_one_client)
}

/// Whether the client's request is all that an origin that is asked for the cache would get.
pub(crate) fn is_for_all(task: &FetchTask, client: &RequestHead) -> bool {
    let kept = &task.site.settings.cache.forward;
    // The port it came to is no word of its own.
    let came_to = task.server_address.map(|address| address.port());
    let is_its_port = target::split_authority(&client.authority).1 == came_to;
    target::key_target(&client.target) == client.target
        && (is_its_port || key_authority(&client.authority) == client.authority)
        && client.fields.iter().all(|(name, _)| {
            !unkeyed::is_unkeyed(name)
                || unkeyed::is_about_content(name)
                || kept.iter().any(|kept| kept.as_bytes().eq_ignore_ascii_case(name))
        })
}

/// A request for bytes `range` of what `request` fetched before, of the representation that
/// `etag` names only (RFC 9110 §13.1.5).
pub(crate) fn for_range(request: &RequestHead, range: &Range<u64>, etag: &[u8]) -> RequestHead {
    let mut request = request.clone();
    request.method = Method::Get;
    conditional::strip(&mut request.fields);
    let mut value = Vec::with_capacity(48);
    let _ = write!(value, "bytes={}-{}", range.start, range.end.saturating_sub(1));
    request.fields.append("Range", value);
    request.fields.append("If-Range", etag);
    request
}

/// A request for all of what `request` fetched before, whatever of it was asked for then.
pub(crate) fn for_all_of_it(request: &RequestHead) -> RequestHead {
    let mut request = request.clone();
    conditional::strip(&mut request.fields);
    request
}

/// A policy may put a space into a URL, and nobody may send one.
pub(crate) fn without_spaces(request: &mut RequestHead) {
    if request.target.contains(' ') {
        request.target = request.target.replace(' ', "%20");
    }
}

/// The client's request without what concerned its connection (RFC 9110 §7.6.1).
fn for_one(task: &ClientTask) -> RequestHead {
    let mut request = task.request.clone();
    let fields = &mut request.fields;
    hop_by_hop::strip_but(fields, &task.spared);
    for name in ["expect", "upgrade"] {
        fields.remove(name);
    }
    // The writer says the length of a body; a policy looks for it here.
    if !task.site.semantics.forwards_as_it_is {
        fields.remove("content-length");
        if let Some(left) = hops_left(&request) {
            request.fields.set("Max-Forwards", left.saturating_sub(1).to_string());
        }
    }
    request
}

/// Says who asked, and through whom (RFC 9110 §7.6.3, RFC 8586 §2). A policy may have said so by
/// itself.
pub(crate) fn with_own_fields(mut request: RequestHead, task: &ClientTask) -> RequestHead {
    // A node's own word, which none says for another.
    request.fields.remove(changed::NAME);
    if task.site.semantics.forwards_as_it_is {
        return request;
    }
    let fields = &mut request.fields;
    fields.append_to_list("CDN-Loop", task.site.node().loop_id.as_bytes());
    let name = &task.site.settings.cache.name;
    fields.append_to_list("Via", format!("{} {name}", task.request.version.number()).as_bytes());
    // What was said before is left out of what is asked for the cache; whom a balancer has asked for is
    // known all the same.
    let is_said = task.client.forwarder.is_none() || fields.contains("x-forwarded-for");
    let client = task.client.address.filter(|_| !is_said);
    // What others take for them is no word of this node.
    for name in [&b"x-forwarded-for"[..], b"x-forwarded-proto"] {
        fields.retain(|line, _| line.eq_ignore_ascii_case(name) || !is_taken_for(line, name));
    }
    for address in client.into_iter().chain(task.client.sender()) {
        fields
            .append_to_list("X-Forwarded-For", address.ip().to_canonical().to_string().as_bytes());
    }
    fields.set("X-Forwarded-Proto", task.request.scheme.as_str());
    request
}
