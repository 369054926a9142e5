//! From tokens to the tree. Where something cannot be understood it is reported, and to all that is
//! being read the text ends there. What was read until then is in the tree, expressions as
//! [`Broken`](crate::syntax::ExpressionKind::Broken), so that mistakes before that place are found as
//! well. The innermost list of statements, fields or declarations goes on behind it.

mod declarations;
mod expressions;
mod statements;

use crate::diagnostic::Report;
use crate::lexer::{Kind, Token};
use crate::syntax::{Declaration, Name, Path};
use freshet_policy::source::Span;

/// Blocks and brackets within one another. The checker and the runtime recurse with them.
pub(crate) const NESTING_MAX: usize = 100;

const NO_C: &str = "policies run without a C compiler: use the functions of std, str, header, var, \
                    cookie and blob";

/// How many values a pair of brackets takes, and what may stand behind the last.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// As many as the function has parameters, which is not known here; a comma may follow.
    Any,
    /// So many, and no comma.
    Exactly(usize),
    /// So many or fewer, and no comma.
    AtMost(usize),
}

/// A policy as written.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// `40` or `41`.
    pub(crate) version: u32,
    pub(crate) declarations: Vec<Declaration>,
}

pub(crate) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    report: &'a mut Report,
    depth: usize,
    version: u32,
    /// Whether `return;` may stand here: in subroutines that are no states.
    may_leave: bool,
    /// Whether something was wrong that was not got over yet.
    is_stopped: bool,
}

/// Reads a whole policy.
pub(crate) fn parse(tokens: &[Token], report: &mut Report) -> Tree {
    let mut parser = Parser {
        tokens,
        at: 0,
        report,
        depth: 0,
        version: 41,
        may_leave: false,
        is_stopped: false,
    };
    parser.version = parser.version_line();
    let mut tree = Tree { version: parser.version, declarations: Vec::new() };
    parser.get_over(Parser::skip_declaration);
    while parser.peek().kind != Kind::End {
        parser.declaration(&mut tree);
        parser.get_over(Parser::skip_declaration);
    }
    tree
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &'a Token {
        let last = self.tokens.len() - 1;
        let at = if self.is_stopped { last } else { (self.at + ahead).min(last) };
        &self.tokens[at]
    }

    fn next(&mut self) -> &'a Token {
        let token = self.peek();
        if !self.is_stopped && self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    /// Where the parser is, or stopped.
    fn place(&self) -> Span {
        self.tokens[self.at].span
    }

    /// The last token that was read.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    /// Goes on where something was wrong, behind what `skip` skips.
    fn get_over(&mut self, skip: impl FnOnce(&mut Self)) {
        if self.is_stopped {
            self.is_stopped = false;
            skip(self);
        }
    }

    fn text(&self, token: &Token) -> String {
        match token.kind {
            Kind::End => "end of input".into(),
            _ => self.report.sources.text(token.span).into(),
        }
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek().kind, Kind::Sign(found) if found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        self.peek().kind == Kind::Word && self.report.sources.text(self.peek().span) == word
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.next();
        }
        found
    }

    /// Says what is wrong and stops.
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.error_with(span, message, None);
    }

    fn error_with(&mut self, span: Span, message: impl Into<String>, help: Option<String>) {
        if !self.is_stopped {
            self.report.error(span, message).help = help;
            self.is_stopped = true;
        }
    }

    /// Demands `wanted` (in the words of Varnish's compiler: a sign, `ID`, `CSTR`, `CNUM`).
    fn missing(&mut self, wanted: &str) {
        let token = self.peek();
        let got = self.text(token);
        let wanted = match wanted {
            "ID" | "CSTR" | "CNUM" => wanted.to_owned(),
            sign => format!("'{sign}'"),
        };
        let got = if token.kind == Kind::End { got } else { format!("'{got}'") };
        self.error(token.span, format!("Expected {wanted} got {got}"));
    }

    /// Reads past a sign; its place, or that where it is missing.
    fn sign(&mut self, sign: &'static str) -> Span {
        let span = self.place();
        if !self.take_sign(sign) {
            self.missing(sign);
        }
        span
    }

    fn name(&mut self) -> Option<Name> {
        let token = self.peek();
        if token.kind != Kind::Word {
            self.missing("ID");
            return None;
        }
        self.next();
        Some(Name { text: self.report.sources.text(token.span).into(), span: token.span })
    }

    fn string(&mut self) -> Option<Name> {
        let token = self.peek();
        let Kind::Text(text) = &token.kind else {
            self.missing("CSTR");
            return None;
        };
        self.next();
        Some(Name { text: text.clone(), span: token.span })
    }

    /// Names with dots between.
    fn path(&mut self) -> Option<Path> {
        let first = self.name()?;
        let mut path = Path { span: first.span, names: vec![first], quoted: false };
        while self.is_sign(".") {
            match &self.peek_at(1).kind {
                Kind::Word => {
                    self.next();
                    path.names.push(self.name()?);
                }
                Kind::Text(_) => {
                    self.next();
                    if path.names.len() < 2 {
                        self.error(self.last_span(), "Expected '=' got '.'");
                        return None;
                    }
                    let name = self.string()?;
                    if self.version < 41 {
                        self.report
                            .error(name.span, "Quoted headers are available for VCL >= 4.1.");
                    }
                    path.quoted = true;
                    path.names.push(name);
                }
                _ => {
                    self.next();
                    self.missing("ID");
                    return None;
                }
            }
            path.span = path.span.to(path.names.last().map_or(path.span, |name| name.span));
        }
        Some(path)
    }

    /// What `read` reads one level deeper; `None` where that is too deep.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= NESTING_MAX {
            self.error(self.place(), "Blocks and brackets are nested too deeply.");
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        Some(result)
    }

    /// Goes on behind the statement the parser stopped in: behind the next `;` or block, or before
    /// a `}` that ends the block around it.
    fn skip_statement(&mut self) {
        let mut open = 0_u32;
        loop {
            match self.peek().kind {
                Kind::End => return,
                Kind::Sign(";") if open == 0 => {
                    self.next();
                    return;
                }
                Kind::Sign("{") => open += 1,
                Kind::Sign("}") => match open {
                    0 => return,
                    1 => {
                        self.next();
                        return;
                    }
                    _ => open -= 1,
                },
                _ => {}
            }
            self.next();
        }
    }

    /// Goes on before the next word that begins a declaration at the outermost level.
    fn skip_declaration(&mut self) {
        let mut open = 0_i32;
        loop {
            match self.peek().kind {
                Kind::End => return,
                Kind::Sign("{") => open += 1,
                Kind::Sign("}") => open -= 1,
                Kind::Sign(";") if open <= 0 => {
                    self.next();
                    return;
                }
                Kind::Word if open <= 0 && self.at > 0 => {
                    let behind = &self.tokens[self.at - 1].kind;
                    let begins = matches!(behind, Kind::Sign("}" | ";"));
                    let word = self.report.sources.text(self.peek().span);
                    if begins && matches!(word, "sub" | "acl" | "backend" | "probe" | "import") {
                        return;
                    }
                }
                _ => {}
            }
            self.next();
        }
    }
}
