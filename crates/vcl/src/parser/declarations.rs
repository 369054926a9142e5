//! What stands at the outermost level.

use super::{Parsed, Parser, Stopped, Tree};
use crate::diagnostic::nearest;
use crate::lexer::Kind;
use crate::syntax::{Acl, AclEntry, Backend, Declaration, Field, FieldValue, Name, Probe};

const WORDS: [&str; 7] = ["acl", "backend", "import", "include", "probe", "sub", "vcl"];

impl Parser<'_> {
    pub(super) fn version_line(&mut self) -> Parsed<u32> {
        let span = self.peek().span;
        if !self.is_word("vcl") {
            let stopped = self.error(
                span,
                "VCL version declaration missing\nUpdate your VCL to Version 4 syntax, and add\n\
                 \tvcl 4.1;\non the first line of the VCL files.",
            );
            // The rest can still be read.
            if self.peek().kind == Kind::Word && WORDS.contains(&&*self.text(self.peek())) {
                return Ok(41);
            }
            return Err(stopped);
        }
        self.version()
    }

    fn version(&mut self) -> Parsed<u32> {
        let span = self.next().span;
        let token = self.peek();
        let text = self.text(token);
        let version = match (&token.kind, &*text) {
            (Kind::Real(_), "4.0") => 40,
            (Kind::Real(_), "4.1") => 41,
            (Kind::Real(_), text) if text.len() != 3 => {
                let message = "Don't play silly buggers with VCL version numbers";
                return Err(self.error(token.span, message));
            }
            (Kind::Real(_), text) => {
                let message = format!("VCL version {text} not supported.");
                let stopped = self.error(token.span, message);
                self.report.diagnostics.last_mut().expect("just added").help =
                    Some("`vcl 4.0;` and `vcl 4.1;` are".into());
                self.next();
                let _ = self.sign(";")?;
                let _ = stopped;
                return Ok(41);
            }
            _ => {
                let message = "Expected 'vcl N.N;' found no number";
                return Err(self.error(span, message));
            }
        };
        self.next();
        if !self.is_sign(";") {
            return Err(self.error(span, "Expected 'vcl N.N;' found no semi-colon"));
        }
        self.next();
        Ok(version)
    }

    pub(super) fn declaration(&mut self, tree: &mut Tree) -> Parsed<()> {
        let token = self.peek();
        let text = self.text(token);
        match (&token.kind, &*text) {
            (Kind::Word, "vcl") => {
                let version = self.version()?;
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
            (Kind::Word, "import") => self.import(tree)?,
            (Kind::Word, "acl") => {
                self.next();
                let acl = self.acl()?;
                tree.declarations.push(Declaration::Acl(acl));
            }
            (Kind::Word, "backend") => {
                self.next();
                let backend = self.backend()?;
                tree.declarations.push(Declaration::Backend(backend));
            }
            (Kind::Word, "probe") => {
                self.next();
                let name = self.declared("probe")?;
                let fields = self.fields("probe")?;
                tree.declarations.push(Declaration::Probe(Probe { name, fields }));
            }
            (Kind::Word, "sub") => {
                self.next();
                let name = self.declared("subroutine")?;
                self.may_leave = crate::types::State::of_subroutine(&name.text).is_none();
                let body = self.body()?;
                tree.declarations.push(Declaration::Sub { name, body });
            }
            (Kind::InlineC, _) => {
                self.next();
                self.report.error(token.span, "Inline-C not allowed").help = Some(
                    "policies run without a C compiler: use the functions of std, str, header, \
                     var, cookie and blob"
                        .into(),
                );
            }
            (Kind::Word, word) => {
                let near = nearest(word, WORDS.into_iter());
                self.report.error(
                    token.span,
                    format!("Syntax error\nSymbol not found: '{word}'\nFound: '{word}' at"),
                );
                let last = self.report.diagnostics.last_mut().expect("just added");
                last.help = Some(near.map_or_else(
                    || format!("a declaration begins with one of {}", WORDS.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                ));
                return Err(Stopped);
            }
            _ => {
                let message = format!("Syntax error at\nExpected a declaration, found '{text}'");
                let stopped = self.error(token.span, message);
                self.next();
                return Err(stopped);
            }
        }
        Ok(())
    }

    /// The name of something declared.
    pub(super) fn declared(&mut self, what: &str) -> Parsed<Name> {
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
        Ok(name)
    }

    fn import(&mut self, tree: &mut Tree) -> Parsed<()> {
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
        self.sign(";")?;
        tree.declarations.push(Declaration::Import { module, alias, from });
        Ok(())
    }

    fn acl(&mut self) -> Parsed<Acl> {
        let name = self.declared("ACL")?;
        let mut flags = Vec::new();
        while let Kind::Sign(sign @ ("+" | "-")) = self.peek().kind {
            let span = self.next().span;
            let is_flag = self.peek().kind == Kind::Word && self.peek().span.start == span.end;
            if !is_flag {
                let message = "Expected a flag at:\nValid ACL flags are `log` and `table`:";
                return Err(self.error(span, message));
            }
            flags.push((self.name()?, sign == "+"));
        }
        self.sign("{")?;
        let mut entries = Vec::new();
        while !self.take_sign("}") {
            entries.push(self.acl_entry()?);
        }
        Ok(Acl { name, flags, entries })
    }

    fn acl_entry(&mut self) -> Parsed<AclEntry> {
        let start = self.peek().span;
        let mut negated = self.take_sign("!");
        let optional = self.take_sign("(");
        if optional && !negated {
            negated = self.take_sign("!");
        }
        let address = self.string()?;
        let mut mask = None;
        let mut read_mask = |parser: &mut Self| -> Parsed<()> {
            if parser.take_sign("/") {
                let token = parser.peek();
                let Kind::Int(bits) = token.kind else {
                    return Err(parser.error(token.span, ".../mask is not numeric."));
                };
                parser.next();
                if mask.is_some() {
                    return Err(parser.error(token.span, "/mask only allowed once"));
                }
                mask = Some((bits, token.span));
            }
            Ok(())
        };
        read_mask(self)?;
        if optional {
            self.sign(")")?;
            read_mask(self)?;
        }
        let span = start.to(address.span);
        self.sign(";")?;
        Ok(AclEntry { negated, optional, address, mask, span })
    }

    fn backend(&mut self) -> Parsed<Backend> {
        let name = self.declared("backend")?;
        if self.is_word("none") || self.is_word("None") {
            self.next();
            self.sign(";")?;
            return Ok(Backend { name, fields: None });
        }
        Ok(Backend { name, fields: Some(self.fields("backend")?) })
    }

    /// `{ .name = value; … }`
    fn fields(&mut self, of: &str) -> Parsed<Vec<Field>> {
        self.sign("{")?;
        let mut fields = Vec::new();
        while !self.take_sign("}") {
            if self.peek().kind == Kind::End {
                return Err(self.missing("}"));
            }
            if self.peek().kind == Kind::Word {
                let span = self.peek().span;
                let message = "Expected '.' got a name\nNB: Backend Syntax has changed:\n\
                               Remove \"set\" and \"backend\" in front of backend fields.";
                self.report.error(span, message).help =
                    Some(format!("fields of a {of} are written `.name = value;`"));
                self.skip_statement();
                continue;
            }
            match self.field() {
                Ok(field) => fields.push(field),
                Err(Stopped) => self.skip_statement(),
            }
        }
        Ok(fields)
    }

    fn field(&mut self) -> Parsed<Field> {
        self.sign(".")?;
        let name = self.name()?;
        self.sign("=")?;
        if &*name.text == "probe" && self.is_sign("{") {
            let fields = self.nested(|parser| parser.fields("probe"))?;
            let probe = Probe { name: Name { text: "".into(), span: name.span }, fields };
            return Ok(Field { name, value: FieldValue::Probe(Box::new(probe)) });
        }
        if &*name.text == "request" {
            let mut texts = vec![self.string()?];
            while matches!(self.peek().kind, Kind::Text(_)) {
                texts.push(self.string()?);
            }
            self.sign(";")?;
            return Ok(Field { name, value: FieldValue::Texts(texts) });
        }
        let value = self.expression()?;
        self.sign(";")?;
        Ok(Field { name, value: FieldValue::Expression(value) })
    }
}
