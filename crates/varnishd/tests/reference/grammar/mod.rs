//! Random policies by the grammar of the language: every statement, operator, type, conversion and
//! variable, mostly where it is allowed and now and then where it is not.

mod calls;
mod combined;
mod declarations;
mod directors;
mod expressions;
mod pieces;
mod running;
mod spans;
mod statements;
mod usual;
mod values;

pub(crate) use running::{OTHER_POLICY, PROBED, running};
pub(crate) use usual::usual;

use crate::draw::Draw;
use freshet_vcl::State;

/// Once in how many places something is put where it does not belong, in every other policy.
const WRONG_ONCE_IN: usize = 80;

/// Modules that Debian has in a package of its own.
const OTHER_MODULES: [&str; 9] =
    ["accept", "bodyaccess", "header", "saintmode", "str", "tcp", "var", "vsthrottle", "xkey"];

/// Other names of modules.
const ALIASES: [(&str, &str); 4] =
    [("cookie", "crumbs"), ("purge", "away"), ("str", "texts"), ("var", "kept")];

pub(crate) struct Grammar {
    draw: Draw,
    out: String,
    version: &'static str,
    /// The state being written; own subroutines borrow one.
    state: State,
    modules: Vec<&'static str>,
    /// Other names that modules are imported by.
    aliases: Vec<(&'static str, &'static str)>,
    /// Objects made so far, with their modules and classes.
    objects: Vec<(&'static str, &'static str, &'static str)>,
    functions: Vec<(&'static str, &'static str)>,
    /// Backends that can be asked.
    backends: Vec<&'static str>,
    /// The states of own subroutines.
    own: Vec<State>,
    /// The first own subroutine that may be called; none calls itself.
    first_own: usize,
    makes_mistakes: bool,
    /// Whether it is run, and therefore is to do the same each time, and something with most
    /// requests.
    is_run: bool,
    /// Whether bodies of requests are kept, and can be sent again.
    has_bodies: bool,
}

/// A policy for each seed, one statement in a line.
pub(crate) fn policy(seed: u64) -> String {
    let mut grammar = Grammar::new(seed);
    grammar.makes_mistakes = seed.is_multiple_of(2);
    grammar.top();
    grammar.out
}

impl Grammar {
    fn new(seed: u64) -> Self {
        let mut draw = Draw::seeded(seed);
        let version = if draw.once_in(3) { "4.0" } else { "4.1" };
        Self {
            draw,
            out: String::new(),
            version,
            state: State::Recv,
            modules: Vec::new(),
            aliases: Vec::new(),
            objects: Vec::new(),
            functions: Vec::new(),
            backends: vec!["b0", "b1"],
            own: Vec::new(),
            first_own: 0,
            makes_mistakes: false,
            is_run: false,
            has_bodies: false,
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// One of what is right, or now and then of what is not.
    fn pick<'a>(&mut self, right: &[&'a str], wrong: &[&'a str]) -> &'a str {
        if self.wrong() { self.draw.of(wrong) } else { self.draw.of(right) }
    }

    fn wrong(&mut self) -> bool {
        self.makes_mistakes && self.draw.once_in(WRONG_ONCE_IN)
    }

    fn import(&mut self, module: &'static str) {
        match ALIASES.iter().find(|(of, _)| *of == module) {
            Some(alias) if !self.is_run && self.draw.once_in(4) => {
                self.line(&format!("import {module} as {};", alias.1));
                self.aliases.push(*alias);
            }
            _ => self.line(&format!("import {module};")),
        }
        self.modules.push(module);
        let is_later = |name| {
            matches!(
                (module, name),
                ("std", "rfc_ttl")
                    | ("saintmode", "denylist")
                    | ("str", "token_intersect")
                    | ("vsthrottle", "remove_bucket")
            )
        };
        let signatures = freshet_vcl::signatures().filter(|(of, signature)| {
            // What Varnish 7.1 and the modules of its time have not is left out.
            *of == module && !is_later(freshet_vcl::Signature::name_of(signature))
        });
        self.functions.extend(signatures);
    }

    fn top(&mut self) {
        self.line(&format!("vcl {};", self.version));
        for module in ["std", "blob", "directors", "cookie", "purge", "unix", "proxy"] {
            if self.draw.below(3) > 0 {
                self.import(module);
            }
        }
        // Of Debian's package varnish-modules, where it was said where they are.
        let has_others = std::env::var_os("VMOD_PATH").is_some();
        for module in OTHER_MODULES {
            if has_others && self.draw.once_in(6) {
                self.import(module);
            }
        }
        if self.draw.once_in(2) {
            self.probe();
        } else {
            self.line("probe p0 { }");
        }
        self.backend("b0");
        self.line("backend b1 none;");
        self.acl();
        let states: Vec<State> = (0..1 + self.draw.below(3))
            .map(|_| State::ALL[self.draw.below(State::ALL.len())])
            .collect();
        self.own = (0..self.draw.below(3)).map(|_| states[self.draw.below(states.len())]).collect();
        for index in (0..self.own.len()).rev() {
            self.first_own = index + 1;
            self.state = self.own[index];
            self.sub(&format!("own{index}"));
        }
        self.first_own = 0;
        for state in states {
            self.state = state;
            self.sub(state.subroutine());
        }
        // All there is is used, or every other policy would end with that.
        self.line("sub vcl_recv {");
        self.line("if (client.ip ~ a0) { set req.backend_hint = b0; }");
        self.line("else { set req.backend_hint = b1; }");
        self.line("}");
        if self.wrong() {
            self.line("sub vcl_nothing { }");
        }
    }
}
