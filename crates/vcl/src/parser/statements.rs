//! What stands in a subroutine.

use super::{NO_C, Parser, Takes};
use crate::diagnostic::nearest;
use crate::lexer::{Kind, Token};
use crate::syntax::{Argument, Expression, ExpressionKind, Path, Statement, StatementKind};
use freshet_policy::source::Span;
use freshet_policy::types::State;
use freshet_policy::variables::{self, Message};

const WORDS: [&str; 9] =
    ["call", "else", "if", "new", "return", "set", "unset", "synthetic", "hash_data"];
const OPERATORS: [&str; 5] = ["=", "+=", "-=", "*=", "/="];

/// Whether names are those of a variable or a header field, or begin with one.
fn is_value(path: &Path) -> bool {
    let is_message = |known: Message| known.name().eq_ignore_ascii_case(&path.names[0].text);
    Message::ALL.into_iter().any(is_message) || variables::find(&path.key()).is_some()
}

impl Takes {
    /// What the function of a name takes.
    pub(super) fn of(path: &Path) -> Self {
        match &path.names[..] {
            [name] => Self::Exactly(if name.text.starts_with("regsub") { 3 } else { 1 }),
            _ => Self::Any,
        }
    }

    /// Whether nothing but the bracket may follow so many, whether or not a comma does.
    fn ends_behind(self, count: usize, is_comma: bool) -> bool {
        match self {
            Self::Any => false,
            Self::Exactly(most) => count == most,
            Self::AtMost(most) => count == most || !is_comma,
        }
    }
}

impl Parser<'_> {
    /// `{ statements }`
    pub(super) fn body(&mut self) -> Vec<Statement> {
        self.sign("{");
        self.nested(Self::statements).unwrap_or_default()
    }

    fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        while !self.take_sign("}") {
            if self.peek().kind == Kind::End {
                self.missing("}");
                break;
            }
            let before = self.at;
            statements.extend(self.statement());
            if self.depth >= super::NESTING_MAX && self.is_stopped {
                break;
            }
            self.get_over(|parser| {
                parser.skip_statement();
                if parser.at == before {
                    parser.next();
                }
            });
        }
        statements
    }

    /// One statement; `None` for what was reported and read past.
    fn statement(&mut self) -> Option<Statement> {
        let token = self.peek();
        let text = self.text(token);
        let start = token.span;
        let word = text.to_ascii_lowercase();
        let kind = match (&token.kind, &*word) {
            (Kind::Sign("{"), _) => StatementKind::Block(self.body()),
            (Kind::InlineC, _) => {
                self.next();
                self.report.error(start, "Inline-C not allowed").help = Some(NO_C.into());
                return None;
            }
            (Kind::Word, "if") => self.conditional(),
            (Kind::Word, "set") => self.set()?,
            (Kind::Word, "unset") => StatementKind::Unset(self.path_behind()?),
            (Kind::Word, "call") => StatementKind::Call(self.path_behind()?),
            (Kind::Word, "return") => self.leave()?,
            (Kind::Word, "new") => self.object()?,
            (Kind::Word, "import") => {
                let message = "Symbol cannot be used here.\nSymbol 'import' cannot be used here";
                self.error(start, message);
                return None;
            }
            (Kind::Word, "elseif" | "elsif" | "elif" | "else") => {
                self.error(start, format!("'{text}' without 'if'"));
                return None;
            }
            (Kind::Word, word) => self.performed(word, start)?,
            _ => {
                let message = format!(
                    "Expected an action, 'if', '{{' or '}}'\nExpected ID got '{text}'\nFound: \
                     '{text}' at"
                );
                self.error(start, message);
                return None;
            }
        };
        Some(Statement { kind, span: start.to(self.last_span()) })
    }

    /// The path behind a word, and the end of the statement.
    fn path_behind(&mut self) -> Option<Path> {
        self.next();
        let path = self.path()?;
        self.sign(";");
        Some(path)
    }

    fn conditional(&mut self) -> StatementKind {
        self.next();
        let mut arms = vec![self.arm()];
        let mut otherwise = None;
        while self.peek().kind == Kind::Word {
            let is_else = match &*self.text(self.peek()) {
                "elseif" | "elsif" | "elif" => false,
                "else" => true,
                _ => break,
            };
            self.next();
            if is_else && !self.is_word("if") {
                if !self.is_sign("{") {
                    self.error(self.place(), "'else' must be followed by 'if' or '{'");
                    break;
                }
                otherwise = Some(self.body());
                break;
            }
            if is_else {
                self.next();
            }
            arms.push(self.arm());
        }
        StatementKind::If { arms, otherwise }
    }

    fn arm(&mut self) -> (Expression, Vec<Statement>) {
        self.sign("(");
        let condition = self.expression();
        self.sign(")");
        // The block behind a bad condition is still worth a look.
        self.get_over(Self::skip_to_block);
        (condition, self.body())
    }

    fn skip_to_block(&mut self) {
        while !matches!(self.peek().kind, Kind::End | Kind::Sign("{" | "}" | ";")) {
            self.next();
        }
    }

    fn set(&mut self) -> Option<StatementKind> {
        self.next();
        let target = self.path()?;
        let token = self.peek();
        let operator = match token.kind {
            Kind::Sign(sign) if OPERATORS.contains(&sign) => sign,
            _ => {
                self.missing("=");
                "="
            }
        };
        self.next();
        let value = self.expression();
        self.sign(";");
        Some(StatementKind::Set { target, operator, operator_span: token.span, value })
    }

    fn leave(&mut self) -> Option<StatementKind> {
        self.next();
        if self.is_sign(";") && self.may_leave {
            self.next();
            return Some(StatementKind::Leave);
        }
        self.sign("(");
        if self.peek().kind != Kind::Word {
            self.error(self.place(), "Expected return action name.");
        }
        let action = self.name()?;
        let takes_any = !matches!(
            &*action.text,
            "abandon"
                | "deliver"
                | "fetch"
                | "hash"
                | "lookup"
                | "ok"
                | "pipe"
                | "purge"
                | "restart"
                | "retry"
        );
        if self.is_sign("(") && !takes_any {
            self.error(self.place(), "Arguments not allowed.");
        }
        let is_empty = self.is_sign("(") && self.peek_at(1).kind == Kind::Sign(")");
        let most = if matches!(&*action.text, "synth" | "error") { 2 } else { 1 };
        let arguments = self.is_sign("(").then(|| self.arguments(Takes::AtMost(most)));
        if is_empty {
            self.error(self.last_span(), "Unknown token ')' when looking for STRING");
        }
        self.sign(")");
        self.sign(";");
        Some(StatementKind::Return { action, arguments })
    }

    fn object(&mut self) -> Option<StatementKind> {
        self.next();
        let name = self.declared("VCL object")?;
        self.sign("=");
        let constructor = self.path()?;
        let arguments = if self.is_sign("(") { self.arguments(Takes::Any) } else { Vec::new() };
        self.sign(";");
        Some(StatementKind::New { name, constructor, arguments })
    }

    /// A statement that is a call, or a word that begins none.
    fn performed(&mut self, word: &str, start: Span) -> Option<StatementKind> {
        let path = self.path()?;
        if !self.is_sign("(") {
            self.refuse(word, start, &path);
            return None;
        }
        let arguments = self.arguments(Takes::of(&path));
        let span = path.span.to(self.last_span());
        self.sign(";");
        let kind = ExpressionKind::Call { function: path, arguments };
        Some(StatementKind::Perform(Expression { kind, span }))
    }

    /// Says what is wrong with names that begin no statement.
    fn refuse(&mut self, word: &str, start: Span, path: &Path) {
        let is_one = path.names.len() == 1;
        if self.is_sign(";") && !is_one {
            return self.missing("(");
        }
        let message = match self.declared_by(word) {
            Some("new") if is_one => return self.missing("."),
            Some("new" | "import") if !is_one => return self.missing("("),
            Some(_) => "Symbol cannot be used here.".to_owned(),
            None if is_value(path) || State::of_subroutine(word).is_some() => {
                "Symbol cannot be used here.".to_owned()
            }
            None if matches!(word, "acl" | "backend" | "probe" | "sub" | "vcl") => {
                format!("Symbol cannot be used here.\nSymbol '{word}' cannot be used here")
            }
            None => format!("Symbol not found: '{}'", path.text()),
        };
        let near = nearest(word, WORDS.into_iter()).map(|near| format!("did you mean `{near}`?"));
        self.error_with(start.to(path.span), message, near);
    }

    /// The word that declared a name before here.
    fn declared_by(&self, name: &str) -> Option<&'static str> {
        let text = |token: &Token| self.report.sources.text(token.span);
        self.tokens[..self.at].windows(2).find_map(|pair| {
            let [by, declared] = pair else { return None };
            let by = ["acl", "backend", "import", "new", "probe", "sub"]
                .into_iter()
                .find(|word| by.kind == Kind::Word && text(by) == *word)?;
            (declared.kind == Kind::Word && text(declared) == name).then_some(by)
        })
    }

    /// `(a, name = b)`. What was not read to the bracket ends with one that is broken.
    pub(super) fn arguments(&mut self, takes: Takes) -> Vec<Argument> {
        self.sign("(");
        let mut arguments = Vec::new();
        if self.take_sign(")") {
            return arguments;
        }
        while !self.is_stopped {
            let named =
                self.peek().kind == Kind::Word && matches!(self.peek_at(1).kind, Kind::Sign("="));
            let name = if named { self.name() } else { None };
            if named {
                self.next();
            }
            let value = self.nested(Self::expression).unwrap_or_else(|| self.absent());
            arguments.push(Argument { name, value });
            if self.take_sign(")") {
                return arguments;
            }
            if takes.ends_behind(arguments.len(), self.is_sign(",")) {
                self.missing(")");
            }
            self.sign(",");
            if takes == Takes::Any && self.take_sign(")") {
                return arguments;
            }
        }
        arguments.push(Argument { name: None, value: self.absent() });
        arguments
    }
}
