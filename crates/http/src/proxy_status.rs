//! `Proxy-Status` (RFC 9209): what an intermediary did, and what went wrong between it and the
//! next hop.

use crate::cache_status::{write_name, write_string};
use crate::fields::Fields;
use std::io::Write as _;

/// The field name.
pub const NAME: &str = "Proxy-Status";

macro_rules! proxy_errors {
    ($($(#[$doc:meta])* $name:ident, $code:literal, $status:literal;)+) => {
        /// A proxy error type (RFC 9209 §2.3).
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum ProxyError {
            $($(#[$doc])* $name,)+
        }

        impl ProxyError {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The value of the `error` parameter.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// The status the RFC recommends for a response made because of it.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }
        }
    };
}

proxy_errors! {
    /// Looking up the next hop took too long.
    DnsTimeout, "dns_timeout", 504;
    /// Looking up the next hop failed.
    DnsError, "dns_error", 502;
    /// There is no next hop for the request.
    DestinationNotFound, "destination_not_found", 500;
    /// The next hop is known to be down.
    DestinationUnavailable, "destination_unavailable", 503;
    /// The address of the next hop may not be used.
    DestinationIpProhibited, "destination_ip_prohibited", 502;
    /// There is no route to the next hop.
    DestinationIpUnroutable, "destination_ip_unroutable", 502;
    /// The next hop refused the connection.
    ConnectionRefused, "connection_refused", 502;
    /// The connection ended before the response was complete.
    ConnectionTerminated, "connection_terminated", 502;
    /// Connecting took too long.
    ConnectionTimeout, "connection_timeout", 504;
    /// Reading took too long.
    ConnectionReadTimeout, "connection_read_timeout", 504;
    /// Writing took too long.
    ConnectionWriteTimeout, "connection_write_timeout", 504;
    /// No more connections are allowed.
    ConnectionLimitReached, "connection_limit_reached", 503;
    /// TLS failed.
    TlsProtocolError, "tls_protocol_error", 502;
    /// The certificate of the next hop was not accepted.
    TlsCertificateError, "tls_certificate_error", 502;
    /// The next hop sent a TLS alert.
    TlsAlertReceived, "tls_alert_received", 502;
    /// The request was not acceptable to the intermediary.
    HttpRequestError, "http_request_error", 400;
    /// The intermediary does not let the request through.
    HttpRequestDenied, "http_request_denied", 403;
    /// The response ended before it was complete.
    HttpResponseIncomplete, "http_response_incomplete", 502;
    /// The head of the response is too large.
    HttpResponseHeaderSectionSize, "http_response_header_section_size", 502;
    /// A field of the response is too large.
    HttpResponseHeaderSize, "http_response_header_size", 502;
    /// The body of the response is too large.
    HttpResponseBodySize, "http_response_body_size", 502;
    /// The trailers of the response are too large.
    HttpResponseTrailerSectionSize, "http_response_trailer_section_size", 502;
    /// A trailer field of the response is too large.
    HttpResponseTrailerSize, "http_response_trailer_size", 502;
    /// The transfer coding of the response could not be decoded.
    HttpResponseTransferCoding, "http_response_transfer_coding", 502;
    /// The content coding of the response could not be decoded.
    HttpResponseContentCoding, "http_response_content_coding", 502;
    /// The response took too long.
    HttpResponseTimeout, "http_response_timeout", 504;
    /// The next hop did not switch protocols.
    HttpUpgradeFailed, "http_upgrade_failed", 502;
    /// The response broke HTTP in another way.
    HttpProtocolError, "http_protocol_error", 502;
    /// The intermediary answered by itself.
    ProxyInternalResponse, "proxy_internal_response", 200;
    /// The intermediary failed.
    ProxyInternalError, "proxy_internal_error", 500;
    /// The intermediary is set up in a way that cannot work.
    ProxyConfigurationError, "proxy_configuration_error", 500;
    /// The request has been here before.
    ProxyLoopDetected, "proxy_loop_detected", 502;
}

/// What this intermediary did: one member of the field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ProxyStatus<'a> {
    /// What this intermediary is called, such as `freshet`.
    pub proxy: &'a str,
    /// What went wrong.
    pub error: Option<ProxyError>,
    /// Name or address of the next hop.
    pub next_hop: Option<&'a str>,
    /// ALPN name of the protocol to the next hop, such as `http/1.1`.
    pub next_protocol: Option<&'a str>,
    /// The status the next hop sent.
    pub received_status: Option<u16>,
    /// For people.
    pub details: Option<&'a str>,
}

impl ProxyStatus<'_> {
    /// Appends the member as text, such as `freshet; error=connection_refused`.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_name(self.proxy, out);
        if let Some(error) = self.error {
            out.extend_from_slice(b"; error=");
            out.extend_from_slice(error.code().as_bytes());
        }
        if let Some(hop) = self.next_hop {
            out.extend_from_slice(b"; next-hop=");
            write_string(hop, out);
        }
        if let Some(protocol) = self.next_protocol {
            out.extend_from_slice(b"; next-protocol=");
            write_name(protocol, out);
        }
        if let Some(status) = self.received_status {
            write!(out, "; received-status={status}").expect("writing to a vector succeeds");
        }
        if let Some(details) = self.details {
            out.extend_from_slice(b"; details=");
            write_string(details, out);
        }
    }

    /// Adds the member after those of the intermediaries before us (RFC 9209 §2).
    pub fn append(&self, fields: &mut Fields) {
        let mut value = Vec::with_capacity(64);
        self.write(&mut value);
        fields.append(NAME, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structured::{BareItem, List, Member, is_token};

    #[test]
    fn a_member_is_a_structured_item_with_parameters() {
        let status = ProxyStatus {
            proxy: "freshet",
            error: Some(ProxyError::ConnectionTimeout),
            next_hop: Some("[2001:db8::1]:80"),
            next_protocol: Some("http/1.1"),
            received_status: Some(503),
            details: Some("3 s \"over\""),
        };
        let mut fields = Fields::new();
        status.append(&mut fields);
        let list = List::from_fields(&fields, NAME).unwrap();
        let Member::Item(ours) = &list.0[0] else { panic!("an item") };
        let get = |name| ours.parameters.get(name).cloned().unwrap();
        assert_eq!(get("error"), BareItem::Token("connection_timeout".into()));
        assert_eq!(get("next-protocol"), BareItem::Token("http/1.1".into()));
        assert_eq!(get("received-status"), BareItem::Integer(503));
        assert_eq!(get("details"), BareItem::String("3 s \"over\"".into()));
    }

    #[test]
    fn codes_are_tokens_and_statuses_are_final() {
        for error in ProxyError::ALL {
            assert!(is_token(error.code()) && (200..600).contains(&error.status()));
        }
    }
}
