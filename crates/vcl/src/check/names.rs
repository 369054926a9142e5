//! What names in expressions stand for: variables, header fields, and what a policy declares. The
//! longest beginning of a path that is a name counts, and what is left are properties of it.

use super::expressions::Typed;
use super::uses::Access;
use super::{Checker, Symbol, words};
use crate::diagnostic::nearest;
use crate::syntax::{Name, Path};
use freshet_http::fields::is_token_byte;
use freshet_policy::program::{BackendRef, Expr, StorageFact, Text, Value};
use freshet_policy::source::Span;
use freshet_policy::types::{State, Type};
use freshet_policy::variables::{self, Message};

/// Bytes of a header field's name.
const HEADER_NAME_BYTES_MAX: usize = 126;

impl Checker<'_> {
    /// The header field a path names; the outer `None` is a mistake that was reported.
    pub(super) fn field(&mut self, path: &Path) -> Option<Option<(Message, u32)>> {
        let [message, http, name] = &path.names[..] else { return Some(None) };
        if !http.text.eq_ignore_ascii_case("http") {
            return Some(None);
        }
        let known = |known: &Message| known.name().eq_ignore_ascii_case(&message.text);
        let Some(message) = Message::ALL.into_iter().find(known) else { return Some(None) };
        if name.text.len() > HEADER_NAME_BYTES_MAX {
            let start: String = name.text.chars().take(20).collect();
            self.error(name.span, format!("HTTP header ({start}..) is too long."));
            return None;
        }
        if let Some(bad) = name.text.chars().find(|c| !u8::try_from(*c).is_ok_and(is_token_byte)) {
            let shown = bad.escape_default();
            self.error(name.span, format!("Invalid character '{shown}' in header name."));
            return None;
        }
        if name.text.is_empty() {
            self.error(name.span, "A header field without a name");
            return None;
        }
        Some(Some((message, self.header(message, &name.text))))
    }

    /// A path as a value: what its names stand for, with the properties behind it.
    pub(super) fn path(&mut self, path: &Path, wanted: Type) -> Typed {
        if let ([name], Type::String) = (&path.names[..], wanted)
            && let Some(Symbol::Object(index)) = self.symbol(&name.text)
        {
            let kind = self.program.objects[index as usize].kind;
            self.error(path.span, format!("Cannot convert {kind} to STRING."));
            return None;
        }
        let Some((found, rest)) = self.longest(path, wanted)? else {
            if self.refers(path, wanted).is_none() {
                self.unknown(path);
            }
            return None;
        };
        match rest {
            [] => Some(found),
            [property, more @ ..] => self.property(found, property, more),
        }
    }

    fn property(&mut self, (value, of): (Expr, Type), property: &Name, more: &[Name]) -> Typed {
        let fact = match (&value, &*property.text.to_ascii_lowercase()) {
            (Expr::Constant(Value::Stevedore(Some(storage))), "free_space") => {
                Some((*storage, StorageFact::FreeSpace, Type::Bytes))
            }
            (Expr::Constant(Value::Stevedore(Some(storage))), "used_space") => {
                Some((*storage, StorageFact::UsedSpace, Type::Bytes))
            }
            (Expr::Constant(Value::Stevedore(Some(storage))), "happy") => {
                Some((*storage, StorageFact::Happy, Type::Bool))
            }
            _ => None,
        };
        let Some((storage, what, fact_of)) = fact else {
            self.no_property(property, of);
            return None;
        };
        let value = Expr::Storage { storage, what };
        match more {
            [] => Some((value, fact_of)),
            [property, ..] => {
                self.no_property(property, fact_of);
                None
            }
        }
    }

    /// What the longest beginning of a path stands for, and the names behind it. The outer `None`
    /// is a mistake that was reported.
    #[expect(clippy::type_complexity, reason = "a value with its type, and what is left")]
    pub(super) fn longest<'p>(
        &mut self,
        path: &'p Path,
        wanted: Type,
    ) -> Option<Option<((Expr, Type), &'p [Name])>> {
        for len in (1..=path.names.len()).rev() {
            let (names, rest) = path.names.split_at(len);
            let span = names[0].span.to(names[len - 1].span);
            let start = Path { names: names.to_vec(), quoted: path.quoted, span };
            if let Some(found) = self.named(&start, wanted)? {
                return Some(Some((found, rest)));
            }
        }
        Some(None)
    }

    fn named(&mut self, path: &Path, wanted: Type) -> Option<Option<(Expr, Type)>> {
        if let Some((message, header)) = self.field(path)? {
            self.used(&path.text(), Access::Read, message.read(), path.span);
            return Some(Some(match wanted {
                Type::Header => (Expr::Constant(Value::Header(message, header)), Type::Header),
                _ => (Expr::Field { message, header }, Type::String),
            }));
        }
        let key = path.key();
        match &*key {
            "true" => return Some(Some((Expr::Constant(Value::Bool(true)), Type::Bool))),
            "false" => return Some(Some((Expr::Constant(Value::Bool(false)), Type::Bool))),
            "default" if wanted == Type::Backend => {
                let backend = self.program.default_backend;
                return Some(Some((Expr::Constant(Value::Backend(backend)), Type::Backend)));
            }
            "default" => {
                self.error(path.span, "Symbol 'default' is a reserved word.");
                return None;
            }
            _ => {}
        }
        if let Some(definition) = variables::find(&key) {
            return self.variable(definition, path.span).map(Some);
        }
        if let Some(storage) = self.storage(path) {
            let storage = Expr::Constant(Value::Stevedore(Some(storage)));
            return Some(Some((storage, Type::Stevedore)));
        }
        let Some(symbol) = self.symbol(&key) else { return Some(None) };
        Some(Some(match symbol {
            Symbol::Backend(index) => {
                let backend = BackendRef::Backend(index);
                (Expr::Constant(Value::Backend(backend)), Type::Backend)
            }
            Symbol::Acl(index) => (Expr::Constant(Value::Acl(index)), Type::Acl),
            // What has no text is its name where one is wanted.
            Symbol::Probe(_) | Symbol::Object(_) if wanted == Type::String => {
                let index = self.intern(path.text().as_bytes());
                (Expr::Constant(Value::Text(Text::Constant(index))), Type::String)
            }
            Symbol::Probe(index) => (Expr::Constant(Value::Probe(index)), Type::Probe),
            Symbol::Sub(_) if let Some(kind) = self.taken_for(&key, path.span, wanted) => {
                let span = self.known(&key).map_or(path.span, |entry| entry.span);
                let name = path.text();
                self.error(span, format!("Symbol '{name}' has wrong type ({kind}), expected sub:"));
                return None;
            }
            Symbol::Sub(_) => {
                let name = path.text();
                let message = format!("Symbol '{name}' can only be used as a SUB expression");
                self.error_with(path.span, message, format!("write `call {name};`"));
                return None;
            }
            Symbol::Object(index) => {
                let kind = self.program.objects[index as usize].kind;
                let message = format!("Expression has type {kind}, expected {wanted}");
                let help = format!("call a method of it, as `{}.backend()`", path.text());
                self.error_with(path.span, message, help);
                return None;
            }
            // Its functions are names of their own.
            Symbol::Module(_) => return Some(None),
        }))
    }

    fn variable(&mut self, definition: &'static variables::Definition, span: Span) -> Typed {
        if !self.has_version(definition, span) {
            return None;
        }
        self.used(definition.name, Access::Read, definition.read, span);
        self.program.reads[definition.variable as usize] = true;
        Some((Expr::Variable(definition.variable), definition.of))
    }

    fn storage(&self, path: &Path) -> Option<u32> {
        let [storage, name] = &path.names[..] else { return None };
        if !storage.text.eq_ignore_ascii_case("storage") {
            return None;
        }
        let known = |known: &String| known.eq_ignore_ascii_case(&name.text);
        let found = self.settings.storages.iter().position(known)?;
        u32::try_from(found).ok()
    }

    /// A name that is taken to be declared further below, as those of some types may be, and was
    /// not found there either.
    fn refers(&mut self, path: &Path, wanted: Type) -> Option<()> {
        let kind = match wanted {
            Type::Acl => "acl",
            Type::Backend => "backend",
            Type::Probe => "probe",
            _ => return None,
        };
        if path.names.len() > 1 {
            return None;
        }
        if path.text().starts_with("vcl_") {
            self.error(path.span, "Symbols named 'vcl_*' are reserved.");
            return Some(());
        }
        self.undefined(kind, &path.text(), path.span);
        Some(())
    }

    /// What a name is taken for here, where it is declared below only and as something else: that is a mistake
    /// of the declaration.
    fn taken_for(&self, name: &str, span: Span, wanted: Type) -> Option<&'static str> {
        let kind = match wanted {
            Type::Acl => "acl",
            Type::Backend => "backend",
            Type::Probe => "probe",
            _ => return None,
        };
        let declared = self.known(name)?.span;
        (declared.file == span.file && declared.start > span.start).then_some(kind)
    }

    /// What a name is that is declared above, or that nobody has to declare.
    /// In 4.0 labels are names apart, and others are not looked at.
    pub(super) fn kind_above(&self, name: &str, span: Span) -> Option<&'static str> {
        if self.program.version < 41 {
            return None;
        }
        if State::of_subroutine(name).is_some() {
            return Some("sub");
        }
        if variables::find(name).is_some() {
            return Some("var");
        }
        let entry = self.known(name)?;
        let is_above = entry.span.file != span.file || entry.span.start < span.start;
        is_above.then(|| entry.symbol.kind())
    }

    /// Reports a path that names nothing.
    pub(super) fn unknown(&mut self, path: &Path) {
        let name = path.text();
        let first = path.names.first().map_or("", |name| &*name.text).to_owned();
        let declared = self.known(&first).filter(|entry| entry.is_ready);
        let kind = words::kind_of(&first).or_else(|| declared.map(|entry| entry.symbol.kind()));
        if let (Some(kind), 1) = (kind, path.names.len()) {
            let message = format!("Symbol '{first}' type ({kind}) can not be used in expression.");
            self.error(path.span, message);
            return;
        }
        let symbols = self.names_of(|_| true);
        let help = if self.is_unimported(&first) {
            Some(format!("write `import {first};` above"))
        } else {
            let known = variables::VARIABLES.iter().map(|definition| definition.name);
            let known = known.chain(symbols.iter().map(String::as_str));
            nearest(&name, known).map(|near| format!("did you mean `{near}`?"))
        };
        self.report.error(path.span, format!("Symbol not found: '{name}'")).help = help;
    }

    fn is_unimported(&self, name: &str) -> bool {
        let known = self.symbols.get(&*name.to_ascii_lowercase());
        known.is_none_or(|entry| !entry.is_ready) && freshet_policy::modules::find(name).is_some()
    }
}
