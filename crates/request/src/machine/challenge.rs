//! What an authority asks for to see whose a name is (RFC 8555 §8.3).

use crate::client_exchange::{Facts, Request, Response};
use crate::delivery::ResponseBody;
use freshet_base::clock::UnixMillis;
use freshet_http::message::{Method, ResponseHead};
use freshet_http::reason::Reason;
use freshet_worker::worker::Worker;

/// Where answers are.
const PATH: &str = "/.well-known/acme-challenge/";

/// The answer to a request for a token that this node has an answer for, whatever its site says of
/// redirects, tokens or limits. All others go their way: an origin may have an authority of its own.
pub(super) fn answer(worker: &Worker, request: &Request) -> Option<Response> {
    let token = request.head.target.strip_prefix(PATH)?;
    let text = worker.shared.certificates.as_ref()?.challenges().answer(token)?;
    let is_head = match request.head.method {
        Method::Get => false,
        Method::Head => true,
        _ => return None,
    };
    worker.stats.synthetic.increment();
    let mut head = ResponseHead::new(200);
    head.fields.append("Content-Type", "application/octet-stream");
    super::synth::ensure_date(&mut head, UnixMillis::now());
    let length = Some(text.len() as u64);
    let body = if is_head {
        ResponseBody::Empty
    } else {
        ResponseBody::Inline(text.as_bytes().to_vec().into())
    };
    Some(Response::new(head, body, length, Facts::local(Reason::Synthetic)))
}
