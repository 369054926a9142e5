//! Statements.

use super::calls::{is_absent, is_whole};
use super::uses::Access;
use super::{Checker, Symbol, words};
use crate::diagnostic::nearest;
use crate::syntax::{self, Argument, Expression, ExpressionKind, Name, Path};
use freshet_policy::modules;
use freshet_policy::program::{Arithmetic, Block, Expr, Statement, StatementKind, Value};
use freshet_policy::source::Span;
use freshet_policy::types::{Action, State, States, Type};
use freshet_policy::variables::{Definition, Message, Variable, Versions};

/// Where something can be written to.
enum Target {
    Variable(&'static Definition),
    Field(Message, u32),
}

/// Whether a path is that of all fields of a message.
fn is_message(path: &Path) -> bool {
    let [message, http] = &path.names[..] else { return false };
    let known = |known: Message| known.name().eq_ignore_ascii_case(&message.text);
    http.text.eq_ignore_ascii_case("http") && Message::ALL.into_iter().any(known)
}

impl Checker<'_> {
    pub(super) fn define_sub(&mut self, name: &Name, body: &[syntax::Statement]) {
        let Some(Symbol::Sub(index)) = self.known(&name.text).map(|entry| entry.symbol) else {
            return;
        };
        self.current = index as usize;
        let block = self.block(body);
        self.program.subs[index as usize].pieces.push(block);
    }

    fn block(&mut self, body: &[syntax::Statement]) -> Block {
        body.iter().filter_map(|statement| self.statement(statement)).collect()
    }

    fn statement(&mut self, statement: &syntax::Statement) -> Option<Statement> {
        let span = statement.span;
        let kind = match &statement.kind {
            syntax::StatementKind::Block(body) => StatementKind::Block(self.block(body)),
            syntax::StatementKind::If { arms, otherwise } => {
                let mut compiled = Vec::new();
                for (condition, body) in arms {
                    let condition = self.expect(condition, Type::Bool);
                    let body = self.block(body);
                    compiled.push((condition, body));
                }
                let otherwise = otherwise.as_ref().map(|body| self.block(body));
                let arms: Option<Vec<_>> = compiled
                    .into_iter()
                    .map(|(condition, body)| condition.map(|condition| (condition, body)))
                    .collect();
                StatementKind::If { arms: arms?.into(), otherwise: otherwise.unwrap_or_default() }
            }
            syntax::StatementKind::Set { target, operator, operator_span, value } => {
                self.set(target, operator, *operator_span, value)?
            }
            syntax::StatementKind::Unset(path) => self.unset(path)?,
            syntax::StatementKind::Call(path) => self.call_sub(path)?,
            syntax::StatementKind::Leave => StatementKind::Leave,
            syntax::StatementKind::Return { action, arguments } => {
                self.returned(action, arguments.as_deref(), span)?
            }
            syntax::StatementKind::New { name, constructor, arguments } => {
                self.new_object(name, constructor, arguments)?
            }
            syntax::StatementKind::Perform(expression) => {
                let ExpressionKind::Call { function, arguments } = &expression.kind else {
                    return None;
                };
                let (call, _) = self.called(function, arguments, expression.span)?;
                StatementKind::Perform(call)
            }
        };
        Some(Statement { kind, span })
    }

    fn target(&mut self, path: &Path) -> Option<Target> {
        if let Some((message, header)) = self.field(path)? {
            return Some(Target::Field(message, header));
        }
        let name = path.text();
        let Some(definition) = freshet_policy::variables::find(&name) else {
            if is_message(path) {
                let message = format!("Symbol '{name}' has wrong type (none), expected var:");
                self.error_with(path.span, message, format!("name a field: `{name}.Field`"));
            } else {
                self.unknown(path);
            }
            return None;
        };
        if !self.has_version(definition, path.span) {
            return None;
        }
        Some(Target::Variable(definition))
    }

    /// Whether the policy's version has a variable; says so where not.
    pub(super) fn has_version(&mut self, definition: &Definition, span: Span) -> bool {
        let note = match definition.versions {
            Versions::From41 if self.program.version < 41 => {
                "(Only available when 4.1 <= VCL syntax)"
            }
            Versions::Until40 if self.program.version > 40 => {
                "(Only available when VCL syntax <= 4.0)"
            }
            _ => return true,
        };
        self.error(span, format!("Symbol not found: '{}' {note}", definition.name));
        false
    }

    fn set(
        &mut self,
        target: &Path,
        operator: &'static str,
        operator_span: Span,
        value: &Expression,
    ) -> Option<StatementKind> {
        match self.target(target) {
            Some(Target::Field(message, header)) => {
                self.written(&target.text(), message.write(), message.read(), target.span);
                if !matches!(operator, "=" | "+=") {
                    let message = format!("Expected '=' got '{operator}'");
                    self.error(operator_span, message);
                    return None;
                }
                let mut value = self.expect(value, Type::String)?;
                if operator == "+=" {
                    let before = Expr::Field { message, header };
                    value = Expr::Concat([before, value].into());
                }
                Some(StatementKind::SetField { message, header, value })
            }
            Some(Target::Variable(definition)) => {
                let written =
                    if self.program.version < 41 { definition.write_40 } else { definition.write };
                self.written(definition.name, written, definition.read, target.span);
                self.set_variable(definition, operator, operator_span, value)
            }
            None => {
                // The value is looked at for its own mistakes, and to know what it uses.
                let _ = self.infer(value, Type::String);
                None
            }
        }
    }

    fn set_variable(
        &mut self,
        definition: &'static Definition,
        operator: &'static str,
        operator_span: Span,
        value: &Expression,
    ) -> Option<StatementKind> {
        let variable = definition.variable;
        self.program.includes |=
            matches!(variable, Variable::BerespDoEsi | Variable::BerespFilters);
        let arithmetic = match operator {
            "=" => None,
            "+=" => Some(Arithmetic::Add),
            "-=" => Some(Arithmetic::Subtract),
            "*=" => Some(Arithmetic::Multiply),
            _ => Some(Arithmetic::Divide),
        };
        use Arithmetic as A;
        let wanted = match (definition.of, arithmetic) {
            (of, None) => of,
            (Type::Int, _) => Type::Int,
            (Type::Duration, Some(A::Add | A::Subtract)) => Type::Duration,
            (Type::Duration, _) => Type::Real,
            (Type::Time, Some(A::Add | A::Subtract)) => Type::Duration,
            (Type::String, Some(A::Add)) => Type::String,
            (Type::Body, Some(A::Add)) => Type::Body,
            _ => {
                let message = format!("Expected '=' got '{operator}'");
                self.error(operator_span, message);
                return None;
            }
        };
        let value = self.expect(value, wanted)?;
        let value = match (arithmetic, definition.of) {
            (None, _) => value,
            (Some(_), Type::Body) => return Some(StatementKind::AppendBody(value)),
            (Some(_), Type::String) => Expr::Concat([Expr::Variable(variable), value].into()),
            (Some(operator), _) => {
                Expr::Arithmetic { operator, operands: Box::new([Expr::Variable(variable), value]) }
            }
        };
        self.program.writes_timeouts |= matches!(
            variable,
            Variable::SessTimeoutIdle
                | Variable::SessTimeoutLinger
                | Variable::SessSendTimeout
                | Variable::SessIdleSendTimeout
        );
        Some(StatementKind::Set { variable, value })
    }

    fn unset(&mut self, path: &Path) -> Option<StatementKind> {
        match self.target(path)? {
            Target::Field(message, header) if message.write() != States::NONE => {
                self.used(&path.text(), Access::Unset, message.write(), path.span);
                Some(StatementKind::UnsetField { message, header })
            }
            Target::Field(..) => {
                self.error(path.span, format!("Variable cannot be unset.\n'{}'", path.text()));
                None
            }
            Target::Variable(definition) if definition.unset != States::NONE => {
                self.used(definition.name, Access::Unset, definition.unset, path.span);
                Some(StatementKind::Unset(definition.variable))
            }
            Target::Variable(definition) => {
                let message = format!("Variable cannot be unset.\n'{}'", definition.name);
                self.error(path.span, message);
                None
            }
        }
    }

    fn call_sub(&mut self, path: &Path) -> Option<StatementKind> {
        let name = path.text();
        match self.symbol(&name) {
            Some(Symbol::Sub(index)) => {
                self.uses[self.current].calls.push((index, path.span));
                Some(StatementKind::Call(index))
            }
            Some(other) => {
                let kind = other.kind();
                let message = format!(
                    "Symbol '{name}' has wrong type ({kind}), expected sub:\nName {name} must \
                     have type 'sub'."
                );
                self.error(path.span, message);
                None
            }
            None if words::kind_of(&name).is_some() || self.field(path)?.is_some() => {
                if let Some((_, of)) = self.path(path, Type::Sub) {
                    self.error(path.span, format!("Expression has type {of}, expected SUB"));
                }
                None
            }
            None if name.starts_with("vcl_") => {
                self.error(path.span, "Symbols named 'vcl_*' are reserved.");
                None
            }
            None => {
                self.undefined("sub", &name, path.span);
                None
            }
        }
    }

    fn returned(
        &mut self,
        name: &Name,
        arguments: Option<&[Argument]>,
        span: Span,
    ) -> Option<StatementKind> {
        let Some(action) = Action::ALL.into_iter().find(|action| action.name() == &*name.text)
        else {
            let near = nearest(&name.text, Action::ALL.iter().map(|action| action.name()));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message = format!("Expected return action name.\nGot '{}'", name.text);
            self.report.error(name.span, message).help = help;
            return None;
        };
        self.uses[self.current].returns.push((action, name.span));
        let given = arguments.unwrap_or(&[]);
        let is_whole = is_whole(given);
        let arguments: Vec<_> = given.iter().filter(|one| !is_absent(one)).collect();
        if let (Action::Pass, Some(first)) = (action, arguments.first()) {
            let states = States::of(&[State::BackendResponse]);
            self.used("pass(DURATION)", Access::Read, states, first.value.span);
        }
        let types: &[Type] = match action {
            Action::Synth | Action::Error => &[Type::Int, Type::String],
            Action::Fail => &[Type::String],
            Action::Pass => &[Type::Duration],
            Action::Vcl if !is_whole => return None,
            Action::Vcl => return self.handed_over(given, span),
            _ => &[],
        };
        let mut compiled = Vec::new();
        for (argument, of) in arguments.iter().zip(types) {
            compiled.push(self.expect(&argument.value, *of)?);
        }
        if arguments.len() > types.len() {
            let message = if types.is_empty() {
                "Arguments not allowed.".to_owned()
            } else {
                format!(
                    "Too many arguments\nExpected ')' got ','\n{} takes {}",
                    action.name(),
                    types.len()
                )
            };
            self.error(arguments[types.len()].value.span, message);
            return None;
        }
        if action == Action::Synth && given.is_empty() {
            self.error_with(
                name.span,
                "Missing argument.\nExpected '(' got ')'",
                "write `synth(404)` or `synth(404, \"Not here\")`",
            );
            return None;
        }
        is_whole.then(|| StatementKind::Return { action, arguments: compiled.into() })
    }

    /// `return (vcl(label))`: the label's number travels as a whole number.
    fn handed_over(&mut self, arguments: &[Argument], span: Span) -> Option<StatementKind> {
        let [Argument { value: Expression { kind: ExpressionKind::Path(label), .. }, .. }] =
            arguments
        else {
            self.error_with(span, "Expected a label", "write `return (vcl(label));`");
            return None;
        };
        let name: Box<str> = label.text().into();
        if let Some(kind) = self.kind_above(&name, label.span) {
            let message = format!("Symbol '{name}' has wrong type ({kind}), expected vcl:");
            self.error(label.span, message);
            return None;
        }
        let is_known = |names: &Vec<String>| names.iter().any(|known| **known == *name);
        if !self.settings.labels.as_ref().is_none_or(is_known) {
            let help = "a label is made by `vcl.label`, before the policy that goes to it";
            self.error_with(label.span, format!("Symbol not found: '{name}'"), help);
            return None;
        }
        let known = self.program.labels.iter().position(|known| *known == name);
        let index = known.unwrap_or_else(|| {
            self.program.labels.push(name);
            self.program.labels.len() - 1
        });
        let arguments = [Expr::Constant(Value::Int(index as i64))].into();
        Some(StatementKind::Return { action: Action::Vcl, arguments })
    }

    /// The kind of object a path constructs.
    pub(super) fn constructor(&mut self, path: &Path) -> Option<&'static str> {
        let first = &path.names.first()?.text;
        let Some(Symbol::Module(module)) = self.known(first).map(|entry| entry.symbol) else {
            // What is no class is not found, whatever else has the name.
            let help = "write `new name = module.class();`";
            self.error_with(path.span, format!("Symbol not found: '{}'", path.text()), help);
            return None;
        };
        let member = &*path.names.get(1)?.text;
        let kind = module.kinds().find(|kind| kind.rsplit('.').next() == Some(member));
        if kind.is_none() {
            let near = nearest(member, module.kinds().filter_map(|kind| kind.rsplit('.').next()));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message = format!("Symbol not found: '{}'", path.text());
            self.report.error(path.span, message).help = help;
        }
        kind
    }

    /// The module a path begins with, and whether more follows.
    pub(super) fn module_member(
        &mut self,
        path: &Path,
    ) -> Option<(&'static modules::Module, bool)> {
        let first = &path.names.first()?.text;
        match self.symbol(first) {
            Some(Symbol::Module(module)) => Some((module, path.names.len() > 1)),
            _ => {
                let help = modules::find(first)
                    .map(|module| format!("write `import {};` above", module.name));
                let message = format!("Symbol not found: '{}'", path.text());
                self.report.error(path.span, message).help = help;
                None
            }
        }
    }

    fn new_object(
        &mut self,
        name: &Name,
        constructor: &Path,
        arguments: &[Argument],
    ) -> Option<StatementKind> {
        self.used("new", Access::Read, States::of(&[State::Init]), name.span);
        let known =
            |slot: &freshet_policy::program::ObjectSlot| slot.name.eq_ignore_ascii_case(&name.text);
        let index = self.program.objects.iter().position(known)?;
        let (module, _) = self.module_member(constructor)?;
        let member = &constructor.names.get(1)?.text;
        let function = module.function(&format!("new {member}"))?;
        let arguments = self.arguments(function, arguments, constructor.span)?;
        let object = u32::try_from(index).ok()?;
        self.ready(&name.text);
        Some(StatementKind::New { object, constructor: function, arguments })
    }
}
