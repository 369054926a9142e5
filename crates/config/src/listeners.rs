//! `[[listen]]` and `[[certificate]]`: where clients connect, and what they are shown.

use super::document::Row;
use super::mistake::{Mistake, Place};
use super::site::certificates_of_nobody;
use super::values::{networks, optional, parse_address};
use freshet_net::address::Address;
use freshet_net::tls::client_auth::ClientAuth;
use freshet_net::trust::Network;
pub use freshet_quic::Algorithm;
use std::path::PathBuf;

/// `[[listen]]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listener {
    /// What logs and policies call it; `None` is `a` and its place in the list.
    pub name: Option<String>,
    /// Address.
    pub address: Address,
    /// TLS or clear.
    pub tls: bool,
    /// HTTP/3 on the UDP port of the same number.
    pub http3: Http3,
    /// The UDP port that responses over TCP name; `None` is the one of the same number.
    pub http3_port: Option<u16>,
    /// Whether that takes data of clients whose handshake is not over.
    pub early_data: bool,
    /// Who decides how much is sent to its clients.
    pub congestion: Algorithm,
    /// PROXY header first.
    pub proxy_protocol: bool,
    /// Networks whose peers may send one; those on a Unix socket always may.
    pub proxy_from: Vec<Network>,
    /// Whose certificates clients are asked for.
    pub client_auth: Option<ClientAuth>,
    /// Where its address is written.
    pub place: Place,
}

/// Whether a listener has HTTP/3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Http3 {
    /// No.
    Off,
    /// Where the UDP port can be had: nobody said anything.
    Offered,
    /// It has to: somebody said so.
    Required,
}

/// `[[certificate]]`
#[derive(Clone, Debug)]
pub struct Certificate {
    /// PEM chain.
    pub cert: PathBuf,
    /// PEM key.
    pub key: PathBuf,
    /// DER OCSP response.
    pub ocsp: Option<PathBuf>,
    /// Where its chain is written.
    pub place: Place,
    /// Where its key is written.
    pub key_place: Place,
}

pub(super) fn listener(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<Listener> {
    let tls = row.value("listen[].tls").bool();
    let client_auth = optional(row.value("listen[].client_ca").text()).map(|ca| ClientAuth {
        ca: ca.into(),
        required: row.value("listen[].client_certificates").text() == "required",
    });
    if client_auth.is_none() && row.has("listen[].client_certificates") {
        wrong.push(certificates_of_nobody(row.at("listen[].client_certificates")));
    }
    if client_auth.is_some() && !tls {
        let message = "client_ca is for listeners with TLS: add `tls = true`";
        wrong.push(Mistake::error(row.at("listen[].client_ca"), message));
    }
    let proxy_protocol = row.value("listen[].proxy_protocol").bool();
    let address = parse_address(row, "listen[].address", wrong)?;
    let can_http3 = tls && !proxy_protocol && matches!(address, Address::Tcp(_));
    let http3 = match row.value("listen[].http3").bool() {
        true if row.has("listen[].http3") => Http3::Required,
        true if can_http3 => Http3::Offered,
        _ => Http3::Off,
    };
    if http3 == Http3::Required && !can_http3 {
        let message = "HTTP/3 is for listeners with `tls = true` on an IP address and without \
                       `proxy_protocol`";
        wrong.push(Mistake::error(row.at("listen[].http3"), message));
    }
    if row.has("listen[].http3_port") && http3 == Http3::Off {
        let message = "`http3_port` is for listeners with HTTP/3";
        wrong.push(Mistake::error(row.at("listen[].http3_port"), message));
    }
    let http3_port = u16::try_from(row.value("listen[].http3_port").number()).ok();
    let early_data = row.value("listen[].early_data").bool();
    if early_data && http3 == Http3::Off {
        let message = "early data is for listeners with HTTP/3";
        wrong.push(Mistake::error(row.at("listen[].early_data"), message));
    }
    if early_data && client_auth.is_some() {
        let message = "early data and `client_ca` exclude each other: what a client sends early comes \
                       before it shows a certificate";
        wrong.push(Mistake::error(row.at("listen[].early_data"), message));
    }
    let congestion = match row.value("listen[].congestion").text().as_str() {
        "bbr" => Algorithm::Bbr,
        _ => Algorithm::Cubic,
    };
    if row.has("listen[].congestion") && http3 == Http3::Off {
        let message = "`congestion` is for listeners with HTTP/3";
        wrong.push(Mistake::error(row.at("listen[].congestion"), message));
    }
    Some(Listener {
        name: None,
        address,
        tls,
        http3,
        http3_port: http3_port.filter(|port| *port > 0),
        early_data,
        congestion,
        proxy_protocol,
        proxy_from: networks(row, "listen[].proxy_from", wrong),
        client_auth,
        place: row.at("listen[].address"),
    })
}

pub(super) fn certificate(row: &Row<'_>) -> Certificate {
    Certificate {
        cert: row.value("certificate[].cert").text().into(),
        key: row.value("certificate[].key").text().into(),
        ocsp: optional(row.value("certificate[].ocsp").text()).map(Into::into),
        place: row.at("certificate[].cert"),
        key_place: row.at("certificate[].key"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::Document;
    use super::super::settings::Settings;
    use super::*;

    fn first(listen: &str) -> Result<Listener, Vec<Mistake>> {
        let text =
            format!("[[listen]]\naddress = \":443\"\n{listen}[[origin]]\nurl = \"http://a\"\n");
        let settings = Settings::from_document(&Document::parse(&text).unwrap())?;
        Ok(settings.listeners.into_iter().next().unwrap())
    }

    #[test]
    fn the_port_of_http_3_that_is_told_is_that_of_a_listener_with_it() {
        let certificate = "[[certificate]]\ncert = \"a\"\nkey = \"b\"\n";
        let port = |listen: &str| first(&format!("tls = true\n{listen}{certificate}"));
        assert_eq!(port("").unwrap().http3_port, None);
        assert_eq!(port("http3_port = 0\n").unwrap().http3_port, None);
        assert_eq!(port("http3_port = 8443\n").unwrap().http3_port, Some(8443));
        assert!(port("http3 = false\nhttp3_port = 8443\n").is_err());
        assert!(first("http3_port = 8443\n").is_err());
    }
}
