//! What stands at the outermost level.

use super::{NO_C, Parser, Tree};
use crate::diagnostic::nearest;
use crate::lexer::Kind;
use crate::syntax::{Acl, AclEntry, Backend, Declaration, Field, FieldValue, Fields, Name, Probe};
use freshet_policy::source::Span;

const WORDS: [&str; 7] = ["acl", "backend", "import", "include", "probe", "sub", "vcl"];

impl Parser<'_> {
    /// `vcl 4.1;`; the version, 41 where it cannot be told.
    pub(super) fn version_line(&mut self) -> u32 {
        if self.is_word("vcl") {
            return self.version();
        }
        self.error(
            self.place(),
            "VCL version declaration missing\nUpdate your VCL to Version 4 syntax, and add\n\
             \tvcl 4.1;\non the first line of the VCL files.",
        );
        // The rest can still be read.
        let first = &self.tokens[self.at];
        self.is_stopped = first.kind != Kind::Word || !WORDS.contains(&&*self.text(first));
        41
    }

    fn version(&mut self) -> u32 {
        let span = self.next().span;
        let token = self.peek();
        let text = self.text(token);
        let version = match (&token.kind, &*text) {
            (Kind::Real(_), "4.0") => 40,
            (Kind::Real(_), "4.1") => 41,
            (Kind::Real(_), text) if text.len() != 3 => {
                self.error(token.span, "Don't play silly buggers with VCL version numbers");
                41
            }
            (Kind::Real(_), text) => {
                self.report.error(token.span, format!("VCL version {text} not supported.")).help =
                    Some("`vcl 4.0;` and `vcl 4.1;` are".into());
                41
            }
            _ => {
                self.error(span, "Expected 'vcl N.N;' found no number");
                41
            }
        };
        self.next();
        if !self.take_sign(";") {
            self.error(span, "Expected 'vcl N.N;' found no semi-colon");
        }
        version
    }

    pub(super) fn declaration(&mut self, tree: &mut Tree) {
        let token = self.peek();
        let text = self.text(token);
        match (&token.kind, &*text) {
            (Kind::Word, "vcl") => {
                let version = self.version();
                if version > tree.version {
                    self.report.error(
                        token.span,
                        format!(
                            "VCL version {}.{} higher than the top level version {}.{}",
                            version / 10,
                            version % 10,
                            tree.version / 10,
                            tree.version % 10
                        ),
                    );
                }
            }
            (Kind::Word, "import") => tree.declarations.extend(self.import()),
            (Kind::Word, "acl") => tree.declarations.extend(self.acl().map(Declaration::Acl)),
            (Kind::Word, "backend") => {
                tree.declarations.extend(self.backend().map(Declaration::Backend));
            }
            (Kind::Word, "probe") => tree.declarations.extend(self.probe()),
            (Kind::Word, "sub") => tree.declarations.extend(self.subroutine()),
            (Kind::InlineC, _) => {
                self.next();
                self.report.error(token.span, "Inline-C not allowed").help = Some(NO_C.into());
            }
            (Kind::Word, word) => {
                let help = nearest(word, WORDS.into_iter()).map_or_else(
                    || format!("a declaration begins with one of {}", WORDS.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                let message =
                    format!("Syntax error\nSymbol not found: '{word}'\nFound: '{word}' at");
                self.error_with(token.span, message, Some(help));
            }
            _ => {
                self.next();
                let message = format!("Syntax error at\nExpected a declaration, found '{text}'");
                self.error(token.span, message);
            }
        }
    }

    /// The name of something declared.
    pub(super) fn declared(&mut self, what: &str) -> Option<Name> {
        let name = self.name()?;
        if self.is_sign(".") {
            let mut text = name.text.to_string();
            let mut span = name.span;
            while self.take_sign(".") {
                let more = self.name()?;
                text = format!("{text}.{}", more.text);
                span = span.to(more.span);
            }
            let message = format!("Name of {what}, '{text}', contains illegal character '.'");
            self.report.error(span, message);
        }
        Some(name)
    }

    fn import(&mut self) -> Option<Declaration> {
        self.next();
        let module = self.name()?;
        let mut alias = None;
        if self.is_word("as") {
            self.next();
            alias = Some(self.name()?);
        }
        let mut from = None;
        if self.is_word("from") {
            self.next();
            from = Some(self.string()?);
        }
        self.sign(";");
        // It is looked for when all of this was read.
        (!self.is_stopped).then_some(Declaration::Import { module, alias, from })
    }

    fn subroutine(&mut self) -> Option<Declaration> {
        self.next();
        let name = self.declared("subroutine")?;
        self.may_leave = freshet_policy::types::State::of_subroutine(&name.text).is_none();
        Some(Declaration::Sub { name, body: self.body() })
    }

    fn acl(&mut self) -> Option<Acl> {
        self.next();
        let name = self.declared("ACL")?;
        let mut flags = Vec::new();
        while let Kind::Sign(sign @ ("+" | "-")) = self.peek().kind {
            let span = self.next().span;
            let is_flag = self.peek().kind == Kind::Word && self.peek().span.start == span.end;
            if !is_flag {
                let message = "Expected a flag at:\nValid ACL flags are `log` and `table`:";
                self.error(span, message);
            }
            flags.extend(self.name().map(|flag| (flag, sign == "+")));
        }
        self.sign("{");
        let mut entries = Vec::new();
        while !self.is_stopped && !self.is_sign("}") {
            if self.peek().kind == Kind::End {
                self.missing("CSTR");
                break;
            }
            entries.extend(self.acl_entry());
            self.sign(";");
            self.get_over(Self::skip_statement);
        }
        self.sign("}");
        Some(Acl { name, flags, entries })
    }

    fn acl_entry(&mut self) -> Option<AclEntry> {
        let start = self.place();
        let mut negated = self.take_sign("!");
        let optional = self.take_sign("(");
        if optional && !negated {
            negated = self.take_sign("!");
        }
        let address = self.string()?;
        let mut mask = self.acl_mask();
        if optional {
            self.sign(")");
            let behind = self.acl_mask();
            if let (Some(_), Some((_, span))) = (mask, behind) {
                self.error(span, "/mask only allowed once");
            }
            mask = mask.or(behind);
        }
        let span = start.to(address.span);
        (!self.is_stopped).then_some(AclEntry { negated, optional, address, mask, span })
    }

    /// `/24`, where there is one.
    fn acl_mask(&mut self) -> Option<(i64, Span)> {
        if !self.take_sign("/") {
            return None;
        }
        let token = self.peek();
        let Kind::Int(bits) = token.kind else {
            self.error(token.span, ".../mask is not numeric.");
            return None;
        };
        self.next();
        Some((bits, token.span))
    }

    fn backend(&mut self) -> Option<Backend> {
        self.next();
        let name = self.declared("backend")?;
        if self.is_word("none") || self.is_word("None") {
            self.next();
            self.sign(";");
            return Some(Backend { name, fields: None });
        }
        Some(Backend { name, fields: Some(self.fields("backend")) })
    }

    fn probe(&mut self) -> Option<Declaration> {
        self.next();
        let name = self.declared("probe")?;
        Some(Declaration::Probe(Probe { name, fields: self.fields("probe") }))
    }

    /// `{ .name = value; … }`
    fn fields(&mut self, of: &str) -> Fields {
        self.sign("{");
        let mut fields = Vec::new();
        while !self.is_stopped && !self.is_sign("}") {
            if self.peek().kind == Kind::End {
                self.missing("}");
                break;
            }
            if self.peek().kind == Kind::Word {
                let message = "Expected '.' got a name\nNB: Backend Syntax has changed:\n\
                               Remove \"set\" and \"backend\" in front of backend fields.";
                let help = format!("fields of a {of} are written `.name = value;`");
                self.error_with(self.place(), message, Some(help));
            } else {
                fields.extend(self.field());
            }
            self.get_over(Self::skip_statement);
        }
        Fields { fields, end: self.sign("}") }
    }

    fn field(&mut self) -> Option<Field> {
        self.sign(".");
        let name = self.name()?;
        self.sign("=");
        let value = match &*name.text {
            "probe" if self.is_sign("{") => {
                let fields = self.nested(|parser| parser.fields("probe"))?;
                let name = Name { text: "".into(), span: name.span };
                FieldValue::Probe(Box::new(Probe { name, fields }))
            }
            "request" => {
                let mut texts = vec![self.string()?];
                while matches!(self.peek().kind, Kind::Text(_)) {
                    texts.push(self.string()?);
                }
                self.sign(";");
                FieldValue::Texts(texts)
            }
            _ => {
                let value = self.primary();
                self.sign(";");
                FieldValue::Expression(value)
            }
        };
        Some(Field { name, value })
    }
}
