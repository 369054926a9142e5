//! Where a cluster is, as the configuration or the pod that the platform runs in says it.

use super::client::Access;
use super::objects::Placing;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env::VarError;
use std::path::{Path, PathBuf};

/// What a pod gets of the cluster it is in, where it may use its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Longest name of a namespace, in bytes (RFC 1123 label).
const NAMESPACE_BYTES_MAX: usize = 63;

/// A cluster, as whoever configures the platform says.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) access: Access,
    /// Where all of it is.
    pub(crate) namespace: String,
    /// What its pods have besides what their instances say.
    pub placing: Placing,
}

/// `[runtime.kubernetes]`: what is not said is as in the pod that the platform runs in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// URL of the interface.
    api: Option<String>,
    ca: Option<PathBuf>,
    token: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    namespace: Option<String>,
    images: String,
    pull_secret: Option<String>,
    #[serde(default)]
    nodes: BTreeMap<String, String>,
}

impl ClusterFile {
    /// The cluster, with what the pod that this runs in says of it.
    ///
    /// # Errors
    /// What is missing, or is not what it should be.
    pub fn cluster(self) -> Result<Cluster, String> {
        self.cluster_of(Path::new(ACCOUNT), |name| std::env::var(name))
            .map_err(|what| format!("runtime.kubernetes{what}"))
    }

    fn cluster_of(
        self,
        account: &Path,
        variable: impl Fn(&str) -> Result<String, VarError>,
    ) -> Result<Cluster, String> {
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(": `certificate` and `key` go together".to_owned()),
        };
        // A token of the pod is for the cluster the pod is in, and for nobody else.
        let is_here = self.api.is_none();
        let token =
            self.token.or_else(|| (is_here && identity.is_none()).then(|| account.join("token")));
        if token.is_none() && identity.is_none() {
            return Err(": `token`, or `certificate` and `key`, says who asks at `api`".to_owned());
        }
        let ca = match self.ca {
            Some(ca) => ca,
            None if is_here => account.join("ca.crt"),
            None => return Err(".ca: the authorities of the certificate of `api`".to_owned()),
        };
        let api = self.api.map_or_else(|| api_here(variable), Ok)?;
        let in_pod = || std::fs::read_to_string(account.join("namespace")).ok();
        let namespace = self.namespace.or_else(|| if is_here { in_pod() } else { None });
        let namespace = namespace.map(|name| name.trim().to_owned());
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        // It is a part of paths.
        let is_of_label =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label = (1..=NAMESPACE_BYTES_MAX).contains(&namespace.len());
        if !is_label || !namespace.bytes().all(is_of_label) {
            return Err(format!(".namespace: `{namespace}` is no name of one"));
        }
        let access =
            Access::new(&api, ca, identity, token).map_err(|what| format!(".api: {what}"))?;
        let placing = Placing {
            images: self.images,
            pull_secret: self.pull_secret,
            nodes: self.nodes,
            hosts: BTreeMap::new(),
        };
        Ok(Cluster { access, namespace, placing })
    }
}

/// The interface of the cluster that this process is in a pod of.
fn api_here(variable: impl Fn(&str) -> Result<String, VarError>) -> Result<String, String> {
    match (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT")) {
        (Ok(host), Ok(port)) if host.contains(':') => Ok(format!("https://[{host}]:{port}")),
        (Ok(host), Ok(port)) => Ok(format!("https://{host}:{port}")),
        _ => Err(
            ".api: must be there, such as https://10.0.0.1:6443, as the platform runs in no pod"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, account: &Path, host: Option<&str>) -> Result<Cluster, String> {
        let file: ClusterFile = toml::from_str(text).unwrap();
        file.cluster_of(account, |name| match (name, host) {
            ("KUBERNETES_SERVICE_HOST", Some(host)) => Ok(host.to_owned()),
            ("KUBERNETES_SERVICE_PORT", Some(_)) => Ok("443".to_owned()),
            _ => Err(VarError::NotPresent),
        })
    }

    #[test]
    fn in_a_pod_its_account_is_taken() {
        let account = tempfile::tempdir().unwrap();
        std::fs::write(account.path().join("namespace"), "edge\n").unwrap();
        let found = read("images = \"r\"", account.path(), Some("10.96.0.1")).unwrap();
        assert_eq!(found.namespace, "edge");
        assert_eq!(found.access.server.name, "10.96.0.1:443");
        assert_eq!(found.access.token, Some(account.path().join("token")));
        let tls = found.access.server.tls.unwrap();
        assert_eq!((tls.ca, tls.verify), (Some(account.path().join("ca.crt")), true));
        let found = read("images = \"r\"", account.path(), Some("fd00::1")).unwrap();
        assert_eq!(found.access.server.name, "[fd00::1]:443");
    }

    #[test]
    fn another_cluster_is_told_nothing_of_the_pod_s() {
        let keys = "images = \"r\"\napi = \"https://c.example:6443/\"\nca = \"a\"\n\
             certificate = \"c\"\nkey = \"k\"\npull_secret = \"p\"\nnodes = { zone = \"edge\" }";
        let account = tempfile::tempdir().unwrap();
        std::fs::write(account.path().join("namespace"), "edge").unwrap();
        let found = read(keys, account.path(), Some("10.96.0.1")).unwrap();
        assert_eq!((found.access.token, found.namespace.as_str()), (None, "default"));
        let tls = found.access.server.tls.unwrap();
        assert_eq!(tls.client_certificate.as_deref(), Some(&("c".into(), "k".into())));
        assert_eq!(found.placing.nodes["zone"], "edge");
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, what) in [
            ("key = \"k\"", ": `certificate` and `key` go together"),
            ("", ".api: must be there"),
            ("api = \"https://c.example\"", ": `token`, or"),
            ("api = \"https://c.example\"\ntoken = \"t\"", ".ca: "),
            ("api = \"c.example\"\nca = \"a\"\ntoken = \"t\"", ".api: `c.example` must"),
            (
                "api = \"https://c.example\"\nca = \"a\"\ntoken = \"t\"\nnamespace = \"a/b\"",
                ".namespace: `a/b`",
            ),
        ] {
            let text = format!("images = \"r\"\n{text}");
            let said = read(&text, Path::new("/nowhere"), None).unwrap_err();
            assert!(said.starts_with(what), "{said}");
        }
    }
}
