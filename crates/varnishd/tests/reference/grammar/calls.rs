//! Calls of functions and methods.

use super::Grammar;
use super::running::REPLACEMENTS;
use freshet_vcl::{Signature, Type};

/// Whether two servers may not be expected to do the same with it.
fn is_unsteady(module: &str, name: &str) -> bool {
    matches!(
        (module, name),
        ("std", "collect" | "port" | "fileread" | "syslog" | "set_ip_tos" | "getenv")
            // What other policies have set is there as well.
            | ("var", "global_set" | "global_get")
            | ("xkey" | "vsthrottle", _)
            // The same constant written twice is the same here.
            | ("blob", "same")
            // Its lines are no value of a field, and are told in other words.
            | ("saintmode", "status")
            // Counted from the end, a text without separators lacks its first sign there.
            | ("str", "split")
    )
}

impl Grammar {
    /// A call of a function that returns an `of`, or of any.
    pub(super) fn call(&mut self, of: Option<Type>, depth: usize) -> Option<String> {
        if of == Some(Type::String) && self.draw.once_in(3) {
            let name = self.draw.of(&["regsub", "regsuball"]);
            let text = self.expression(Type::String, depth);
            let pattern = self.pattern();
            let by = match self.is_run && self.draw.once_in(2) {
                true => self.draw.of(&REPLACEMENTS).to_owned(),
                false => self.expression(Type::String, 0),
            };
            return Some(format!("{name}({text}, {pattern}, {by})"));
        }
        if !self.objects.is_empty() && self.draw.once_in(3) {
            let (object, module, class) = self.objects[self.draw.below(self.objects.len())];
            let methods: Vec<&'static str> = freshet_vcl::signatures()
                .filter(|(module_of, _)| *module_of == module)
                .map(|(_, signature)| signature)
                .filter(|signature| {
                    let name = Signature::name_of(signature);
                    name.starts_with(&format!("{class}."))
                        && (!self.is_run
                            || [".backend", ".filter", ".is_healthy"]
                                .iter()
                                .any(|end| name.ends_with(end)))
                        && of.is_none_or(|of| of == Signature::parse(signature).returns)
                })
                .collect();
            if !methods.is_empty() {
                let signature = self.draw.of(&methods);
                let arguments = self.arguments(signature, depth);
                let method = Signature::name_of(signature).split('.').next_back().unwrap_or("");
                return Some(format!("{object}.{method}({arguments})"));
            }
        }
        let fitting: Vec<(&'static str, &'static str)> = self
            .functions
            .iter()
            .filter(|(module, signature)| {
                let name = Signature::name_of(signature);
                let returns = Signature::parse(signature).returns;
                let is_left_out = self.is_run && is_unsteady(module, name);
                !(is_left_out || name.contains([' ', '.']))
                    && of.is_none_or(|of| {
                        of == returns || (of == Type::String && returns == Type::Strands)
                    })
            })
            .copied()
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let (module, signature) = fitting[self.draw.below(fitting.len())];
        if self.is_run && Signature::name_of(signature) == "cache_req_body" {
            // What is longer gets no answer of Varnish, as the documentation says.
            return Some("std.cache_req_body(1KB)".into());
        }
        let arguments = self.arguments(signature, depth);
        let alias = self.aliases.iter().find(|(of, _)| *of == module);
        let module = alias.map_or(module, |(_, alias)| alias);
        Some(format!("{module}.{}({arguments})", Signature::name_of(signature)))
    }

    pub(super) fn arguments(&mut self, signature: &'static str, depth: usize) -> String {
        let mut out: Vec<String> = Vec::new();
        let mut named = false;
        for parameter in Signature::parse(signature).parameters {
            let may_be_left_out = parameter.optional || parameter.default.is_some();
            if may_be_left_out && self.draw.once_in(2) {
                named = true;
                continue;
            }
            let value = if parameter.words.is_empty() {
                self.expression(parameter.of, depth)
            } else if self.wrong() {
                "WRONG".into()
            } else {
                self.draw.of(&parameter.words).to_owned()
            };
            named |= self.draw.once_in(8) && !parameter.name.is_empty();
            if named && !parameter.name.is_empty() {
                out.push(format!("{}={value}", parameter.name));
            } else {
                out.push(value);
            }
        }
        if self.wrong() {
            out.pop();
        }
        if self.wrong() {
            out.push("1".into());
        }
        out.join(", ")
    }
}
