//! What is named and declared nowhere, and what is declared and named nowhere. Both can only be told when
//! all was read.

use super::{Checker, Symbol};
use crate::diagnostic::{Severity, nearest};
use freshet_policy::program::BackendRef;
use freshet_policy::source::Span;
use std::collections::HashMap;

/// A name that is taken to be declared further below, and is not.
pub(super) struct Undefined {
    kind: &'static str,
    name: Box<str>,
    span: Span,
}

impl Checker<'_> {
    pub(super) fn undefined(&mut self, kind: &'static str, name: &str, span: Span) {
        self.undefined.push(Undefined { kind, name: name.into(), span });
    }

    /// Tells both by name, as Varnish does.
    pub(super) fn check_references(&mut self) {
        let mut names: HashMap<String, Vec<Undefined>> = HashMap::new();
        for one in std::mem::take(&mut self.undefined) {
            names.entry(one.name.to_ascii_lowercase()).or_default().push(one);
        }
        let unused = self.unused();
        let mut keys: Vec<&str> = names.keys().chain(unused.keys()).map(String::as_str).collect();
        keys.sort_unstable();
        for key in keys {
            if let Some(references) = names.get(key) {
                self.tell_undefined(references);
            }
            if let Some((kind, span)) = unused.get(key) {
                self.tell_unused(kind, *span);
            }
        }
    }

    fn tell_undefined(&mut self, references: &[Undefined]) {
        let Some((Undefined { kind, name, span }, further)) = references.split_first() else {
            return;
        };
        let known = self.names_of(|symbol| symbol.kind() == *kind);
        let near = nearest(name, known.iter().map(String::as_str));
        let message = format!("Undefined {kind} {name}, first reference:");
        let diagnostic = self.report.error(*span, message);
        diagnostic.help = near.map(|near| format!("did you mean `{near}`?"));
        diagnostic.related =
            further.iter().map(|one| (one.span, "Referenced here as well".into())).collect();
    }

    fn tell_unused(&mut self, kind: &str, span: Span) {
        let message = format!("Unused {kind} {}, defined:", self.report.sources.text(span));
        let severity =
            if self.settings.unused_is_error { Severity::Error } else { Severity::Warning };
        let diagnostic = self.report.error(span, message);
        diagnostic.severity = severity;
        diagnostic.help = Some("remove it, or use it".into());
    }

    /// What is declared and named nowhere, by name: its kind, and where.
    fn unused(&self) -> HashMap<String, (&'static str, Span)> {
        let default = self.program.default_backend;
        let entries = self.symbols.iter().filter(|(_, entry)| !entry.used && !entry.is_builtin);
        entries
            .filter(|(name, entry)| match entry.symbol {
                Symbol::Backend(index) => default != BackendRef::Backend(index),
                Symbol::Acl(_) => true,
                Symbol::Probe(_) => &***name != "default probe",
                Symbol::Sub(_) => !name.starts_with("vcl_"),
                Symbol::Module(_) | Symbol::Object(_) => false,
            })
            .map(|(name, entry)| (name.to_string(), (entry.symbol.kind(), entry.span)))
            .collect()
    }
}
