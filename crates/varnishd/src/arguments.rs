//! The command line: Varnish's options, with their values glued on or as the next word.

use crate::accounts;
use crate::endpoint::{Endpoint, EndpointError};
use crate::parameters::Parameters;
use std::path::PathBuf;
use thiserror::Error;

/// Options and whether each takes a value, as `getopt` writes it.
pub(crate) const OPTIONS: &str = "?a:b:Cdf:Fh:i:I:j:l:M:n:P:p:r:S:s:T:t:VW:x:";
/// Where working directories with a relative name are.
const STATE_DIRECTORY: &str = "/var/lib/varnish";

/// What is wrong with the command line.
#[derive(Debug, Error)]
pub(crate) enum ArgumentError {
    /// No such option.
    #[error("invalid option -- '{0}'")]
    Unknown(char),
    /// The option takes a value.
    #[error("option requires an argument -- '{0}'")]
    NoValue(char),
    /// A word that is no option.
    #[error("Too many arguments ({0}...)")]
    Extra(String),
    /// A value that does not fit its option.
    #[error("-{option} {value}: {why}")]
    Value {
        /// The option.
        option: char,
        /// Its value.
        value: String,
        /// What it should be.
        why: String,
    },
    /// A storage of a name that another one has.
    #[error("(-s {0}) '{1}' is already defined")]
    Storage(String, String),
    /// A storage with a name that cannot be one.
    #[error("invalid -s name \"{0}\"=[...]")]
    StorageName(String),
    /// A storage with a name and nothing else.
    #[error("Empty named -s argument \"{0}=\"")]
    StorageEmpty(String),
    /// An address to listen on.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Two that would listen on one address.
    #[error("-a arguments {0} and {0} have same address")]
    SameAddress(String),
    /// Whom to serve as.
    #[error("{0}")]
    Jail(String),
    /// Options that exclude one another.
    #[error("{0}")]
    Conflict(&'static str),
}

impl ArgumentError {
    /// Whether it is about which options there are, rather than about a value.
    pub(crate) fn is_of_form(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::NoValue(_) | Self::Extra(_))
    }
}

/// What to do.
#[derive(Debug)]
pub(crate) enum Task {
    /// Serve.
    Run(Box<Options>),
    /// Say how the program is used.
    Usage,
    /// Say which version this is.
    Version,
    /// Print a part of the documentation.
    Document(String),
}

/// Everything the command line decides.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The command line interface is on standard input and output.
    pub(crate) debug: bool,
    /// Stay in the foreground.
    pub(crate) foreground: bool,
    /// Check the policies, then end.
    pub(crate) check: bool,
    /// Where clients connect.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The origin where no policy is given, `none` for none.
    pub(crate) backend: Option<String>,
    /// Policies; the last is used. An empty one stands for none at all.
    pub(crate) policies: Vec<PathBuf>,
    /// Working directory.
    pub(crate) workdir: PathBuf,
    /// Addresses of the command line interface.
    pub(crate) command_addresses: Vec<String>,
    /// Addresses to connect to, which then drive us.
    pub(crate) report_addresses: Vec<String>,
    /// File with the secret of the command line interface.
    pub(crate) secret: Option<PathBuf>,
    /// Storages.
    pub(crate) storages: Vec<Storage>,
    /// Parameters with their values.
    pub(crate) parameters: Vec<(String, String)>,
    /// Parameters that may not be changed.
    pub(crate) protected: Vec<String>,
    /// The name this instance goes by.
    pub(crate) identity: Option<String>,
    /// File with commands to begin with.
    pub(crate) commands: Option<PathBuf>,
    /// File for the number of the process.
    pub(crate) pid_file: Option<PathBuf>,
}

/// A storage.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Storage {
    /// Its name.
    pub(crate) name: String,
    /// What kind it is called.
    pub(crate) kind: String,
    /// Its size; `None` is what the machine has.
    pub(crate) bytes: Option<u64>,
}

/// Reads the command line, without the program's name.
pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Task, ArgumentError> {
    let mut options = Options::default();
    let mut workdir = None;
    let mut backends = 0;
    let mut words = arguments.into_iter();
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(ArgumentError::Extra(word));
        };
        let mut letters = letters.chars();
        while let Some(option) = letters.next() {
            let takes_value = takes_value(option)?;
            let value = match (takes_value, letters.as_str()) {
                (false, _) => String::new(),
                (true, "") => words.next().ok_or(ArgumentError::NoValue(option))?,
                (true, glued) => {
                    let glued = glued.to_owned();
                    letters = "".chars();
                    glued
                }
            };
            match option {
                '?' => return Ok(Task::Usage),
                'V' => return Ok(Task::Version),
                'x' => return Ok(Task::Document(value)),
                'n' => workdir = Some(value),
                'b' => {
                    backends += 1;
                    options.backend = Some(value);
                }
                _ => options.take(option, value)?,
            }
        }
    }
    if backends > 1 {
        return Err(ArgumentError::Conflict("Only one -b can be specified"));
    }
    if options.backend.is_some() && !options.policies.is_empty() {
        return Err(ArgumentError::Conflict("Only one of -b or -f can be specified"));
    }
    if options.debug && options.foreground {
        return Err(ArgumentError::Conflict("-d cannot be combined with -F"));
    }
    if options.check && options.policies.is_empty() && options.backend.is_none() {
        return Err(ArgumentError::Conflict("-C needs either -b <backend> or -f <vcl_file>"));
    }
    let is_served = options.debug || options.backend.is_some() || !options.policies.is_empty();
    if !is_served && options.command_addresses.is_empty() && options.report_addresses.is_empty() {
        return Err(ArgumentError::Conflict("Neither -b nor -f given. (use -f '' to override)"));
    }
    options.policies.retain(|path| !path.as_os_str().is_empty());
    options.workdir = self::workdir(workdir);
    if options.endpoints.is_empty() {
        options.endpoints = Endpoint::parse(":80", 0)?;
    }
    Ok(Task::Run(Box::new(options)))
}

impl Options {
    fn take(&mut self, option: char, value: String) -> Result<(), ArgumentError> {
        let wrong = |value: &str, why: &str| ArgumentError::Value {
            option,
            value: value.into(),
            why: why.into(),
        };
        match option {
            'a' => {
                // Names are given out per option, not per address.
                let taken = self.endpoints.iter().map(|each| each.option + 1).max().unwrap_or(0);
                for endpoint in Endpoint::parse(&value, taken)? {
                    let is_same = |known: &Endpoint| known.address == endpoint.address;
                    let is_any_port = endpoint.address.port() == Some(0);
                    if !is_any_port && self.endpoints.iter().any(is_same) {
                        return Err(ArgumentError::SameAddress(endpoint.address.to_string()));
                    }
                    self.endpoints.push(endpoint);
                }
            }
            'C' => self.check = true,
            'd' => self.debug = true,
            'f' => self.policies.push(value.into()),
            'F' => self.foreground = true,
            // Hashes and waiters are built otherwise here.
            'h' | 'W' => {}
            'j' => check_jail(&value).map_err(ArgumentError::Jail)?,
            'i' => {
                if value.is_empty() {
                    return Err(wrong(&value, "identity cannot be the empty string"));
                }
                self.identity = Some(value);
            }
            'I' => self.commands = Some(value.into()),
            'l' => {
                let size = value.split(',').next().unwrap_or_default().to_owned();
                self.parameters.push(("vsl_space".into(), size));
            }
            'M' => self.report_addresses.push(value),
            'P' => self.pid_file = Some(value.into()),
            'p' => {
                let (name, setting) =
                    value.split_once('=').ok_or_else(|| wrong(&value, "expected param=value"))?;
                self.parameters.push((name.into(), setting.into()));
            }
            'r' => self.protected.extend(value.split(',').map(Into::into)),
            'S' => self.secret = Some(value.into()),
            's' => {
                match value.split_once('=') {
                    Some((name, _)) if !name.contains(',') && !crate::endpoint::is_name(name) => {
                        return Err(ArgumentError::StorageName(name.into()));
                    }
                    Some((name, "")) => return Err(ArgumentError::StorageEmpty(name.into())),
                    _ => {}
                }
                let unnamed = self.storages.iter().filter(|each| each.name.starts_with('s'));
                let storage = Storage::parse(&value, unnamed.count());
                let storage = storage.map_err(|why| wrong(&value, &why))?;
                if self.storages.iter().any(|known| known.name == storage.name) {
                    return Err(ArgumentError::Storage(value, storage.name));
                }
                self.storages.push(storage);
            }
            'T' => self.command_addresses.push(value),
            't' => self.parameters.push(("default_ttl".into(), value)),
            _ => return Err(ArgumentError::Unknown(option)),
        }
        Ok(())
    }

    /// The parameters as the command line sets them.
    pub(crate) fn parameters(&self) -> Result<Parameters, crate::parameters::ParameterError> {
        let mut parameters = Parameters::new();
        for (name, value) in &self.parameters {
            parameters.set(name, value)?;
        }
        for name in &self.protected {
            parameters.protect(name)?;
        }
        Ok(parameters)
    }
}

impl Storage {
    /// Reads `[name=]kind[,size…]`; `number` makes the name where there is none.
    fn parse(text: &str, number: usize) -> Result<Self, String> {
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains(',') => (name.to_owned(), rest),
            _ => (format!("s{number}"), text),
        };
        let mut parts = rest.split(',');
        let kind = parts.next().unwrap_or_default();
        let size = match kind {
            "malloc" | "umem" | "default" => parts.next(),
            // A file has its path first. Bodies are in memory all the same.
            "file" => parts.nth(1),
            _ => return Err(format!("Unknown stevedore method \"{kind}\"")),
        };
        let bytes = match size.filter(|size| !size.is_empty()) {
            Some(size) => {
                let bytes = crate::parameters::bytes(size);
                Some(bytes.map_err(|_| format!("Invalid size \"{size}\""))?)
            }
            None => None,
        };
        let kind = if kind == "default" { "malloc" } else { kind };
        Ok(Self { name, kind: kind.into(), bytes })
    }
}

/// Whom Varnish would serve as. Nobody else is become here, but a mistake is one all the same.
fn check_jail(text: &str) -> Result<(), String> {
    let mut words = text.split(',');
    match words.next() {
        Some("none") if words.next().is_some() => Err("-jnone takes no arguments.".into()),
        Some("none") => Ok(()),
        Some("unix") => {
            let mut groups = Vec::new();
            for word in words {
                match word.split_once('=') {
                    Some(("user" | "workuser", name)) => {
                        let user = accounts::user(name);
                        let user =
                            user.ok_or_else(|| format!("Unix jail: {name} user not found."))?;
                        groups.push((name, user.group));
                    }
                    Some(("ccgroup", name)) => {
                        accounts::group(name)
                            .ok_or_else(|| format!("Unix jail: {name} group not found."))?;
                    }
                    _ => return Err(format!("Unix jail: unknown sub-argument '{word}'")),
                }
            }
            // The one that manages is `varnish` where nobody says otherwise.
            if groups.len() == 1 && text.contains("workuser=") {
                let manager = accounts::user("varnish");
                groups.insert(0, ("varnish", manager.and_then(|user| user.group)));
            }
            match groups[..] {
                [(user, group), (work, other)] if group != other => {
                    Err(format!("Unix jail: user {user} and {work} have different login groups"))
                }
                _ => Ok(()),
            }
        }
        Some("") | None => Err("-j argument is empty".into()),
        Some(kind) => Err(format!("Unknown jail method \"{kind}\"")),
    }
}

fn takes_value(option: char) -> Result<bool, ArgumentError> {
    let at = OPTIONS.find(option).filter(|_| option != ':');
    let at = at.ok_or(ArgumentError::Unknown(option))?;
    Ok(OPTIONS[at + option.len_utf8()..].starts_with(':'))
}

/// The working directory: a path, or a name under the usual place; without one the host's name.
fn workdir(name: Option<String>) -> PathBuf {
    let name = name.unwrap_or_else(crate::host_name);
    PathBuf::from(STATE_DIRECTORY).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        match read(line.split(' ').map(Into::into)).expect(line) {
            Task::Run(options) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_may_be_glued_or_apart() {
        let options = options("-d -n/tmp/x -pdefault_ttl=3 -p default_grace=4 -smalloc,1m -l 2m");
        assert_eq!(options.workdir, PathBuf::from("/tmp/x"));
        assert_eq!(options.parameters[1], ("default_grace".into(), "4".into()));
        let s0 = Storage { name: "s0".into(), kind: "malloc".into(), bytes: Some(1 << 20) };
        assert_eq!(options.storages, [s0]);
        let parameters = options.parameters().expect("they fit");
        assert_eq!(parameters.integer("vsl_space"), 2 << 20);
        assert_eq!(options.endpoints.len(), 1);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |line: &str| match read(line.split(' ').map(Into::into)) {
            Err(error) => error.to_string(),
            Ok(task) => panic!("{line}: {task:?}"),
        };
        assert!(wrong("--help").contains("invalid option -- '-'"));
        assert!(wrong("-d -n").contains("requires an argument -- 'n'"));
        assert!(wrong("-d x").contains("Too many arguments"));
        assert!(wrong("-b a -f b").contains("Only one of"));
        assert!(wrong("-d -s foo").contains("Unknown stevedore"));
        assert!(wrong("-n x").contains("Neither -b nor -f"));
        assert!(wrong("-d -a 127.0.0.1:81 -a 127.0.0.1:81").contains("have same address"));
        assert!(wrong("-d -a /tmp/a -a /tmp/a").contains("have same address"));
        assert!(wrong("-d -j unix,bla=foo").contains("unknown sub-argument 'bla=foo'"));
        assert!(wrong("-d -j unix,user=///").contains("/// user not found"));
        assert!(wrong("-d -j nowhere").contains("Unknown jail method"));
    }
}
