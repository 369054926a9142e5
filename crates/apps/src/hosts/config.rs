//! What configurations of platforms and of hosts have alike: which servers of NATS, and whose packages are taken.

use freshet_base::file::read_text;
use freshet_fleet::nats::{LinkSettings, is_name};
use freshet_fleet::signature::{Signers, SigningKey};
use freshet_package::Trust;
use serde::Deserialize;
use std::path::PathBuf;

/// Longest file of a key, in bytes.
const KEY_BYTES_MAX: u64 = 4096;
/// Longest file of a certificate, in bytes.
const CERTIFICATE_BYTES_MAX: u64 = 64 << 10;

/// Servers of NATS, and how they are met.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatsFile {
    servers: Vec<String>,
    #[serde(default = "fleet")]
    fleet: String,
    /// Servers that keep what is said: 1, 3 or 5.
    pub replicas: Option<usize>,
    credentials: Option<PathBuf>,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    certificate_key: Option<PathBuf>,
    /// What orders are signed with.
    key: Option<PathBuf>,
    /// Whose orders are carried out.
    #[serde(default)]
    signers: Vec<String>,
}

fn fleet() -> String {
    "fleet".to_owned()
}

impl NatsFile {
    /// Reads what it names. `place` is where it is in its file.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn settings(self, place: &str) -> Result<LinkSettings, String> {
        let wrong = |key: &str, what: String| format!("{place}.{key}: {what}");
        if self.servers.is_empty() {
            return Err(wrong("servers", "must name one, such as tls://10.0.0.1:4222".to_owned()));
        }
        if !is_name(&self.fleet) {
            let what = format!("`{}` must be letters, digits, `-` and `_`", self.fleet);
            return Err(wrong("fleet", what));
        }
        let certificate = match (self.certificate, self.certificate_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(wrong("certificate", "goes with `certificate_key`".to_owned())),
        };
        let key = self.key.map(|path| {
            let text = read_text(&path, KEY_BYTES_MAX)
                .map_err(|error| wrong("key", format!("{}: {error}", path.display())))?;
            SigningKey::parse(&text)
                .map_err(|error| wrong("key", format!("{}: {error}", path.display())))
        });
        let signers = self.signers.iter().map(|text| text.parse());
        let signers: Vec<_> = signers
            .collect::<Result<_, _>>()
            .map_err(|error| wrong("signers", format!("{error}")))?;
        Ok(LinkSettings {
            servers: self.servers,
            fleet: self.fleet,
            credentials: self.credentials,
            ca: self.ca,
            certificate,
            inbox: None,
            key: key.transpose()?,
            signers: Signers::new(signers),
            issuer: None,
        })
    }
}

/// Whose packages are taken.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackagesFile {
    /// Files of certificates.
    #[serde(default)]
    signers: Vec<PathBuf>,
    /// Instead of any: packages are taken from whoever may upload them.
    #[serde(default)]
    unsigned: bool,
}

impl PackagesFile {
    /// Reads the certificates.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn trust(&self) -> Result<Trust, String> {
        if self.unsigned != self.signers.is_empty() {
            return Err(
                "packages: either name `signers`, or say `unsigned = true` with none".to_owned()
            );
        }
        if self.unsigned {
            return Ok(Trust::anybody());
        }
        let texts = self.signers.iter().map(|path| {
            read_text(path, CERTIFICATE_BYTES_MAX)
                .map_err(|error| format!("packages.signers: {}: {error}", path.display()))
        });
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        Trust::signers(&texts).map_err(|error| format!("packages.signers: {error}"))
    }
}
