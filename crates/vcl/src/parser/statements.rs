//! What stands in a subroutine.

use super::{Parsed, Parser, Stopped};
use crate::diagnostic::nearest;
use crate::lexer::{Kind, Token};
use crate::source::Span;
use crate::syntax::{Argument, Expression, ExpressionKind, Name, Path, Statement, StatementKind};

const WORDS: [&str; 9] =
    ["call", "else", "if", "new", "return", "set", "unset", "synthetic", "hash_data"];
const OPERATORS: [&str; 5] = ["=", "+=", "-=", "*=", "/="];

impl Parser<'_> {
    /// `{ statements }`
    pub(super) fn body(&mut self) -> Parsed<Vec<Statement>> {
        self.sign("{")?;
        self.nested(|parser| {
            let mut statements = Vec::new();
            loop {
                if parser.take_sign("}") {
                    return Ok(statements);
                }
                if parser.peek().kind == Kind::End {
                    return Err(parser.missing("}"));
                }
                let before = parser.at;
                match parser.statement() {
                    Ok(Some(statement)) => statements.push(statement),
                    Ok(None) => {}
                    Err(Stopped) => {
                        if parser.depth >= super::NESTING_MAX {
                            return Err(Stopped);
                        }
                        parser.skip_statement();
                        if parser.at == before {
                            parser.next();
                        }
                    }
                }
            }
        })
    }

    /// One statement; `None` for what was reported and read past.
    fn statement(&mut self) -> Parsed<Option<Statement>> {
        let token = self.peek();
        let text = self.text(token);
        let start = token.span;
        let word = text.to_ascii_lowercase();
        let kind = match (&token.kind, &*word) {
            (Kind::Sign("{"), _) => StatementKind::Block(self.body()?),
            (Kind::InlineC, _) => {
                self.next();
                self.report.error(start, "Inline-C not allowed").help = Some(
                    "policies run without a C compiler: use the functions of std, str, header, \
                     var, cookie and blob"
                        .into(),
                );
                return Ok(None);
            }
            (Kind::Word, "if") => self.conditional()?,
            (Kind::Word, "set") => self.set()?,
            (Kind::Word, "unset") => {
                self.next();
                let path = self.path()?;
                self.sign(";")?;
                StatementKind::Unset(path)
            }
            (Kind::Word, "call") => {
                self.next();
                let path = self.path()?;
                self.sign(";")?;
                StatementKind::Call(path)
            }
            (Kind::Word, "return") => self.leave()?,
            (Kind::Word, "new") => self.object()?,
            (Kind::Word, "import") => {
                let message = "Symbol cannot be used here.\nSymbol 'import' cannot be used here";
                return Err(self.error(start, message));
            }
            (Kind::Word, "elseif" | "elsif" | "elif" | "else") => {
                return Err(self.error(start, format!("'{text}' without 'if'")));
            }
            (Kind::Word, word) => self.performed(word, start)?,
            (Kind::End, _) => return Err(self.missing("}")),
            _ => {
                let message = format!(
                    "Expected an action, 'if', '{{' or '}}'\nExpected ID got '{text}'\nFound: \
                     '{text}' at"
                );
                return Err(self.error(start, message));
            }
        };
        let end = self.tokens[self.at.saturating_sub(1)].span;
        Ok(Some(Statement { kind, span: start.to(end) }))
    }

    fn conditional(&mut self) -> Parsed<StatementKind> {
        let mut arms = Vec::new();
        let mut otherwise = None;
        self.next();
        arms.push(self.arm()?);
        loop {
            let word = self.text(self.peek());
            if self.peek().kind != Kind::Word {
                break;
            }
            match &*word {
                "elseif" | "elsif" | "elif" => {
                    self.next();
                    arms.push(self.arm()?);
                }
                "else" => {
                    self.next();
                    if self.is_word("if") {
                        self.next();
                        arms.push(self.arm()?);
                    } else {
                        if !self.is_sign("{") {
                            let span = self.peek().span;
                            let message = "'else' must be followed by 'if' or '{'";
                            return Err(self.error(span, message));
                        }
                        otherwise = Some(self.body()?);
                        break;
                    }
                }
                _ => break,
            }
        }
        Ok(StatementKind::If { arms, otherwise })
    }

    fn arm(&mut self) -> Parsed<(Expression, Vec<Statement>)> {
        self.sign("(")?;
        let condition = match self.expression() {
            Ok(condition) => condition,
            Err(Stopped) => {
                // The block behind a bad condition is still worth a look.
                self.skip_to_block();
                let _ = self.body()?;
                return Err(Stopped);
            }
        };
        if self.sign(")").is_err() {
            self.skip_to_block();
        }
        Ok((condition, self.body()?))
    }

    fn skip_to_block(&mut self) {
        while !matches!(self.peek().kind, Kind::End | Kind::Sign("{" | "}" | ";")) {
            self.next();
        }
    }

    fn set(&mut self) -> Parsed<StatementKind> {
        self.next();
        let target = self.path()?;
        let token = self.peek();
        let operator = match token.kind {
            Kind::Sign(sign) if OPERATORS.contains(&sign) => sign,
            _ => return Err(self.missing("=")),
        };
        self.next();
        let value = self.expression()?;
        self.end_statement();
        Ok(StatementKind::Set { target, operator, operator_span: token.span, value })
    }

    /// Demands a `;`. What stands before it is still looked at where it is missing.
    fn end_statement(&mut self) {
        if self.sign(";").is_err() {
            self.skip_statement();
        }
    }

    fn leave(&mut self) -> Parsed<StatementKind> {
        self.next();
        if self.is_sign(";") && self.may_leave {
            self.next();
            return Ok(StatementKind::Leave);
        }
        self.sign("(")?;
        if self.peek().kind != Kind::Word {
            let span = self.peek().span;
            return Err(self.error(span, "Expected return action name."));
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
            let span = self.peek().span;
            return Err(self.error(span, "Arguments not allowed."));
        }
        let arguments = if self.is_sign("(") { Some(self.arguments(false)?) } else { None };
        self.sign(")")?;
        self.sign(";")?;
        Ok(StatementKind::Return { action, arguments })
    }

    fn object(&mut self) -> Parsed<StatementKind> {
        self.next();
        let name = self.declared("VCL object")?;
        self.sign("=")?;
        let constructor = self.path()?;
        let arguments = if self.is_sign("(") { self.arguments(true)? } else { Vec::new() };
        self.sign(";")?;
        Ok(StatementKind::New { name, constructor, arguments })
    }

    /// A statement that is a call, or a word that begins none.
    fn performed(&mut self, word: &str, start: Span) -> Parsed<StatementKind> {
        let path = self.path()?;
        if !self.is_sign("(") {
            if matches!(self.peek().kind, Kind::Sign(";")) && path.names.len() > 1 {
                return Err(self.missing("("));
            }
            let span = path.span;
            let message = match self.declared_by(word) {
                Some("new") if path.names.len() == 1 => return Err(self.missing(".")),
                Some("new" | "import") if path.names.len() > 1 => return Err(self.missing("(")),
                Some(_) => "Symbol cannot be used here.".to_owned(),
                None if matches!(word, "acl" | "backend" | "probe" | "sub" | "vcl") => {
                    format!("Symbol cannot be used here.\nSymbol '{word}' cannot be used here")
                }
                None => format!("Symbol not found: '{}'", path.text()),
            };
            let diagnostic = self.report.error(start.to(span), message);
            diagnostic.help =
                nearest(word, WORDS.into_iter()).map(|near| format!("did you mean `{near}`?"));
            return Err(Stopped);
        }
        let arguments = self.arguments(path.names.len() > 1)?;
        let end = self.tokens[self.at.saturating_sub(1)].span;
        self.end_statement();
        let span = path.span.to(end);
        let kind = ExpressionKind::Call { function: path, arguments };
        Ok(StatementKind::Perform(Expression { kind, span }))
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

    /// `(a, name = b)`; those of what is a module's may have a comma behind the last one.
    pub(super) fn arguments(&mut self, is_of_module: bool) -> Parsed<Vec<Argument>> {
        self.sign("(")?;
        let mut arguments = Vec::new();
        if self.take_sign(")") {
            return Ok(arguments);
        }
        loop {
            let named =
                self.peek().kind == Kind::Word && matches!(self.peek_at(1).kind, Kind::Sign("="));
            let name = if named {
                let name = self.name()?;
                self.next();
                Some(name)
            } else {
                None
            };
            let value = self.nested(Self::expression)?;
            arguments.push(Argument { name, value });
            if self.take_sign(")") {
                return Ok(arguments);
            }
            self.sign(",")?;
            if is_of_module && self.take_sign(")") {
                return Ok(arguments);
            }
        }
    }

    /// A path as an expression, or a call.
    pub(super) fn path_or_call(&mut self) -> Parsed<Expression> {
        let path: Path = self.path()?;
        if !self.is_sign("(") {
            return Ok(Expression { span: path.span, kind: ExpressionKind::Path(path) });
        }
        let arguments = self.arguments(path.names.len() > 1)?;
        let end = self.tokens[self.at.saturating_sub(1)].span;
        // `x.upper()` is a method of the value before it; which one it is only types can tell, so
        // the checker looks at the last name.
        let span = path.span.to(end);
        Ok(Expression { span, kind: ExpressionKind::Call { function: path, arguments } })
    }

    pub(super) fn method(&mut self, value: Expression) -> Parsed<Expression> {
        self.next();
        let method: Name = self.name()?;
        self.sign("(")?;
        let end = self.sign(")")?;
        let span = value.span.to(end);
        Ok(Expression { span, kind: ExpressionKind::Method { value: Box::new(value), method } })
    }
}
