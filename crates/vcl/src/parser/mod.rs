//! From tokens to the tree. What cannot be understood is reported and skipped to the next
//! statement or declaration, so that one pass finds all mistakes.

mod declarations;
mod expressions;
mod statements;

use crate::diagnostic::Report;
use crate::lexer::{Kind, Token};
use crate::source::Span;
use crate::syntax::{Declaration, Name, Path};

/// Blocks and brackets within one another. The checker and the runtime recurse with them.
pub(crate) const NESTING_MAX: usize = 100;

/// A policy as written.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// `40` or `41`.
    pub(crate) version: u32,
    pub(crate) declarations: Vec<Declaration>,
}

/// The parser stopped; the message is in the report.
pub(crate) struct Stopped;

pub(crate) type Parsed<T> = Result<T, Stopped>;

pub(crate) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    report: &'a mut Report,
    depth: usize,
    version: u32,
    /// Whether `return;` may stand here: in subroutines that are no states.
    may_leave: bool,
}

/// Reads a whole policy. `with_version` demands a `vcl` line first, as all but the built-in text
/// have.
pub(crate) fn parse(tokens: &[Token], with_version: bool, report: &mut Report) -> Tree {
    let mut parser = Parser { tokens, at: 0, report, depth: 0, version: 41, may_leave: false };
    let mut tree = Tree { version: 41, declarations: Vec::new() };
    if with_version {
        match parser.version_line() {
            Ok(version) => {
                tree.version = version;
                parser.version = version;
            }
            Err(Stopped) => parser.skip_declaration(),
        }
    }
    while parser.peek().kind != Kind::End {
        match parser.declaration(&mut tree) {
            Ok(()) => {}
            Err(Stopped) => parser.skip_declaration(),
        }
    }
    tree
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &'a Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + ahead).min(last)]
    }

    fn next(&mut self) -> &'a Token {
        let token = self.peek();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
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

    fn error(&mut self, span: Span, message: impl Into<String>) -> Stopped {
        self.report.error(span, message);
        Stopped
    }

    /// Demands `wanted` (in the words of Varnish's compiler: a sign, `ID`, `CSTR`, `CNUM`).
    fn missing(&mut self, wanted: &str) -> Stopped {
        let token = self.peek();
        let got = self.text(token);
        let wanted = match wanted {
            "ID" | "CSTR" | "CNUM" => wanted.to_owned(),
            sign => format!("'{sign}'"),
        };
        let got = if token.kind == Kind::End { got } else { format!("'{got}'") };
        self.error(token.span, format!("Expected {wanted} got {got}"))
    }

    fn sign(&mut self, sign: &'static str) -> Parsed<Span> {
        if self.is_sign(sign) { Ok(self.next().span) } else { Err(self.missing(sign)) }
    }

    /// A sign that ends something: where it is missing, the place behind the last token is as good
    /// to name as the next one, and nothing needs to be skipped.
    fn closing(&mut self, sign: &'static str) -> Parsed<Span> {
        self.sign(sign)
    }

    fn name(&mut self) -> Parsed<Name> {
        let token = self.peek();
        if token.kind != Kind::Word {
            return Err(self.missing("ID"));
        }
        self.next();
        Ok(Name { text: self.report.sources.text(token.span).into(), span: token.span })
    }

    fn string(&mut self) -> Parsed<Name> {
        let token = self.peek();
        let Kind::Text(text) = &token.kind else { return Err(self.missing("CSTR")) };
        self.next();
        Ok(Name { text: text.clone(), span: token.span })
    }

    /// Names with dots between.
    fn path(&mut self) -> Parsed<Path> {
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
                        let span = self.tokens[self.at - 1].span;
                        return Err(self.error(span, "Expected '=' got '.'"));
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
                    return Err(self.missing("ID"));
                }
            }
            path.span = path.span.to(path.names.last().map_or(path.span, |name| name.span));
        }
        Ok(path)
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= NESTING_MAX {
            let span = self.peek().span;
            return Err(self.error(span, "Blocks and brackets are nested too deeply."));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
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
