//! `[forwarded]`: whose word for who a client is is believed, request by request.

use super::document::Document;
use super::key::{Key, Kind, key};
use super::mistake::Mistake;
use super::values::networks;
use freshet_net::trust::Network;
use std::net::IpAddr;

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key(
        "forwarded.from",
        Kind::TextList,
        "",
        "Networks of load balancers and CDNs in front that say with each request who its client is. \
         Of others it is not believed. With any given, who connects over a Unix socket is one too.",
    ),
    key(
        "forwarded.field",
        Kind::Text,
        "X-Forwarded-For",
        "The field in which they say it: a list of addresses, the last of which that is not in \
         `forwarded.from` is the client, or one address, as in `CF-Connecting-IP`.",
    ),
];

/// `[forwarded]`
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Forwarded {
    /// Who is believed.
    pub from: Vec<Network>,
    /// The field.
    pub field: String,
}

impl Forwarded {
    /// Whether a peer with this address, or one of a Unix socket, is believed.
    pub fn believes(&self, peer: Option<IpAddr>) -> bool {
        !self.from.is_empty() && peer.is_none_or(|peer| self.has(peer))
    }

    /// Whether an address is one of those in front.
    pub fn has(&self, address: IpAddr) -> bool {
        self.from.iter().any(|network| network.contains(address))
    }
}

/// What a document says of it; what is wrong is listed.
pub(super) fn forwarded(document: &Document, wrong: &mut Vec<Mistake>) -> Forwarded {
    let field = document.value("forwarded.field").text();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if field.is_empty() || !field.bytes().all(is_name) || field.eq_ignore_ascii_case("forwarded") {
        let message = format!(
            "forwarded.field is the name of a field with addresses, as `X-Forwarded-For`, not `{field}`"
        );
        wrong.push(Mistake::error(document.at("forwarded.field"), message));
    }
    Forwarded { from: networks(document, "forwarded.from", wrong), field }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_in_front_are_believed() {
        let text = "[forwarded]\nfrom = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n";
        let document = Document::parse(text).expect("the text is well-formed");
        let mut wrong = Vec::new();
        let forwarded = forwarded(&document, &mut wrong);
        assert_eq!((wrong.len(), forwarded.field.as_str()), (0, "X-Forwarded-For"));
        let believes = |peer: &str| forwarded.believes(Some(peer.parse().expect("an address")));
        assert!(believes("10.1.2.3") && believes("::ffff:10.1.2.3") && believes("2001:db8::1"));
        assert!(!believes("127.0.0.1") && forwarded.believes(None));
        assert!(!Forwarded::default().believes(None));
    }

    #[test]
    fn what_is_no_network_or_field_is_refused() {
        for (text, says) in [
            ("from = [\"lb.example\"]", "is not a network"),
            ("field = \"X Y\"", "forwarded.field is"),
            ("field = \"Forwarded\"", "forwarded.field is"),
        ] {
            let document = Document::parse(&format!("[forwarded]\n{text}\n")).expect("well-formed");
            let mut wrong = Vec::new();
            forwarded(&document, &mut wrong);
            assert!(wrong.iter().any(|one| one.message.contains(says)), "{text}: {wrong:?}");
        }
    }
}
