//! Flags that stand for keys of `freshet.toml`, and the file itself.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use freshet_config::document::Document;
use freshet_config::mistake::{Mistake, render};
use freshet_config::{Settings, keys};
use freshet_node::node::NodeError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Flags of `freshet serve` that say how the node is set up.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SettingsArguments {
    /// Origin to fetch from, as http://host:port, https://host or unix:/path; repeatable.
    #[arg(long, value_name = "URL")]
    pub origin: Vec<String>,
    /// Policy in VCL; its backends take the place of --origin.
    #[arg(long, value_name = "FILE")]
    pub vcl: Option<PathBuf>,
    /// Address for HTTP, as :8000, 127.0.0.1:8000 or unix:/path; repeatable.
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<String>,
    /// Address for HTTPS; repeatable.
    #[arg(long, value_name = "ADDR")]
    pub listen_tls: Vec<String>,
    /// PEM file with a certificate and its chain; repeatable, with --key.
    #[arg(long, value_name = "FILE")]
    pub cert: Vec<PathBuf>,
    /// PEM file with the certificate's private key; repeatable.
    #[arg(long, value_name = "FILE")]
    pub key: Vec<PathBuf>,
    #[arg(long, value_name = "SIZE", help = help("memory"))]
    pub memory: Option<String>,
    /// File or device that keeps what is cached over a restart, as /var/cache/freshet:100GB or
    /// /dev/nvme0n1; repeatable.
    #[arg(long, value_name = "PATH[:SIZE]")]
    pub store: Vec<String>,
    #[arg(long, value_name = "N", help = help("workers"))]
    pub workers: Option<String>,
    #[arg(long, value_name = "ADDR", help = help("admin.listen"))]
    pub admin: Option<String>,
    #[arg(long, value_name = "WHERE", help = help("log.access"))]
    pub access_log: Option<String>,
    /// File with the rest of the configuration.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Any key of freshet.toml, as cache.grace=10s; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// The help text of a flag that stands for a key.
fn help(path: &str) -> String {
    keys::find(path).expect("flags stand for keys of the table").help.replace('`', "")
}

impl SettingsArguments {
    /// The settings that file and flags make together; flags win.
    ///
    /// # Errors
    /// All that is wrong, with its place in the file: a [`Wrong`] where the file can be read.
    #[cfg(feature = "lab")]
    pub(crate) fn settings(&self) -> Result<Settings> {
        self.load().map(|(settings, _)| settings)
    }

    /// As [`SettingsArguments::settings`], with the text that mistakes are shown in.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn load(&self) -> Result<(Settings, Source)> {
        let source = self.config.as_deref().map_or_else(|| Ok(Source::default()), Source::read)?;
        let mut document = match Document::parse(&source.text) {
            Ok(document) => document,
            Err(mistakes) => return Err(source.wrong(mistakes).into()),
        };
        self.add_to(&mut document)?;
        match Settings::from_document(&document) {
            Ok(settings) => Ok((settings, source)),
            Err(mistakes) => Err(source.wrong(mistakes).into()),
        }
    }

    fn add_to(&self, document: &mut Document) -> Result<()> {
        if self.cert.len() != self.key.len() {
            bail!(
                "each --cert needs a --key: {} and {} were given",
                self.cert.len(),
                self.key.len()
            );
        }
        let refuse = |error: String| anyhow!(error);
        for url in &self.origin {
            document.push("origin", &[("url", url)]).map_err(refuse)?;
        }
        if let Some(path) = &self.vcl {
            document.set("vcl", text(path)?).map_err(refuse)?;
        }
        for (addresses, tls) in [(&self.listen, "false"), (&self.listen_tls, "true")] {
            for address in addresses {
                document.push("listen", &[("address", address), ("tls", tls)]).map_err(refuse)?;
            }
        }
        for (cert, key) in self.cert.iter().zip(&self.key) {
            let (cert, key) = (text(cert)?, text(key)?);
            document.push("certificate", &[("cert", cert), ("key", key)]).map_err(refuse)?;
        }
        for store in &self.store {
            let row = match store.rsplit_once(':') {
                Some((path, size)) => vec![("path", path), ("size", size)],
                None => vec![("path", store.as_str())],
            };
            document.push("store", &row).map_err(refuse)?;
        }
        let flags = [
            ("memory", &self.memory),
            ("workers", &self.workers),
            ("admin.listen", &self.admin),
            ("log.access", &self.access_log),
        ];
        for (path, value) in flags {
            if let Some(value) = value {
                document.set(path, value).map_err(refuse)?;
            }
        }
        for pair in &self.set {
            let (path, value) = pair
                .split_once('=')
                .ok_or_else(|| anyhow!("--set takes KEY=VALUE, not `{pair}`"))?;
            if keys::find(path).is_none_or(|key| key.path.contains("[]")) {
                let known = keys::KEYS.iter().map(|key| key.path);
                let near = keys::nearest(path, known);
                bail!(
                    "--set: there is no key `{path}`{}",
                    near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
                );
            }
            document.set(path, value).map_err(refuse)?;
        }
        if document.rows("listen").is_empty() {
            document.push("listen", &[("address", ":8000")]).map_err(refuse)?;
            document.push("listen", &[("address", ":8443"), ("tls", "true")]).map_err(refuse)?;
        }
        Ok(())
    }
}

/// Bytes of a configuration file: ten thousand sites at a kilobyte each, and half as many again.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// The text of a configuration; empty where flags say all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    file: String,
    pub(crate) text: String,
}

/// Mistakes of a configuration, with the text they are shown in.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) source: Source,
    pub(crate) mistakes: Vec<Mistake>,
}

impl Source {
    fn read(path: &Path) -> Result<Self> {
        let text = freshet_base::file::read_text(path, CONFIG_BYTES_MAX)
            .with_context(|| format!("{} could not be read", path.display()))?;
        Ok(Self { file: path.display().to_string(), text })
    }

    /// Mistakes of this text.
    pub(crate) fn wrong(self, mistakes: Vec<Mistake>) -> Wrong {
        Wrong { source: self, mistakes }
    }

    /// Why a node did not start or reload, with the places of what is wrong with this text.
    pub(crate) fn explain(&self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        match error.into().downcast() {
            Ok(NodeError::Config(mistakes)) => self.clone().wrong(mistakes).into(),
            Ok(other) => other.into(),
            Err(error) => error,
        }
    }
}

impl Wrong {
    /// The mistakes as a compiler shows them.
    pub(crate) fn shown(&self) -> String {
        render(&self.source.file, &self.source.text, &self.mistakes)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first line is what a service manager shows.
        let first = self.mistakes.iter().find(|mistake| mistake.is_error());
        let line = first.and_then(|mistake| mistake.place.line_and_column(&self.source.text));
        if let (false, Some((line, _))) = (self.source.file.is_empty(), line) {
            write!(f, "{}:{line}: ", self.source.file)?;
        }
        let message = first.map_or("", |mistake| mistake.message.lines().next().unwrap_or(""));
        write!(f, "{message}")?;
        match self.shown().trim_end() {
            // Nothing more is known of it.
            shown if shown == format!("error: {message}") => Ok(()),
            shown => write!(f, "\n{shown}"),
        }
    }
}

impl std::error::Error for Wrong {}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| anyhow!("{} is not UTF-8", path.display()))
}
