//! Responses that the node or a policy makes itself.

use bytes::Bytes;
use freshet_http::message::ResponseHead;

/// A response made by the node or by a policy.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Status and fields.
    pub head: ResponseHead,
    /// Body; its length becomes Content-Length.
    pub body: Bytes,
}

impl Synthetic {
    /// A short text page for this status.
    pub fn page(status: u16, reason: Option<Box<str>>) -> Self {
        let mut head = ResponseHead { status, reason, ..ResponseHead::default() };
        let text = format!("{status} {}\n", head.reason_phrase());
        head.fields.append("Content-Type", "text/plain; charset=utf-8");
        Self { head, body: text.into() }
    }
}
