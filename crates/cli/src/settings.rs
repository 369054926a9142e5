//! Flags that stand for keys of `freshet.toml`, and the file itself.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use freshet_config::document::Document;
use freshet_config::fleet::fleet_config;
use freshet_config::mistake::{Mistake, Place, render};
use freshet_config::{Settings, keys, stages};
use freshet_fleet::config::{CONFIGURATION_FILE, Folder, Version};
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
    /// Address for HTTP, as :8000, 127.0.0.1:8000 or unix:/path, or `off`; repeatable.
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<String>,
    /// Address for HTTPS, or `off`; repeatable.
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
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The same file without a flag, as `check` has it named.
    #[arg(value_name = "FILE", hide = true, conflicts_with = "config")]
    pub file: Option<PathBuf>,
    /// Any key of freshet.toml that is in no list of tables, as cache.grace=10s; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// What takes the place of an address where there is to be none.
const OFF: &str = "off";

fn is_off(addresses: &[String]) -> bool {
    addresses.iter().any(|address| address == OFF)
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
        self.load(&Below::Kept).map(|(settings, _)| settings)
    }

    /// As [`SettingsArguments::settings`], with the texts that mistakes are shown in, and with what is
    /// below where the file says that the fleet has a part in it.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn load(&self, below: &Below) -> Result<(Settings, Source)> {
        let (settings, source, wrong) = self.read(below)?;
        if wrong.is_empty() { Ok((settings, source)) } else { Err(source.wrong(wrong).into()) }
    }

    /// The same with all that is wrong, and with defaults in its place.
    ///
    /// # Errors
    /// What keeps more from being found.
    pub(crate) fn read(&self, below: &Below) -> Result<(Settings, Source, Vec<Mistake>)> {
        let mut source = Source::default();
        if let Some(path) = self.config.as_ref().or(self.file.as_ref()) {
            source.add(path)?;
        }
        let (own, wrong) = Document::read(source.text(0));
        let mut document = own;
        self.add_to(&mut document)?;
        if wrong.is_empty()
            && let Some(folder) = below.folder(&document)?
        {
            source.0.resize_with(1, Text::default);
            source.add(&folder.join(CONFIGURATION_FILE))?;
            let fleets =
                parse_below(source.text(1), &folder).map_err(|wrong| source.wrong(wrong))?;
            document = document.over(&fleets);
        }
        if document.rows("listen").is_empty() {
            let usual = [
                (&self.listen, &[("address", ":8000")][..]),
                (&self.listen_tls, &[("address", ":8443"), ("tls", "true")]),
            ];
            for (_, row) in usual.iter().filter(|(flag, _)| !is_off(flag)) {
                document.push("listen", row).map_err(|error| anyhow!(error))?;
            }
        }
        let (settings, found) = Settings::read(&document, wrong.is_empty());
        let wrong = stages::and_then(source.text(0), wrong, found);
        Ok((settings, source, wrong))
    }

    /// Refuses an `off` that says nothing, or leaves nothing.
    fn check_off(&self, document: &Document) -> Result<()> {
        if is_off(&self.listen) && is_off(&self.listen_tls) {
            bail!("--listen off and --listen-tls off leave nothing to listen on");
        }
        for (flag, addresses) in [("--listen", &self.listen), ("--listen-tls", &self.listen_tls)] {
            if is_off(addresses) && (addresses.len() > 1 || !document.rows("listen").is_empty()) {
                bail!("{flag} off leaves out the usual address, and here are others");
            }
        }
        Ok(())
    }

    fn add_to(&self, document: &mut Document) -> Result<()> {
        if self.cert.len() != self.key.len() {
            bail!(
                "each --cert needs a --key: {} and {} were given",
                self.cert.len(),
                self.key.len()
            );
        }
        self.check_off(document)?;
        let refuse = |error: String| anyhow!(error);
        for url in &self.origin {
            document.push("origin", &[("url", url)]).map_err(refuse)?;
        }
        if let Some(path) = &self.vcl {
            document.set("vcl", text(path)?).map_err(refuse)?;
        }
        for (addresses, tls) in [(&self.listen, "false"), (&self.listen_tls, "true")] {
            for address in addresses.iter().filter(|address| *address != OFF) {
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
                if let Some(row) = near.filter(|near| near.contains("[]")) {
                    bail!(
                        "--set: `{row}` is in a list of tables, which only a file has: --config FILE"
                    );
                }
                bail!(
                    "--set: there is no key `{path}`{}",
                    near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
                );
            }
            document.set(path, value).map_err(refuse)?;
        }
        Ok(())
    }
}

/// What of the fleet's configuration lies below a node's own, where that says that there is any.
#[derive(Clone, Debug)]
pub(crate) enum Below {
    /// What the node has kept.
    Kept,
    /// What it tries, else what it has kept.
    InForce,
    /// This version, or nothing.
    Version(Option<Version>),
}

impl Below {
    /// The folder of the bundle.
    fn folder(&self, document: &Document) -> Result<Option<PathBuf>> {
        let Some(config) = fleet_config(document) else { return Ok(None) };
        let folder = Folder::new(&config.folder);
        let memory = || folder.memory().context("fleet.config");
        let version = match self {
            Self::Kept => memory()?.kept,
            Self::InForce => memory().map(|memory| memory.trying.or(memory.kept))?,
            Self::Version(version) => version.clone(),
        };
        Ok(version.map(|version| folder.bundle(&version)))
    }
}

/// The fleet's part of a configuration. How a node gets it is not in it: one that could not be reached
/// any more by a mistake in it could not be mended either.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_below(text: &str, folder: &Path) -> Result<Document, Vec<Mistake>> {
    let document = Document::parse_below(text, 1, folder)?;
    match document.first_of("fleet") {
        None => Ok(document),
        Some((key, place)) => {
            let message =
                format!("`{key}` is for a node's own file, and not for what a fleet sends");
            Err(vec![Mistake::error(place, message)])
        }
    }
}

/// Bytes of a configuration file: ten thousand sites at a kilobyte each, and half as many again.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// The texts of a configuration, the uppermost first; none where flags say all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source(Vec<Text>);

#[derive(Clone, Debug, Default)]
struct Text {
    file: String,
    text: String,
}

/// Mistakes of a configuration, with the texts they are shown in.
#[derive(Debug)]
pub(crate) struct Wrong {
    source: Source,
    pub(crate) mistakes: Vec<Mistake>,
}

impl Source {
    fn add(&mut self, path: &Path) -> Result<()> {
        let text = freshet_base::file::read_text(path, CONFIG_BYTES_MAX).with_context(|| {
            let path = path.display().to_string();
            let help =
                if path.contains("://") { "; an origin's URL goes with --origin" } else { "" };
            format!("{path} could not be read{help}")
        })?;
        self.0.push(Text { file: path.display().to_string(), text });
        Ok(())
    }

    /// One text for a document that was read by itself.
    pub(crate) fn of(file: &str, text: &str) -> Self {
        Self(vec![Text::default(), Text { file: file.to_owned(), text: text.to_owned() }])
    }

    pub(crate) fn text(&self, number: usize) -> &str {
        self.0.get(number).map_or("", |text| &text.text)
    }

    /// The file that something is in, and where there in characters, from 1.
    fn place(&self, place: Place) -> (&str, Option<(usize, usize)>) {
        match self.0.get(place.text()) {
            Some(text) => (&text.file, place.line_and_column(&text.text)),
            None => ("", None),
        }
    }

    /// Mistakes of this text, as many as anybody reads.
    pub(crate) fn wrong(&self, mistakes: Vec<Mistake>) -> Wrong {
        Wrong { source: self.clone(), mistakes: stages::readable(mistakes) }
    }

    /// Why a node did not start or reload, with the places of what is wrong with this text.
    pub(crate) fn explain(&self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        match error.into().downcast() {
            Ok(NodeError::Config(mistakes)) => self.wrong(mistakes).into(),
            Ok(other) => other.into(),
            Err(error) => error,
        }
    }
}

impl Wrong {
    /// The mistakes as a compiler shows them.
    pub(crate) fn shown(&self) -> String {
        let mut out = String::new();
        // Those of one text together, so that a mistake is shown beside its neighbours.
        for mistakes in self.mistakes.chunk_by(|a, b| a.place.text() == b.place.text()) {
            let number = mistakes[0].place.text();
            let file = self.source.0.get(number).map_or("", |text| &text.file);
            out += &render(file, self.source.text(number), mistakes);
        }
        out
    }

    /// Where a mistake is.
    pub(crate) fn place(&self, mistake: &Mistake) -> (&str, Option<(usize, usize)>) {
        self.source.place(mistake.place)
    }

    /// Whether a node cannot start with it.
    pub(crate) fn is_error(&self) -> bool {
        self.mistakes.iter().any(Mistake::is_error)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first line is what a service manager shows.
        let first = self.mistakes.iter().find(|mistake| mistake.is_error());
        if let Some((file, Some((line, _)))) = first.map(|mistake| self.place(mistake))
            && !file.is_empty()
        {
            write!(f, "{file}:{line}: ")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_config::listeners::Listener;

    #[test]
    fn what_stands_in_lists_of_tables_is_said_to() {
        for key in ["origin.host", "origin[].host"] {
            let set = vec![format!("{key}=www.example")];
            let arguments = SettingsArguments { set, ..SettingsArguments::default() };
            let wrong = arguments.load(&Below::Kept).unwrap_err().to_string();
            assert!(wrong.ends_with("which only a file has: --config FILE"), "{wrong}");
        }
    }

    fn listening(listen: &[&str], listen_tls: &[&str]) -> Result<Vec<(String, bool)>> {
        let [listen, listen_tls] =
            [listen, listen_tls].map(|all| all.iter().map(|one| one.to_string()).collect());
        let origin = vec!["http://127.0.0.1:1".to_owned()];
        let arguments =
            SettingsArguments { origin, listen, listen_tls, ..SettingsArguments::default() };
        let (settings, _) = arguments.load(&Below::Kept)?;
        let of = |listener: &Listener| (listener.address.to_string(), listener.tls);
        Ok(settings.listeners.iter().map(of).collect())
    }

    #[test]
    fn a_usual_address_can_be_left_out() {
        let [http, https] = [("[::]:8000".to_owned(), false), ("[::]:8443".to_owned(), true)];
        assert_eq!(listening(&[], &[]).unwrap(), [http.clone(), https.clone()]);
        assert_eq!(listening(&[], &["off"]).unwrap(), [http]);
        assert_eq!(listening(&["off"], &[]).unwrap(), [https]);
        assert_eq!(listening(&[":80"], &["off"]).unwrap(), [("[::]:80".to_owned(), false)]);
        for (listen, listen_tls) in [(&["off"], &["off"][..]), (&["off"], &["off", ":443"])] {
            let wrong = listening(listen, listen_tls).unwrap_err().to_string();
            assert!(wrong.starts_with("--listen"), "{wrong}");
        }
    }
}
