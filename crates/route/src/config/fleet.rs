//! `[fleet]`: where nodes say how they are.

use super::{Reader, optional};
use freshet_config::mistake::Mistake;
use std::path::PathBuf;

/// Which servers of NATS, and which fleet of theirs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FleetSettings {
    /// Servers, any of which will do.
    pub servers: Vec<String>,
    /// Name of the fleet.
    pub name: String,
    /// File with a user's credentials.
    pub credentials: Option<PathBuf>,
    /// PEM file of the authorities to trust.
    pub ca: Option<PathBuf>,
    /// PEM files of our certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Folder with a certificate of the fleet's issuer, in place of the three above: nodes are believed that show such.
    pub identity: Option<PathBuf>,
}

impl Reader<'_> {
    pub(super) fn fleet(&mut self) -> Option<FleetSettings> {
        let text = |key: &str| self.document.value(&format!("fleet.{key}")).text();
        let file = |key: &str| optional(text(key)).map(PathBuf::from);
        let servers = self.document.value("fleet.servers").list();
        let certificate = match (file("certificate"), file("key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let message = "fleet.certificate and fleet.key go together: give both, or none";
                self.wrong.push(Mistake::error(self.document.at("fleet.certificate"), message));
                None
            }
        };
        let identity = file("identity");
        let shows = ["ca", "certificate", "key", "credentials"];
        if identity.is_some() && shows.iter().any(|key| file(key).is_some()) {
            let message = "fleet.identity has what is shown to the servers, and whom to believe: give no \
                           fleet.ca, certificate, key or credentials with it";
            self.wrong.push(Mistake::error(self.document.at("fleet.identity"), message));
        }
        (!servers.is_empty()).then(|| FleetSettings {
            servers,
            name: text("name"),
            credentials: file("credentials"),
            ca: file("ca"),
            certificate,
            identity,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn an_identity_has_what_is_shown_and_whom_to_believe() {
        let text = |more: &str| {
            format!(
                "[[region]]\nname = \"r\"\n[[node]]\nname = \"n\"\nregion = \"r\"\nhost = \"n.example\"\n\
                 [fleet]\nservers = [\"tls://a\"]\nidentity = \"/i\"\n{more}"
            )
        };
        let fleet = read(&text("")).unwrap().fleet.unwrap();
        assert_eq!(fleet.identity.as_deref(), Some(Path::new("/i")));
        assert_eq!(read(&text("ca = \"/c\"\n")).map(drop).unwrap_err().len(), 1);
    }
}
