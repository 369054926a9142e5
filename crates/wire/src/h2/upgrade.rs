//! HTTP/2 on a connection that began with HTTP/1.1, by `Upgrade: h2c` (RFC 7540 §3.2). RFC 9113 has given it
//! up; Varnish takes it.

use super::{Code, Connection, Local, Priority, Request};
use crate::head::FIELD_OVERHEAD_BYTES;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use freshet_http::message::{RequestHead, Scheme, Version};

/// What a client asks for that would go on in HTTP/2.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Upgrade {
    /// The request, which is answered on the first stream.
    pub request: Request,
    /// The payload of the SETTINGS frame it stands for.
    settings: Vec<u8>,
}

impl Upgrade {
    /// Of a head without a body, which had so many bytes; `None` where `HTTP2-Settings` is missing or makes
    /// no sense.
    pub fn new(mut head: RequestHead, head_bytes: usize) -> Option<Self> {
        let settings = {
            let mut lines = head.fields.get_all("http2-settings");
            let (first, second) = (lines.next(), lines.next());
            decoded(first.filter(|_| second.is_none())?)?
        };
        for name in ["upgrade", "http2-settings", "connection"] {
            head.fields.remove(name);
        }
        head.version = Version::Http2;
        let cost = |(name, value): (&[u8], &[u8])| name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        let list_bytes = head.fields.iter().map(cost).sum();
        let priority = Priority::default();
        let request = Request { head, length: None, ends: true, head_bytes, list_bytes, priority };
        Some(Self { request, settings })
    }

    /// The server's side of the connection, with the first stream open for an answer.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn connection(&self, local: Local) -> Result<Connection, Code> {
        Connection::upgraded(local, Scheme::Http, &self.settings)
    }
}

/// Takes base64 for URLs, without padding (RFC 7540 §3.2.1), apart: whole settings only.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_ascii()).ok()?;
    bytes.len().is_multiple_of(6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::conduct;

    fn asked(settings: &[&str]) -> Option<Upgrade> {
        let mut head = RequestHead { target: "/".into(), ..RequestHead::default() };
        head.fields.append("Upgrade", "h2c");
        head.fields.append("a", "1");
        for line in settings {
            head.fields.append("HTTP2-Settings", *line);
        }
        Upgrade::new(head, 70)
    }

    #[test]
    fn settings_are_said_once_and_whole() {
        let upgrade = asked(&["AAMAAABkAAQAAP__"]).unwrap();
        assert_eq!(upgrade.settings, [0, 3, 0, 0, 0, 100, 0, 4, 0, 0, 255, 255]);
        assert_eq!(asked(&[""]).unwrap().settings, [0_u8; 0]);
        for wrong in ["#######", "AAMAAABkAAQAAP_", "AAMAAABkAAQAAP__A", "AAMAAABk AAQAAP__", "AAM"]
        {
            assert_eq!(asked(&[wrong]), None, "{wrong}");
        }
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&["AAMAAABk", "AAQAAP__"]), None);
    }

    #[test]
    fn the_request_is_one_of_http_2() {
        let request = asked(&[""]).unwrap().request;
        assert_eq!(request.head.version, Version::Http2);
        let names: Vec<_> = request.head.fields.iter().map(|(name, _)| name).collect();
        assert_eq!((names, request.list_bytes), (vec![&b"a"[..]], 34));
    }

    #[test]
    fn settings_that_no_client_may_have_are_refused() {
        let local = Local {
            limits: crate::h1::Limits::default(),
            conduct: conduct::VARNISH,
            streams_max: 10,
            stream_window_bytes: 65_535,
            connection_window_bytes: 65_535,
            header_table_bytes: 4096,
        };
        assert!(asked(&["AAMAAABk"]).unwrap().connection(local).is_ok());
        // A window of 2^32 - 1.
        let failed = asked(&["AAT_____"]).unwrap().connection(local).map(|_| ());
        assert_eq!(failed, Err(Code::FlowControlError));
    }
}
