//! `[fleet]`: the log of purges that this node follows together with others.

use super::document::Document;
use super::mistake::Mistake;
use super::values::optional;
use freshet_base::hexadecimal;
use std::path::PathBuf;

/// `[fleet]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fleet {
    /// Servers that have the log.
    pub servers: Vec<String>,
    /// Name of the fleet.
    pub name: String,
    /// The node's name in it; `None` is the machine's.
    pub node: Option<String>,
    /// File with a user's credentials.
    pub credentials: Option<PathBuf>,
    /// Authorities the servers' certificates are of.
    pub ca: Option<PathBuf>,
    /// Files of the certificate chain and key shown to them.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Folder with a certificate of the fleet's own issuer, in place of `ca` and `certificate`.
    pub identity: Option<PathBuf>,
    /// Public keys (Ed25519) of those whose word is taken; anybody's who can write to the servers where there
    /// are none.
    pub signers: Vec<[u8; 32]>,
    /// File that knows how far the log was carried out on the disks.
    pub state: Option<PathBuf>,
    /// File with the secret that keys of session tickets are made of, where nodes share them.
    pub tickets: Option<PathBuf>,
    /// How it gets its configuration, where it does.
    pub config: Option<FleetConfig>,
    /// Whether what is stored is refused while it can be neither trusted nor validated.
    pub refuses: bool,
}

/// How a node gets its configuration from a fleet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FleetConfig {
    /// Keeps what it got.
    pub folder: PathBuf,
    /// Whose configuration it gets.
    pub group: String,
    /// What it may be chosen by.
    pub labels: Vec<String>,
    /// File with the secret that bundles are sealed with.
    pub secret: Option<PathBuf>,
}

/// What a document says of that.
pub fn fleet_config(document: &Document) -> Option<FleetConfig> {
    let text = |key: &str| document.value(&format!("fleet.{key}")).text();
    Some(FleetConfig {
        folder: optional(text("config"))?.into(),
        group: text("group"),
        labels: document.value("fleet.labels").list(),
        secret: optional(text("secret")).map(Into::into),
    })
}

/// What a document says of it, if it does; what is wrong is listed.
pub(super) fn fleet(document: &Document, wrong: &mut Vec<Mistake>) -> Option<Fleet> {
    let text = |key: &str| document.value(&format!("fleet.{key}")).text();
    let file = |key: &str| optional(text(key)).map(PathBuf::from);
    let servers = document.value("fleet.servers").list();
    if servers.is_empty() {
        if let Some((_, place)) = document.first_of("fleet") {
            let message = "[fleet] does nothing without `servers`, those that have its log";
            wrong.push(Mistake::error(place, message));
        }
        return None;
    }
    let certificate = match (file("certificate"), file("key")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            let message = "fleet.certificate and fleet.key go together: give both, or none";
            wrong.push(Mistake::error(document.at("fleet.certificate"), message));
            None
        }
    };
    let identity = file("identity");
    let shows = ["ca", "certificate", "key", "credentials"];
    if identity.is_some() && shows.iter().any(|key| file(key).is_some()) {
        let message = "fleet.identity has what is shown to the servers, and whom to believe: give no \
                       fleet.ca, certificate, key or credentials with it";
        wrong.push(Mistake::error(document.at("fleet.identity"), message));
    }
    let signers = signers(document, wrong);
    let tickets = document.value("fleet.tickets").bool().then(|| file("secret"));
    if let Some(secret) = &tickets {
        let place = document.at("fleet.tickets");
        if secret.is_none() {
            let message = "fleet.tickets makes keys of the fleet's secret: give fleet.secret";
            wrong.push(Mistake::error(place, message));
        }
        if !document.value("tls.ticket_keys").list().is_empty() {
            let message = "keys of session tickets come from tls.ticket_keys or are made by \
                           fleet.tickets: give one of the two";
            wrong.push(Mistake::error(place, message));
        }
    }
    Some(Fleet {
        servers,
        name: text("name"),
        node: optional(text("node")).filter(|name| name != "auto"),
        credentials: file("credentials"),
        ca: file("ca"),
        certificate,
        identity,
        signers,
        state: file("state"),
        tickets: tickets.flatten(),
        config: fleet_config(document),
        refuses: text("when_cut_off") == "refuse",
    })
}

fn signers(document: &Document, wrong: &mut Vec<Mistake>) -> Vec<[u8; 32]> {
    let mut out = Vec::new();
    for text in document.value("fleet.signers").list() {
        match hexadecimal::decode(&text) {
            Some(key) => out.push(key),
            None => {
                let message = format!(
                    "`{text}` is no operator's public key: it is 64 hexadecimal digits, as \
                     `freshet fleet key` prints them"
                );
                wrong.push(Mistake::error(document.at("fleet.signers"), message));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_make_a_fleet_and_without_them_nothing_else_means_anything() {
        let read = |text: &str| {
            let mut wrong = Vec::new();
            let document = Document::parse(text).expect("the text is well-formed");
            (fleet(&document, &mut wrong), wrong)
        };
        assert_eq!(read(""), (None, Vec::new()));
        let (fleet, wrong) = read("[fleet]\nservers = [\"nats://a\"]\nconfig = \"/c\"\n");
        let config = fleet.and_then(|fleet| fleet.config).expect("both are given");
        assert_eq!((config.folder, wrong.len()), ("/c".into(), 0));
        let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let text = format!(
            "[fleet]\nservers = [\"nats://a\"]\nsigners = [\"{key}\", \"{}\"]\n",
            &key[1..]
        );
        let (fleet, wrong) = read(&text);
        assert_eq!(fleet.map(|fleet| fleet.signers.len()), Some(1));
        assert!(wrong.len() == 1 && wrong[0].message.contains("`freshet fleet key`"), "{wrong:?}");
        let text = "[fleet]\nservers = [\"nats://a\"]\ntickets = true\n";
        let (fleet, wrong) = read(&format!("{text}secret = \"/s\"\n"));
        assert_eq!((fleet.and_then(|fleet| fleet.tickets), wrong.len()), (Some("/s".into()), 0));
        let (_, wrong) = read(&format!("{text}[tls]\nticket_keys = [\"/k\"]\n"));
        let messages: Vec<_> = wrong.iter().map(|mistake| mistake.message.as_str()).collect();
        assert!(messages.len() == 2 && messages[0].ends_with("give fleet.secret"), "{wrong:?}");
        assert!(messages[1].contains("one of the two"), "{wrong:?}");
        let text = "[fleet]\nservers = [\"tls://a\"]\nidentity = \"/i\"\n";
        let (fleet, wrong) = read(text);
        assert_eq!((fleet.and_then(|fleet| fleet.identity), wrong.len()), (Some("/i".into()), 0));
        let (_, wrong) = read(&format!("{text}ca = \"/ca\"\n"));
        assert!(wrong.len() == 1 && wrong[0].message.contains("give no fleet.ca"), "{wrong:?}");
        let (fleet, wrong) = read("[fleet]\nconfig = \"/c\"\ngroup = \"edges\"\n");
        assert_eq!(fleet, None);
        assert!(wrong[0].message.contains("does nothing without `servers`"), "{wrong:?}");
    }
}
