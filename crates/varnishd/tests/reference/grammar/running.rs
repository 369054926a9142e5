//! Random policies to be run: right ones, that do the same each time, and in which most of what
//! they do can be seen from outside.

use super::Grammar;
use super::combined::{FILTERS_IN, FILTERS_OUT};
use super::values::STRINGS;
use freshet_vcl::variables::Definition;
use freshet_vcl::{Action, State, Type};

/// Values that mean something to a cache.
const MEANT: [&str; 20] = [
    "\"max-age=10\"",
    "\"s-maxage=5, max-age=2\"",
    "\"no-cache\"",
    "\"private\"",
    "\"no-store, max-age=60\"",
    "\"max-age=0, stale-while-revalidate=30\"",
    "\"gzip\"",
    "\"gzip;q=0\"",
    "\"deflate, gzip\"",
    "{\"\"tag\"\"}",
    "{\"W/\"tag\"\"}",
    "\"bytes=0-2\"",
    "\"bytes=-3\"",
    "\"Accept-Encoding\"",
    "\"A, b\"",
    "\"close\"",
    "\"text/html\"",
    "\"Thu, 01 Jan 1970 00:00:00 GMT\"",
    "\"a=1; b=2; c\"",
    "\"192.0.2.1, 10.0.0.1\"",
];
/// Fields that mean something to a cache.
const MEANING: [&str; 13] = [
    "Cache-Control",
    "Expires",
    "Age",
    "Vary",
    "ETag",
    "Last-Modified",
    "If-None-Match",
    "If-Modified-Since",
    "Accept-Encoding",
    "Set-Cookie",
    "Surrogate-Control",
    "Location",
    "X-Forwarded-For",
];
/// States a request or a fetch is in, with how many of 8 policies say something there.
const STATES: [(State, usize); 12] = [
    (State::Recv, 7),
    (State::Hash, 2),
    (State::Hit, 3),
    (State::Miss, 2),
    (State::Pass, 3),
    (State::Pipe, 2),
    (State::Purge, 2),
    (State::Deliver, 6),
    (State::Synth, 4),
    (State::BackendFetch, 4),
    (State::BackendResponse, 6),
    (State::BackendError, 3),
];

/// What is asked of backends to see how they are.
pub(crate) const PROBED: &str = "/probed";
/// The label of another policy that random ones hand requests over to.
pub(crate) const OTHER_POLICY: &str = "other_policy";
/// What texts are replaced by.
pub(super) const REPLACEMENTS: [&str; 8] =
    ["\"[\\0]\"", "\"\\1-\\2\"", "\"\\9x\"", "\"\\\\1\"", "\"&\"", "\"\\&\"", "\"\"", "\"x\\\""];
/// Texts that are a value of some type, or nearly one.
const ODD: [&str; 26] = [
    "\" 12\"",
    "\"12 \"",
    "\"1e3\"",
    "\"0x10\"",
    "\"-0\"",
    "\"1.\"",
    "\".5\"",
    "\"+5\"",
    "\"-7\"",
    "\"9223372036854775808\"",
    "\"-1.5s\"",
    "\"1 s\"",
    "\"1.5.5\"",
    "\"1.5 KB\"",
    "\"-1KB\"",
    "\"10zz\"",
    "\"1m30s\"",
    "\"1994-11-06T08:49:37\"",
    "\"Sunday, 06-Nov-94 08:49:37 GMT\"",
    "\"Sun Nov  6 08:49:37 1994\"",
    "\"784111777\"",
    "\"784111777.7\"",
    "\"TRUE\"",
    "\"::1\"",
    "\"1000000000000\"",
    "\"0.0000001\"",
];
/// Patterns that match where nothing is, or what is found in texts that mean something.
pub(super) const FOUND_PATTERNS: [&str; 9] = [
    "\"^\"",
    "\"$\"",
    "\"x*\"",
    "\"(a|b|)\"",
    "\"\\b\"",
    "\"[^;=]+\"",
    "\"(?<n>\\d)(.)?\"",
    "\"(?s)^(.*?), *(.*)$\"",
    "\"(?:max-age|gzip)=?([0-9]+)?\"",
];

/// A policy for each seed. `ORIGIN` and `OTHER` in it are the ports of the origin, and `SEED` what keeps
/// its objects apart from those of others.
pub(crate) fn running(seed: u64) -> String {
    let mut grammar = Grammar::new(seed);
    grammar.is_run = true;
    grammar.runs();
    grammar.out
}

/// Whether two servers cannot be expected to read the same from it.
pub(super) fn is_unsteady(one: &Definition, state: State) -> bool {
    let name = one.name;
    one.of == Type::Time
        // There Varnish ends by an assertion of its own.
        || (name == "resp.filters" && state == State::Synth)
        // Varnish reads 0 where its documents say the backend's, or the parameter's.
        || (name.starts_with("bereq.") && name.ends_with("_timeout"))
        || name.ends_with(".xid")
        || name.ends_with("endpoint")
        || matches!(name, "resp.is_streaming" | "obj.ttl" | "obj.age" | "server.hostname")
}

/// Whether to set it makes two servers wait, drop who asked, or speak what no protocol is: what is sent
/// here is the connection's.
pub(super) fn is_untimely(one: &Definition, state: State, has_bodies: bool) -> bool {
    // There it still chooses here, as the documentation says.
    (one.name == "req.backend_hint" && state == State::Pipe)
        // There it is not known yet which there are.
        || (one.name == "resp.filters" && state == State::Synth)
        // With GET the built-in policy takes the body away, which there does nothing to one that is kept.
        || (one.name.ends_with(".method") && has_bodies)
        // Who would wait is passed here, as the documentation says.
        || one.name == "req.hash_ignore_busy"
        || one.name.starts_with("sess.")
        || one.name.contains("timeout")
        || one.name.ends_with(".proto")
}

impl Grammar {
    fn runs(&mut self) {
        self.line(&format!("vcl {};", self.version));
        self.import("std");
        for module in ["blob", "cookie", "purge"] {
            if self.draw.once_in(3) {
                self.import(module);
            }
        }
        if self.draw.once_in(2) {
            self.import("directors");
        }
        // Of Debian's package varnish-modules, where it was said where they are.
        let has_others = std::env::var_os("VMOD_PATH").is_some();
        for module in
            ["header", "str", "var", "bodyaccess", "accept", "saintmode", "xkey", "vsthrottle"]
        {
            if self.draw.once_in(6) && has_others {
                self.import(module);
            }
        }
        for module in ["proxy", "unix"] {
            if self.draw.once_in(12) {
                self.import(module);
            }
        }
        for (name, port) in [("b0", "ORIGIN"), ("b1", "OTHER")] {
            self.line(&format!("backend {name} {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}"));
        }
        self.line("backend gone none;");
        if self.draw.once_in(4) {
            self.probed();
        }
        self.acl();
        self.line("sub vcl_hash { hash_data(\"SEED\"); }");
        self.made();
        if self.draw.once_in(3) {
            self.keeps_bodies();
        }
        if self.draw.once_in(3) {
            self.own = vec![State::Recv, State::BackendResponse, State::Deliver];
            self.first_own = self.own.len();
            for index in 0..self.own.len() {
                self.state = self.own[index];
                self.written(&format!("own{index}"));
            }
            self.first_own = 0;
        }
        for (state, often) in STATES {
            if self.draw.below(8) < often {
                self.state = state;
                self.written(state.subroutine());
            }
        }
        // Where a policy rolls back, a failure does as well, as it always does under Varnish.
        self.line("sub vcl_synth { if (req.restarts > 99) { std.rollback(req); } }");
        if self.draw.once_in(2) {
            // Not to be cached for cookies alone would make most requests alike.
            self.line("sub vcl_recv { unset req.http.Cookie; }");
        }
    }

    /// Backends with all that can be said of them, and with probes that find them as they begin: the next
    /// comes too late to change that.
    fn probed(&mut self) {
        let rest = "\"ORIGIN\"; .host_header = \"named.example\"; .first_byte_timeout = 2s; \
                    .between_bytes_timeout = 2s; .connect_timeout = 1s; .max_connections = 50;";
        for (name, initial) in [("well", 8), ("sick", 0)] {
            self.line(&format!(
                "backend {name} {{ .host = \"127.0.0.1\"; .port = {rest} .probe = {{ .url = \
                 \"{PROBED}\"; .initial = {initial}; .threshold = 4; .interval = 1000s; }} }}"
            ));
            self.backends.push(name);
        }
    }

    /// Objects of modules that were imported.
    fn made(&mut self) {
        self.line("sub vcl_init {");
        let has = |grammar: &Self, module| grammar.modules.contains(&module);
        if has(self, "directors") {
            self.directors();
        }
        if has(self, "accept") {
            self.line("new lang = accept.rule(\"en\");");
            self.line("lang.add(\"de\");");
            self.objects.push(("lang", "accept", "rule"));
        }
        if has(self, "saintmode") {
            self.line("new sm = saintmode.saintmode(b0, 2);");
            self.objects.push(("sm", "saintmode", "saintmode"));
        }
        self.line("}");
    }

    fn written(&mut self, name: &str) {
        self.line(&format!("sub {name} {{"));
        for _ in 0..1 + self.draw.below(4) {
            self.run_statement();
        }
        if self.draw.once_in(2) && name.starts_with("vcl_") {
            self.leaves();
        }
        self.line("}");
    }

    fn run_statement(&mut self) {
        match self.draw.below(17) {
            0..=3 if self.has_fields(true) => self.shows(),
            4 | 5 => self.set(),
            6 if self.has_fields(true) => {
                let field = self.field(true);
                self.line(&format!("unset {field};"));
            }
            7 => {
                let condition = self.expression(Type::Bool, 2);
                self.line(&format!("if ({condition}) {{"));
                self.run_statement();
                if self.draw.once_in(2) {
                    self.line("} else {");
                    self.run_statement();
                }
                self.line("}");
            }
            8 if matches!(self.state, State::Synth | State::BackendError | State::Hash) => {
                self.builtin();
            }
            8 if self.state.is_client() => {
                let ban = self.ban();
                self.line(&format!("ban({ban});"));
            }
            9 => {
                if let Some(call) = self.call(None, 2) {
                    self.line(&format!("{call};"));
                }
            }
            10 => {
                let of_state = |at: &usize| self.own[*at] == self.state;
                let fitting = (self.first_own..self.own.len()).find(of_state);
                if let Some(index) = fitting {
                    self.line(&format!("call own{index};"));
                }
            }
            11 if self.combined() => {}
            14 | 15 if self.goes_by_director() => {}
            12 => self.reads_span(),
            13 => self.sets_timeout(),
            _ => self.set(),
        }
    }

    /// Puts a value of any type where it can be seen.
    fn shows(&mut self) {
        let field = self.field(true);
        let of = *self.draw.of(&[
            &Type::String,
            &Type::String,
            &Type::Int,
            &Type::Real,
            &Type::Duration,
            &Type::Bool,
            &Type::Ip,
            &Type::Backend,
            &Type::Blob,
            &Type::Time,
        ]);
        let value = self.expression(of, 3);
        let operator = self.draw.of(&["=", "=", "+="]);
        self.line(&format!("set {field} {operator} \"\" + ({value});"));
    }

    /// Leaves the state, for some requests.
    fn leaves(&mut self) {
        // Another policy gets no body there that this one has kept.
        let is_fit = |one: Action| one != Action::Fail && !(one == Action::Vcl && self.has_bodies);
        let actions = self.state.actions().iter().filter(|one| is_fit(**one));
        let actions: Vec<_> = actions.map(|one| one.name()).collect();
        if actions.is_empty() {
            return;
        }
        let action = self.draw.of(&actions);
        let text = match action {
            "synth" | "error" => {
                let status = self.status();
                // Of one that is empty Varnish 7.1 sends what lies behind it in memory.
                let reason = format!("\"r\" + {}", self.expression(Type::String, 1));
                self.draw
                    .of(&[
                        &*format!("return ({action}({status}));"),
                        &*format!("return ({action}({status}, {reason}));"),
                    ])
                    .to_owned()
            }
            // Another policy, which both have, and which keeps nothing.
            "vcl" => format!("return (vcl({OTHER_POLICY}));"),
            _ => self.returned(action),
        };
        let side = if self.state.is_client() { "req" } else { "bereq" };
        let mut condition = format!("{side}.http.R == \"{}\"", self.draw.below(4));
        if matches!(action, "restart" | "retry") && !self.has_bodies {
            // A short body is sent again here, and not by Varnish, as the documentation says.
            condition += &format!(" && {side}.method == \"GET\"");
        }
        if action == "hash" && self.has_bodies {
            // With GET the built-in policy takes the body away, which there does nothing to one that is kept.
            condition += " && req.method == \"GET\"";
        }
        if action == "pipe" && self.state.is_client() {
            // A request without a Host goes through a tunnel with the backend's here, and of a body that is kept
            // Varnish counts the bytes as the answer's.
            condition += " && req.http.Host && req.method == \"GET\"";
        }
        self.line(&format!("if ({condition}) {{ {text} }}"));
    }

    /// What a first line may have without being no first line any more.
    pub(super) fn start_line_word(&mut self, name: &str) -> Option<String> {
        let words: &[&str] = match name.rsplit('.').next()? {
            "status" => return Some(self.status()),
            "method" => &["\"GET\"", "\"HEAD\"", "\"POST\"", "\"FOO\"", "req_top.method"],
            "filters" if name.starts_with("beresp") => &FILTERS_IN,
            "filters" => &FILTERS_OUT,
            "url" => &["\"/1\"", "\"/22?c\"", "\"/333?b=1&a\"", "\"/a/4.css\""],
            _ => return None,
        };
        let word = self.draw.of(words);
        let of_client = word.starts_with("req_top") && !self.state.is_client();
        Some(if of_client { "bereq.method" } else { word }.to_owned())
    }

    /// A status, mostly one there is.
    pub(super) fn status(&mut self) -> String {
        match self.draw.below(12) {
            0 => self.draw.of(&["7", "99", "65536", "1200"]).to_owned(),
            1 => self.draw.of(&["204", "206", "304", "416", "600", "999", "1404"]).to_owned(),
            _ => self.draw.of(&["200", "201", "301", "403", "404", "410", "500", "503"]).to_owned(),
        }
    }

    /// A text as it is written, of those that mean something now and then.
    pub(super) fn literal(&mut self) -> &'static str {
        if self.is_run && self.draw.once_in(6) {
            self.draw.of(&ODD)
        } else if self.is_run && self.draw.once_in(2) {
            self.draw.of(&MEANT)
        } else {
            self.draw.of(&STRINGS)
        }
    }

    /// A name of a field that means something to a cache.
    pub(super) fn meaning(&mut self) -> Option<&'static str> {
        (self.is_run && self.draw.once_in(3)).then(|| self.draw.of(&MEANING))
    }
}
