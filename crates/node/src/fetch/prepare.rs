//! Requests for origins, made from clients' requests.

use crate::policy::ClientTask;
use freshet_cache::Object;
use freshet_http::conditional;
use freshet_http::fields::Fields;
use freshet_http::hop_by_hop;
use freshet_http::message::{Method, RequestHead};
use freshet_http::range::RangeRequest;
use std::io::Write as _;
use std::ops::Range;

/// A request that fills the cache: a GET for the whole, or for the one range the client wants
/// where nothing is stored yet; conditional where `stale` has a validator (RFC 9111 §4.3.1).
pub(crate) fn for_miss(task: &ClientTask, stale: Option<&Object>) -> RequestHead {
    let mut request = forwarded(task);
    request.method = Method::Get;
    if task.snapshot.codes_gzip {
        // What is kept is for all, and unpacked for those who take no gzip.
        request.fields.set("Accept-Encoding", "gzip");
    }
    if let Some(stale) = stale {
        stale.with_head(|head| conditional::validate(&mut request.fields, &head.fields));
        return request;
    }
    let field = |name| request.fields.get(name).map(<[u8]>::to_vec);
    let (range, if_range) = (field("range"), field("if-range"));
    conditional::strip(&mut request.fields);
    // Other methods have no ranges (RFC 9110 §14.2), and a part of a packed body is none of the
    // unpacked one.
    let is_whole = task.request.method != Method::Get || task.snapshot.codes_gzip;
    let Some(range) = range.filter(|_| !is_whole) else { return request };
    if matches!(RangeRequest::parse(&range), Some(RangeRequest::One(_))) {
        request.fields.append("Range", range);
        // The part is of use only if it is of what the client has.
        if let Some(if_range) = if_range {
            request.fields.append("If-Range", if_range);
        }
    }
    request
}

/// The client's request as it is.
pub(crate) fn for_pass(task: &ClientTask) -> RequestHead {
    forwarded(task)
}

/// The client's request with its wish to change protocols.
pub(crate) fn for_pipe(task: &ClientTask) -> RequestHead {
    let mut request = forwarded(task);
    if let Some(upgrade) = task.request.fields.joined("upgrade") {
        request.fields.append("Connection", "upgrade");
        request.fields.append("Upgrade", upgrade);
    }
    request
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

/// A policy may put a space into a URL, and nobody may send one.
pub(crate) fn without_spaces(request: &mut RequestHead) {
    if request.target.contains(' ') {
        request.target = request.target.replace(' ', "%20");
    }
}

/// Takes off what concerned the client's connection and says who asked and through whom (RFC 9110
/// §7.6).
fn forwarded(task: &ClientTask) -> RequestHead {
    let mut request = task.request.clone();
    let fields = &mut request.fields;
    hop_by_hop::strip(fields);
    for name in ["expect", "content-length", "upgrade"] {
        fields.remove(name);
    }
    if task.snapshot.policy.decides_all() {
        return request;
    }
    let name = &task.snapshot.settings.cache.name;
    append_to_list(fields, "Via", format!("{} {name}", task.request.version.number()).as_bytes());
    if let Some(address) = task.client.address {
        append_to_list(
            fields,
            "X-Forwarded-For",
            address.ip().to_canonical().to_string().as_bytes(),
        );
    }
    fields.set("X-Forwarded-Proto", task.request.scheme.as_str());
    request
}

/// Adds a member to a list field, on the one line it then has.
pub(crate) fn append_to_list(fields: &mut Fields, name: &str, member: &[u8]) {
    match fields.joined(name) {
        None => fields.append(name, member),
        Some(mut value) => {
            value.extend_from_slice(b", ");
            value.extend_from_slice(member);
            fields.set(name, value);
        }
    }
}
