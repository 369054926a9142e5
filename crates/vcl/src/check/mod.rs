//! From the tree to a program: names are resolved, types checked, states compared with what is
//! used in them. All mistakes are found in one pass; a program comes out where there are none.

mod backends;
mod calls;
mod comparisons;
mod declarations;
mod expressions;
mod names;
mod references;
mod statements;
mod uses;
mod words;

pub use backends::{BACKEND_FIELDS, PROBE_FIELDS};

use crate::diagnostic::{Report, Stage};
use crate::parser::Tree;
use crate::syntax::Declaration;
use freshet_http::date::Reading;
use freshet_policy::modules::Module;
use freshet_policy::program::{BackendRef, Program};
use freshet_policy::runtime::DATES;
use freshet_policy::source::{Sources, Span};
use freshet_policy::types::State;
use freshet_policy::variables::{Message, VARIABLES};
use references::Undefined;
use std::collections::HashMap;
use uses::SubUses;

/// What compilation depends on besides the text.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether something declared and not used is an error, as Varnish's `vcc_err_unref`.
    pub unused_is_error: bool,
    /// Steps of one match of a regular expression.
    pub match_steps_max: u32,
    /// Storages there are, by name; `Transient` and `ram` are usual.
    pub storages: Vec<String>,
    /// Whether `include` and `import … from` may name folders, as Varnish's `vcc_unsafe_path`. No
    /// module is loaded from one: that of the name is the one that comes with the program.
    pub unsafe_paths: bool,
    /// Whether the module `vtc`, which can make a worker wait, may be imported.
    pub test_module: bool,
    /// Names of other policies, for `return (vcl(name))`; any where this is `None`.
    pub labels: Option<Vec<String>>,
    /// The backend for a policy that declares none: the node's own choice of origin.
    pub default_backend: Option<String>,
    /// `server.identity`; the machine's name where it has none.
    pub identity: Option<String>,
    /// How dates are read.
    pub dates: Reading,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            unused_is_error: true,
            unsafe_paths: true,
            match_steps_max: freshet_policy::regex::MATCH_STEPS_MAX,
            storages: vec!["Transient".into(), "s0".into()],
            test_module: false,
            labels: None,
            default_backend: None,
            identity: None,
            dates: DATES,
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Symbol {
    Acl(u32),
    Backend(u32),
    Probe(u32),
    Sub(u32),
    Module(&'static Module),
    Object(u32),
}

impl Symbol {
    fn kind(self) -> &'static str {
        match self {
            Self::Acl(_) => "acl",
            Self::Backend(_) => "backend",
            Self::Probe(_) => "probe",
            Self::Sub(_) => "sub",
            Self::Module(_) => "vmod",
            Self::Object(_) => "instance",
        }
    }
}

/// A named thing, where it was declared, and whether it is used.
struct Entry {
    symbol: Symbol,
    span: Span,
    used: bool,
    is_builtin: bool,
    /// Whether it is above what is being compiled; modules and objects are used below only.
    is_ready: bool,
}

struct Checker<'a> {
    report: &'a mut Report,
    sources: &'a dyn Sources,
    settings: &'a Settings,
    program: Program,
    symbols: HashMap<Box<str>, Entry>,
    texts: HashMap<Box<[u8]>, u32>,
    headers: HashMap<(Message, Box<str>), u32>,
    regexes: HashMap<Box<str>, u32>,
    /// What is named and declared nowhere, in the order in which it is read.
    undefined: Vec<Undefined>,
    /// Of each subroutine.
    uses: Vec<SubUses>,
    /// The subroutine being compiled.
    current: usize,
    /// Names of `vcl_` subroutines the built-in text has.
    builtin_names: Vec<Box<str>>,
    default_backend_named: bool,
    /// How many probes were declared above each backend.
    probes_above: Vec<u32>,
}

/// Compiles `tree`, with `builtin` behind it.
pub(crate) fn check(
    tree: Tree,
    builtin: Tree,
    sources: &dyn Sources,
    settings: &Settings,
    report: &mut Report,
) -> Option<Program> {
    let program = Program {
        version: tree.version,
        subs: Vec::new(),
        backends: Vec::new(),
        default_backend: BackendRef::None,
        probes: Vec::new(),
        acls: Vec::new(),
        objects: Vec::new(),
        storages: settings.storages.clone(),
        dates: settings.dates,
        labels: Vec::new(),
        sources: Default::default(),
        modules: Vec::new(),
        rolls_back: false,
        writes_timeouts: false,
        includes: false,
        keeps_body: false,
        controls_connections: false,
        reads: [false; VARIABLES.len()],
        states: [None; 14],
        texts: Vec::new(),
        headers: Vec::new(),
        regexes: Vec::new(),
    };
    let builtin_names = builtin
        .declarations
        .iter()
        .filter_map(|declaration| match declaration {
            Declaration::Sub { name, .. } => Some(name.text.clone()),
            _ => None,
        })
        .chain(State::ALL.iter().map(|state| state.subroutine().into()))
        .collect();
    let mut checker = Checker {
        report,
        sources,
        settings,
        program,
        symbols: HashMap::new(),
        texts: HashMap::new(),
        headers: HashMap::new(),
        regexes: HashMap::new(),
        undefined: Vec::new(),
        uses: Vec::new(),
        current: 0,
        builtin_names,
        default_backend_named: false,
        probes_above: Vec::new(),
    };
    checker.declare(&tree.declarations, false);
    checker.declare(&builtin.declarations, true);
    checker.define(&tree.declarations);
    checker.define(&builtin.declarations);
    checker.finish();
    let Checker { program, report, .. } = checker;
    if report.has_errors() {
        return None;
    }
    let mut program = program;
    program.sources = report.sources.clone();
    Some(program)
}

impl Checker<'_> {
    /// Names something; what had the name before is replaced.
    fn name(&mut self, name: &str, symbol: Symbol, span: Span) {
        let is_ready = !matches!(symbol, Symbol::Module(_) | Symbol::Object(_));
        let entry = Entry { symbol, span, used: false, is_builtin: false, is_ready };
        self.symbols.insert(name.to_ascii_lowercase().into(), entry);
    }

    fn known(&self, name: &str) -> Option<&Entry> {
        self.symbols.get(&*name.to_ascii_lowercase())
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.report.error(span, message);
    }

    fn error_with(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.report.error(span, message).help = Some(help.into());
    }

    /// The number of a constant text.
    fn intern(&mut self, text: &[u8]) -> u32 {
        if let Some(index) = self.texts.get(text) {
            return *index;
        }
        let index = u32::try_from(self.program.texts.len()).unwrap_or(u32::MAX);
        self.texts.insert(text.into(), index);
        self.program.texts.push(text.into());
        index
    }

    /// The number of the name of a message's header field. It is spelled as it is where the policy
    /// names it first.
    fn header(&mut self, message: Message, name: &str) -> u32 {
        let key = (message, name.to_ascii_lowercase().into());
        if let Some(index) = self.headers.get(&key) {
            return *index;
        }
        let index = u32::try_from(self.program.headers.len()).unwrap_or(u32::MAX);
        self.headers.insert(key, index);
        self.program.headers.push(name.into());
        index
    }

    /// The number of a regular expression.
    fn regex(&mut self, pattern: &str, span: Span) -> Option<u32> {
        if let Some(index) = self.regexes.get(pattern) {
            return Some(*index);
        }
        match freshet_policy::regex::Regex::compile(pattern, self.settings.match_steps_max) {
            Ok(regex) => {
                let index = u32::try_from(self.program.regexes.len()).ok()?;
                self.regexes.insert(pattern.into(), index);
                self.program.regexes.push(regex);
                Some(index)
            }
            Err(bad) => {
                let message = format!(
                    "Regexp compilation error:\n\n{} (at offset {})",
                    bad.message, bad.offset
                );
                // The text of a string begins one byte behind its quote.
                let text = self.report.sources.text(span);
                let open = if text.starts_with('"') && !text.starts_with("\"\"\"") { 1 } else { 0 };
                let is_plain = open == 1 && text.len() == pattern.len() + 2;
                let at = if is_plain {
                    let start = span.start + 1 + bad.offset as u32;
                    Span { start, end: (start + 1).min(span.end), ..span }
                } else {
                    span
                };
                self.error(at, message);
                None
            }
        }
    }

    /// What a name stands for. Names are the same in small and in large letters.
    fn symbol(&mut self, name: &str) -> Option<Symbol> {
        let entry = self.symbols.get_mut(&*name.to_ascii_lowercase())?;
        if !entry.is_ready {
            return None;
        }
        entry.used = true;
        Some(entry.symbol)
    }

    /// What can be judged when all was read.
    fn finish(&mut self) {
        self.report.stage = Stage::References;
        self.check_references();
        self.report.stage = Stage::Actions;
        // What follows walks along the calls.
        if !self.check_recursion() && !self.check_depth() {
            self.check_returns();
            self.report.stage = Stage::Uses;
            self.check_uses();
        }
        self.report.stage = Stage::Whole;
        if self.program.backends.is_empty() && self.program.objects.is_empty() {
            self.error_with(
                Span::default(),
                "No backends or directors found in VCL program, at least one is necessary.",
                "add `backend default none;` where nothing is ever fetched",
            );
        }
    }
}
