//! Calls of functions and methods: which one, and its arguments.

use super::uses::Access;
use super::{Checker, Symbol};
use crate::diagnostic::nearest;
use crate::syntax::{Argument, ExpressionKind, Path};
use freshet_policy::modules::{self, Function, Parameter, Signature};
use freshet_policy::program::{Call, Expr, Text, Value};
use freshet_policy::runtime::ARGUMENTS_MAX;
use freshet_policy::source::Span;
use freshet_policy::types::Type;

impl Checker<'_> {
    /// A call in an expression: of a function, or of a method of what stands before it, as
    /// `req.url.upper()`.
    pub(super) fn call(
        &mut self,
        path: &Path,
        arguments: &[Argument],
        wanted: Type,
        span: Span,
    ) -> Option<(Expr, Type)> {
        let first = path.names.first()?;
        let is_object =
            matches!(self.known(&first.text).map(|e| e.symbol), Some(Symbol::Object(_)));
        if path.names.len() > 1
            && !is_object
            && let Some((found, rest)) = self.longest(path, Type::String)?
        {
            return match rest {
                [method] if arguments.is_empty() => self.method(found, method),
                [property, ..] => {
                    self.no_property(property, found.1);
                    None
                }
                [] => {
                    let at = Span { start: path.span.end, end: path.span.end + 1, ..path.span };
                    self.error(at, "Expected ';' got '('");
                    None
                }
            };
        }
        let (call, of) = self.called(path, arguments, span)?;
        if of == Type::Void {
            let message = format!("Function returns VOID:\nwhere {wanted} is wanted");
            self.error(path.span, message);
            return None;
        }
        Some(match of {
            Type::Strands => (call, Type::String),
            Type::Header if wanted != Type::Header => (Expr::Text(Box::new(call)), Type::String),
            of => (call, of),
        })
    }

    /// A call of a function and the type of what it returns.
    pub(super) fn called(
        &mut self,
        path: &Path,
        arguments: &[Argument],
        span: Span,
    ) -> Option<(Expr, Type)> {
        let (function, object) = self.callee(path)?;
        if path.names.len() == 1 {
            // Functions of modules say so when they run.
            self.used(&path.text(), Access::Read, function.states, path.span);
        }
        let mut arguments = self.arguments(function, arguments, span)?;
        let of = Signature::parse(function.signature).returns;
        let name = Signature::name_of(function.signature);
        if name == "hash_data" {
            arguments = in_pieces(arguments);
        }
        self.program.rolls_back |= name == "rollback";
        self.program.keeps_body |= name == "cache_req_body";
        self.program.controls_connections |=
            name == "set_ip_tos" || path.names.first().is_some_and(|name| &*name.text == "tcp");
        let call = Call { function, object, arguments };
        Some((Expr::Call(Box::new(call)), of))
    }

    fn callee(&mut self, path: &Path) -> Option<(&'static Function, Option<u32>)> {
        let first = path.names.first()?;
        if path.names.len() == 1 {
            let known = modules::BUILTIN.functions;
            if let Some(function) = modules::BUILTIN.function(&first.text) {
                return Some((function, None));
            }
            if matches!(self.known(&first.text).map(|e| e.symbol), Some(Symbol::Sub(_))) {
                let message =
                    format!("Symbol '{}' can only be used as a SUB expression", first.text);
                self.error_with(first.span, message, format!("write `call {};`", first.text));
                return None;
            }
            if matches!(self.known(&first.text).map(|e| e.symbol), Some(Symbol::Object(_))) {
                let at = Span { start: path.span.end, end: path.span.end + 1, ..path.span };
                self.error(at, "Expected '.' got '('");
                return None;
            }
            let near = nearest(&first.text, known.iter().map(|f| Signature::name_of(f.signature)));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message = format!("Symbol not found: '{}'", first.text);
            self.report.error(path.span, message).help = help;
            return None;
        }
        let symbol = self.symbol(&first.text);
        let (module, object, prefix) = match symbol {
            Some(Symbol::Module(module)) => (module, None, String::new()),
            Some(Symbol::Object(index)) => {
                let kind = self.program.objects.get(index as usize)?.kind;
                let (module, class) = kind.split_once('.')?;
                (modules::find(module)?, Some(index), format!("{class}."))
            }
            _ => {
                self.module_member(path)?;
                return None;
            }
        };
        let rest: Vec<_> = path.names[1..].iter().map(|name| &*name.text).collect();
        let member = rest.join(".");
        if let Some(function) = module.function(&format!("{prefix}{member}")) {
            if object.is_none() && member.contains('.') {
                let help =
                    format!("make an object in vcl_init: new name = {}.{}()", first.text, rest[0]);
                let message = "Syntax error.\nWhile compiling function call:";
                self.error_with(path.span, message, help);
                return None;
            }
            return Some((function, object));
        }
        let known: Vec<_> = module
            .functions
            .iter()
            .map(|function| Signature::name_of(function.signature))
            .filter_map(|name| name.strip_prefix(&*prefix))
            .filter(|name| !name.contains(['.', ' ']))
            .collect();
        let help = nearest(&member, known.iter().copied()).map_or_else(
            || format!("there are {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        self.error_with(path.span, format!("Symbol not found: '{}'", path.text()), help);
        None
    }

    /// The arguments in the order of the parameters, as far as they are those of the function; what is not given is [`Value::None`] or the
    /// parameter's default.
    pub(super) fn arguments(
        &mut self,
        function: &'static Function,
        given: &[Argument],
        span: Span,
    ) -> Option<Box<[Expr]>> {
        let signature = Signature::parse(function.signature);
        let parameters = &signature.parameters;
        let (slots, is_whole) = self.places(function, parameters, given);
        let mut out = Vec::with_capacity(parameters.len());
        let mut complete = is_whole;
        for (number, (parameter, slot)) in (1..).zip(parameters.iter().zip(slots)) {
            match (slot, parameter.default) {
                (Some(argument), _) => {
                    let before = self.report.diagnostics.len();
                    match self.argument(parameter, argument) {
                        Some(value) => out.push(value),
                        None => {
                            complete = false;
                            self.name_argument(parameter, before);
                        }
                    }
                }
                (None, _) if !is_whole => {}
                (None, Some(text)) => out.push(self.default_value(parameter, text)),
                (None, None) if parameter.optional => out.push(Expr::Constant(Value::None)),
                (None, None) => {
                    let message = if parameter.name.is_empty() {
                        format!("Argument {number} missing\nMissing argument.")
                    } else {
                        format!("Argument '{}' missing\nMissing argument.", parameter.name)
                    };
                    let end = Span { start: span.end.saturating_sub(1), ..span };
                    self.error_with(end, message, format!("it is {}", function.signature));
                    return None;
                }
            }
        }
        complete.then(|| out.into())
    }

    /// Which argument is which parameter's, and whether that could be said of all of them.
    fn places<'g>(
        &mut self,
        function: &'static Function,
        parameters: &[Parameter],
        given: &'g [Argument],
    ) -> (Vec<Option<&'g Argument>>, bool) {
        let mut slots: Vec<Option<&'g Argument>> = vec![None; parameters.len()];
        let mut next = 0;
        let mut named = false;
        for argument in given.iter().filter(|argument| !is_absent(argument)) {
            if named && argument.name.is_none() {
                self.spare(argument, "arguments with names come last");
                return (slots, false);
            }
            named |= argument.name.is_some();
            let at = match &argument.name {
                Some(name) => {
                    let found = parameters.iter().position(|one| one.name == &*name.text);
                    if found.is_none() {
                        let near = nearest(&name.text, parameters.iter().map(|one| one.name));
                        let help = modules::instead_of_argument(function, &name.text)
                            .map(str::to_owned)
                            .or_else(|| near.map(|near| format!("did you mean `{near}`?")));
                        let message = format!("Unknown argument '{}'", name.text);
                        self.report.error(name.span, message).help = help;
                        return (slots, false);
                    }
                    found
                }
                // One that could be several words of an ENUM takes the first place it fits.
                None => {
                    while slots.get(next).is_some_and(|slot| {
                        slot.is_some() || self.skips(&parameters[next], argument)
                    }) {
                        next += 1;
                    }
                    (next < parameters.len()).then_some(next)
                }
            };
            let Some(at) = at else {
                let help = match parameters.len() {
                    0 => "it takes no arguments".to_owned(),
                    most => format!("it takes {most} at most"),
                };
                self.spare(argument, &help);
                return (slots, false);
            };
            if slots[at].is_some() {
                let message = format!("Argument '{}' already used", parameters[at].name);
                self.error(argument.value.span, message);
                return (slots, false);
            }
            slots[at] = Some(argument);
        }
        (slots, is_whole(given))
    }

    /// Says that a value is for no parameter: where it begins with a name, one is missed that is called so.
    fn spare(&mut self, argument: &Argument, help: &str) {
        let span = argument.value.span;
        let got = self.first_token(span);
        let message = if got.starts_with(|c: char| c.is_ascii_alphabetic()) {
            format!("Unknown argument '{got}'")
        } else {
            format!("Expected ')' got '{got}'")
        };
        self.error_with(span, message, help);
    }

    /// Adds to a mistake that was found behind the first `before` for which parameter the value was meant.
    fn name_argument(&mut self, parameter: &Parameter, before: usize) {
        if let Some(last) = self.report.diagnostics.get_mut(before..).and_then(<[_]>::last_mut) {
            let name =
                if parameter.name.is_empty() { "(unnamed argument)" } else { parameter.name };
            let note = format!("\nExpected argument: {} {name}", parameter.of);
            last.message.push_str(&note);
        }
    }

    /// Whether a positional argument is not for this parameter: an ENUM with a default takes only
    /// its own words.
    fn skips(&self, parameter: &Parameter, argument: &Argument) -> bool {
        parameter.of == Type::Enum
            && parameter.default.is_some()
            && match &argument.value.kind {
                // A word in capitals is meant as one of an ENUM's, right or wrong.
                ExpressionKind::Path(path) => {
                    let text = path.text();
                    text.bytes().any(|byte| byte.is_ascii_lowercase() || byte == b'.')
                        && !parameter.words.iter().any(|word| *word == text)
                }
                _ => true,
            }
    }

    fn argument(&mut self, parameter: &Parameter, argument: &Argument) -> Option<Expr> {
        let value = &argument.value;
        match parameter.of {
            Type::Enum => {
                let text = match &value.kind {
                    ExpressionKind::Path(path) => path.text(),
                    _ => String::new(),
                };
                let word = parameter.words.iter().find(|word| **word == text);
                if word.is_none() {
                    let words = parameter.words.join(", ");
                    let message = format!(
                        "Wrong enum value.  Expected one of:\n\t{}",
                        parameter.words.join("\n\t")
                    );
                    let near = nearest(&text, parameter.words.iter().copied());
                    self.report.error(value.span, message).help = near.map_or_else(
                        || Some(format!("one of {words}")),
                        |near| Some(format!("did you mean `{near}`?")),
                    );
                }
                word.map(|word| Expr::Constant(Value::Word(word)))
            }
            of => self.expect(value, of),
        }
    }

    fn default_value(&mut self, parameter: &Parameter, text: &'static str) -> Expr {
        let number = || text.parse::<f64>().unwrap_or(0.0);
        Expr::Constant(match parameter.of {
            Type::Bool => Value::Bool(matches!(text, "1" | "true")),
            Type::Int => Value::Int(text.parse().unwrap_or(0)),
            Type::Bytes => Value::Bytes(text.parse().unwrap_or(0)),
            Type::Real => Value::Real(number()),
            Type::Duration => Value::Duration(number()),
            Type::Enum => Value::Word(text),
            Type::String | Type::Strands => {
                Value::Text(Text::Constant(self.intern(text.as_bytes())))
            }
            _ => Value::None,
        })
    }
}

/// Whether all arguments of a call were read.
pub(super) fn is_whole(arguments: &[Argument]) -> bool {
    !arguments.iter().any(is_absent)
}

/// Whether nothing was read of an argument.
pub(super) fn is_absent(argument: &Argument) -> bool {
    matches!(argument.value.kind, ExpressionKind::Broken(None))
}

/// The texts an argument is joined of, where there are no more than a call can have: which of them are
/// set is part of a hash.
fn in_pieces(arguments: Box<[Expr]>) -> Box<[Expr]> {
    match <[Expr; 1]>::try_from(arguments.into_vec()) {
        Ok([Expr::Concat(pieces)]) if pieces.len() <= ARGUMENTS_MAX => pieces,
        Ok(one) => Box::new(one),
        Err(others) => others.into(),
    }
}
