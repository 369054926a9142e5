//! Random policies by the grammar of the language: every statement, operator, type, conversion and
//! variable, mostly where it is allowed and now and then where it is not.

use crate::draw::Draw;
use freshet_vcl::variables::{Definition, VARIABLES};
use freshet_vcl::{State, Type};

/// Once in how many places something is put where it does not belong, in every other policy.
const WRONG_ONCE_IN: usize = 80;

const STRINGS: [&str; 16] = [
    "\"a\"",
    "\"\"",
    "\"x y\"",
    "\"/p?q=1\"",
    "{\"long \"text\" here\"}",
    "\"\"\"also \"long\" here\"\"\"",
    "\"5s\"",
    "\"10KB\"",
    "\"42\"",
    "\"3.5\"",
    "\"192.0.2.1\"",
    "\"Fri, 20 Nov 2026 12:00:00 GMT\"",
    "\"a=1; b=2\"",
    "\"%41\"",
    "\"\u{e9}\"",
    "\"true\"",
];
const PATTERNS: [&str; 9] = [
    "\"^/a\"",
    "\"(?i)b+\"",
    "\"([a-z]+)=([0-9]*)\"",
    "\"\\.(png|css)$\"",
    "\"\"",
    "{\"\"\"}",
    "\"(?=x)y\"",
    "\"\\d{2,}\"",
    "\"(.)\\1\"",
];
const BAD_PATTERNS: [&str; 3] = ["\"[\"", "\"(a\"", "\"*\""];
const HEADERS: [&str; 9] = [
    "A",
    "b",
    "Host",
    "Cookie",
    "X-Forwarded-For",
    "content-type",
    "x_y",
    "Set-Cookie",
    "Cache-Control",
];
const BAD_HEADERS: [&str; 1] = ["\"a.b\""];
const NUMBERS: [&str; 12] =
    ["0", "1", "2", "7", "10", "100", "200", "404", "999999999999999", "1000", "65535", "15"];
const REALS: [&str; 7] = ["0.0", "1.5", "2.", "0.125", "100.25", "999999999999.999", "3.0"];
const DURATIONS: [&str; 11] =
    ["0s", "1s", "10s", "1.5m", "100ms", "2h", "1d", "1w", "1y", "1 s", "0.5s"];
const BYTES: [&str; 6] = ["0B", "1KB", "1.5MB", "2GB", "1 KB", "3TB"];
const BLOBS: [&str; 3] = [":YQ==:", ":YWJj:", ":YWI=:"];
const BAD_BLOBS: [&str; 2] = [":a:", "::"];
const IPS: [&str; 4] = ["\"192.0.2.1\"", "\"2001:db8::1\"", "\"127.0.0.1:80\"", "\"[::1]:8080\""];
const BAD_IPS: [&str; 1] = ["\"nope\""];
const BACKENDS: [&str; 3] = ["b0", "b1", "default"];
const BAD_BACKENDS: [&str; 1] = ["missing"];
const MESSAGES: [&str; 6] = ["req", "req_top", "bereq", "beresp", "obj", "resp"];
const ACTIONS: [&str; 16] = [
    "abandon", "deliver", "error", "fail", "fetch", "hash", "lookup", "ok", "pass", "pipe",
    "purge", "restart", "retry", "synth", "vcl", "nothing",
];
/// Objects a policy has, with the class of each.
const OBJECTS: [(&str, &str); 7] = [
    ("sh", "shard"),
    ("pa", "shard_param"),
    ("rr", "round_robin"),
    ("fb", "fallback"),
    ("rd", "random"),
    ("hs", "hash"),
    ("bl", "blob"),
];

pub(crate) struct Grammar {
    draw: Draw,
    out: String,
    version: &'static str,
    /// The state being written; own subroutines borrow one.
    state: State,
    modules: Vec<&'static str>,
    /// Objects made so far, with their modules and classes.
    objects: Vec<(&'static str, &'static str, &'static str)>,
    functions: Vec<(&'static str, &'static str)>,
    /// The states of own subroutines.
    own: Vec<State>,
    /// The first own subroutine that may be called; none calls itself.
    first_own: usize,
    makes_mistakes: bool,
}

/// A policy for each seed, one statement in a line.
pub(crate) fn policy(seed: u64) -> String {
    let mut draw = Draw::seeded(seed);
    let version = if draw.once_in(3) { "4.0" } else { "4.1" };
    let mut grammar = Grammar {
        draw,
        out: String::new(),
        version,
        state: State::Recv,
        modules: Vec::new(),
        objects: Vec::new(),
        functions: Vec::new(),
        own: Vec::new(),
        first_own: 0,
        makes_mistakes: seed.is_multiple_of(2),
    };
    grammar.top();
    grammar.out
}

impl Grammar {
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

    fn top(&mut self) {
        self.line(&format!("vcl {};", self.version));
        for module in ["std", "blob", "directors", "cookie", "purge", "unix", "proxy"] {
            if self.draw.below(3) > 0 {
                self.modules.push(module);
                self.line(&format!("import {module};"));
            }
        }
        self.functions =
            freshet_vcl::signatures().filter(|(module, _)| self.modules.contains(module)).collect();
        if self.draw.once_in(2) {
            self.probe();
        } else {
            self.line("probe p0 { }");
        }
        self.backend("b0");
        self.line("backend b1 none;");
        self.acl();
        let states: Vec<State> =
            (0..1 + self.draw.below(3)).map(|_| State::ALL[self.draw.below(13)]).collect();
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

    fn probe(&mut self) {
        self.line("probe p0 {");
        let mut seen = Vec::new();
        for _ in 0..self.draw.below(4) {
            let field = self.draw.of(&[
                "url",
                "request",
                "timeout",
                "interval",
                "window",
                "threshold",
                "initial",
                "expected_response",
                "colour",
            ]);
            let twin = match field {
                "request" => "url",
                "window" => "threshold",
                other => other,
            };
            if seen.contains(&twin) && !self.wrong() {
                continue;
            }
            seen.push(twin);
            let value = match field {
                "window" => "8; .threshold = 3".to_owned(),
                "url" => "\"/\"".to_owned(),
                "request" => "\"GET / HTTP/1.1\" \"Host: x\"".to_owned(),
                "timeout" | "interval" => self.draw.of(&DURATIONS).to_owned(),
                "colour" if !self.wrong() => continue,
                "expected_response" => self.pick(&["200", "404"], &["0", "1000", "-1"]).to_owned(),
                _ => self.pick(&["1", "3", "8"], &["0", "64", "65", "1.5", "-1"]).to_owned(),
            };
            self.line(&format!(".{field} = {value};"));
        }
        self.line("}");
    }

    fn backend(&mut self, name: &str) {
        self.line(&format!("backend {name} {{"));
        if !self.wrong() {
            self.line(".host = \"127.0.0.1\";");
        }
        let mut seen = vec!["host", "probe"];
        self.line(".probe = p0;");
        for _ in 0..self.draw.below(4) {
            let field = self.draw.of(&[
                "port",
                "host_header",
                "connect_timeout",
                "first_byte_timeout",
                "between_bytes_timeout",
                "max_connections",
                "proxy_header",
                "preamble",
                "probe",
                "path",
                "share",
                "host",
            ]);
            if seen.contains(&field) && !self.wrong() {
                continue;
            }
            seen.push(field);
            let value = match field {
                "port" => self.pick(&["\"8080\"", "\"http\""], &["80", "\"x y\""]),
                "host_header" => self.pick(&["\"example\"", "\"\""], &["example"]),
                "max_connections" => self.pick(&["10", "0"], &["\"1\"", "1.5"]),
                "proxy_header" => self.pick(&["1", "2"], &["3"]),
                "preamble" => self.pick(&[":YQ==:", "::"], &["\"a\""]),
                "probe" => self.pick(&["p0", "{ .url = \"/x\"; }"], &["missing", "default"]),
                "path" | "share" | "host" if !self.wrong() => continue,
                "path" => self.draw.of(&["\"/run/x\"", "\"relative\""]),
                "share" | "host" => "\"127.0.0.1\"",
                _ => self.draw.of(&DURATIONS),
            };
            let end = if value.starts_with('{') { "" } else { ";" };
            self.line(&format!(".{field} = {value}{end}"));
        }
        self.line("}");
    }

    fn acl(&mut self) {
        let flags = self.pick(
            &["", "", "", " +log", " -pedantic", " +table", " +log -table"],
            &[" +none", " + log", " log"],
        );
        self.line(&format!("acl a0{flags} {{"));
        for _ in 0..self.draw.below(4) {
            let entry = self.pick(
                &[
                    "\"192.0.2.0\"/24",
                    "! \"192.0.2.7\"",
                    "\"2001:db8::\"/32",
                    "\"::1\"",
                    "\"localhost\"",
                    "(\"10.0.0.1\")",
                    "! (\"10.0.0.0\"/8)",
                    "\"0.0.0.0\"/0",
                    "\"192.0.2.128\" / 25",
                ],
                &[
                    "\"192.0.2.1\"/24",
                    "\"192.0.2.0/24\"",
                    "\"10.0.0.0\"/33",
                    "\"::\"/129",
                    "\"10.1\"",
                    "\"::1\"",
                    "!! \"10.0.0.1\"",
                ],
            );
            self.line(&format!("{entry};"));
        }
        self.line("}");
    }

    fn sub(&mut self, name: &str) {
        self.line(&format!("sub {name} {{"));
        if name == "vcl_init" {
            self.objects();
        }
        if State::ALL.iter().any(|state| state.subroutine() == name) {
            for index in 0..self.own.len() {
                if self.own[index] == self.state {
                    self.line(&format!("call own{index};"));
                }
            }
        }
        for _ in 0..1 + self.draw.below(5) {
            self.statement(0);
        }
        self.line("}");
    }

    fn objects(&mut self) {
        for (object, class) in OBJECTS {
            if !self.draw.once_in(3) {
                continue;
            }
            let module = if class == "blob" { "blob" } else { "directors" };
            if !self.modules.contains(&module) && !self.wrong() {
                continue;
            }
            let name = format!("new {class}");
            let Some((_, signature)) = freshet_vcl::signatures()
                .find(|(of, signature)| *of == module && name_of(signature) == name)
            else {
                continue;
            };
            let arguments = self.arguments(signature, 1);
            self.line(&format!("new {object} = {module}.{class}({arguments});"));
            self.objects.push((object, module, class));
        }
    }

    fn statement(&mut self, depth: usize) {
        match self.draw.below(16) {
            0..=5 => self.set(),
            6 => {
                let target = match self.draw.below(8) {
                    0 if self.state == State::BackendFetch => "bereq.body".into(),
                    _ if self.wrong() => {
                        self.draw.of(&["bereq.body", "req.url", "beresp.ttl", "req.http"]).into()
                    }
                    _ if !self.has_fields(true) => return,
                    _ => self.field(true),
                };
                self.line(&format!("unset {target};"));
            }
            7 | 8 if depth < 3 => {
                let condition = self.expression(Type::Bool, 2);
                self.line(&format!("if ({condition}) {{"));
                self.statement(depth + 1);
                if self.draw.once_in(2) {
                    let word = self.draw.of(&["elseif", "elsif", "elif", "else if"]);
                    let condition = self.expression(Type::Bool, 2);
                    self.line(&format!("}} {word} ({condition}) {{"));
                    self.statement(depth + 1);
                }
                if self.draw.once_in(2) {
                    self.line("} else {");
                    self.statement(depth + 1);
                }
                self.line("}");
            }
            9 => {
                let actions: Vec<_> = self.state.actions().iter().map(|one| one.name()).collect();
                let action =
                    if self.wrong() { self.draw.of(&ACTIONS) } else { self.draw.of(&actions) };
                let text = self.returned(action);
                self.line(&text);
            }
            10 => {
                let of_state = |at: &usize| self.own[*at] == self.state;
                let fitting: Vec<usize> =
                    (self.first_own..self.own.len()).filter(of_state).collect();
                if !fitting.is_empty() {
                    let index = fitting[self.draw.below(fitting.len())];
                    self.line(&format!("call own{index};"));
                }
            }
            11 => self.builtin(),
            12..=14 => {
                let call = self.call(None, 2);
                if let Some(call) = call {
                    self.line(&format!("{call};"));
                }
            }
            _ if depth < 3 => {
                self.line("{");
                self.statement(depth + 1);
                self.line("}");
            }
            _ => self.set(),
        }
    }

    fn returned(&mut self, action: &str) -> String {
        let arguments = match action {
            "synth" | "error" => match self.draw.below(4) {
                0 => format!("({})", self.expression(Type::Int, 1)),
                1 if action == "error" => String::new(),
                _ => {
                    let (status, text) =
                        (self.expression(Type::Int, 1), self.expression(Type::String, 1));
                    format!("({status}, {text})")
                }
            },
            "fail" if self.draw.once_in(2) => format!("({})", self.expression(Type::String, 1)),
            "pass" if self.state == State::BackendResponse && self.draw.once_in(2) => {
                format!("({})", self.expression(Type::Duration, 1))
            }
            "vcl" if !self.wrong() => return "return (pass);".into(),
            "vcl" => self.draw.of(&["(label)", "", "(\"label\")"]).into(),
            _ if self.wrong() => "(1)".into(),
            _ => String::new(),
        };
        format!("return ({action}{arguments});")
    }

    fn builtin(&mut self) {
        let text = match self.state {
            State::Hash => format!("hash_data({});", self.expression(Type::String, 2)),
            State::Synth | State::BackendError => {
                format!("synthetic({});", self.expression(Type::String, 2))
            }
            _ => format!("ban({});", self.expression(Type::String, 2)),
        };
        self.line(&text);
    }

    fn set(&mut self) {
        if self.draw.once_in(2) && self.has_fields(true) {
            let field = self.field(true);
            let operator = self.draw.of(&["=", "=", "=", "+="]);
            let value = self.expression(Type::String, 3);
            return self.line(&format!("set {field} {operator} {value};"));
        }
        let state = self.state;
        let version = self.version;
        let found = self.variable_where(|one| {
            fits_version(one, version)
                && if version == "4.0" { one.write_40 } else { one.write }.has(state)
        });
        let Some(variable) = found else { return };
        let operators: &[&str] = match variable.of {
            Type::Int | Type::Duration | Type::Time => &["=", "=", "=", "+=", "-=", "*=", "/="],
            Type::String | Type::Body => &["=", "=", "+="],
            _ => &["="],
        };
        let operator =
            if self.wrong() { self.draw.of(&["+=", "*=", "=="]) } else { self.draw.of(operators) };
        let of = match (variable.of, operator) {
            (Type::Duration, "*=" | "/=") => Type::Real,
            (Type::Time, _) => Type::Duration,
            (Type::Body, _) if self.draw.once_in(4) => Type::Blob,
            (Type::Body, _) => Type::String,
            (of, _) => of,
        };
        let value = self.expression(of, 3);
        self.line(&format!("set {} {operator} {value};", variable.name));
    }

    fn variable_where(&mut self, has: impl Fn(&Definition) -> bool) -> Option<&'static Definition> {
        let anything = self.wrong();
        let fitting: Vec<&Definition> =
            VARIABLES.iter().filter(|one| anything || has(one)).collect();
        (!fitting.is_empty()).then(|| self.draw.of(&fitting))
    }

    fn has_fields(&self, written: bool) -> bool {
        freshet_vcl::Message::ALL
            .iter()
            .any(|message| if written { message.write() } else { message.read() }.has(self.state))
    }

    /// A header field that the state can read, or write.
    fn field(&mut self, written: bool) -> String {
        let state = self.state;
        let fits = |message: &freshet_vcl::Message| {
            if written { message.write().has(state) } else { message.read().has(state) }
        };
        let fitting: Vec<&str> = freshet_vcl::Message::ALL
            .iter()
            .filter(|message| fits(message))
            .map(|message| message.name())
            .collect();
        let message = if fitting.is_empty() || self.wrong() {
            self.draw.of(&MESSAGES)
        } else {
            self.draw.of(&fitting)
        };
        format!("{message}.http.{}", self.pick(&HEADERS, &BAD_HEADERS))
    }

    fn expression(&mut self, of: Type, depth: usize) -> String {
        let of = if self.wrong() {
            *self.draw.of(&[
                &Type::String,
                &Type::Int,
                &Type::Duration,
                &Type::Bool,
                &Type::Time,
                &Type::Bytes,
                &Type::Ip,
                &Type::Real,
                &Type::Backend,
                &Type::Blob,
            ])
        } else {
            of
        };
        let of = if of == Type::Strands { Type::String } else { of };
        let state = self.state;
        if depth > 0 && !matches!(of, Type::Regex | Type::Enum | Type::Header | Type::Http) {
            match self.draw.below(10) {
                0 | 1 => {
                    if let Some(call) = self.call(Some(of), depth - 1) {
                        return call;
                    }
                }
                2 => return format!("({})", self.expression(of, depth - 1)),
                3..=5 => {
                    if let Some(text) = self.operation(of, depth - 1) {
                        return text;
                    }
                }
                6 | 7 => {
                    let version = self.version;
                    let found = self.variable_where(|one| {
                        one.of == of && one.read.has(state) && fits_version(one, version)
                    });
                    if let Some(variable) = found.filter(|one| one.of == of) {
                        return variable.name.into();
                    }
                }
                _ => {}
            }
        }
        self.simple(of, depth)
    }

    fn simple(&mut self, of: Type, depth: usize) -> String {
        match of {
            Type::String => match self.draw.below(3) {
                0 if self.has_fields(false) => self.field(false),
                1 if depth > 0 => self.converted(depth - 1),
                _ => self.draw.of(&STRINGS).into(),
            },
            Type::Int => {
                let sign = if self.draw.once_in(8) { "-" } else { "" };
                format!("{sign}{}", self.draw.of(&NUMBERS))
            }
            Type::Real => {
                let sign = if self.draw.once_in(8) { "-" } else { "" };
                let number = if self.draw.once_in(5) {
                    self.draw.of(&NUMBERS)
                } else {
                    self.draw.of(&REALS)
                };
                format!("{sign}{number}")
            }
            Type::Duration => {
                let sign = if self.draw.once_in(8) { "-" } else { "" };
                format!("{sign}{}", self.draw.of(&DURATIONS))
            }
            Type::Bytes => self.draw.of(&BYTES).into(),
            Type::Bool => self.condition(depth.saturating_sub(1)),
            Type::Time => "now".into(),
            Type::Ip if self.draw.once_in(2) => self.pick(&IPS, &BAD_IPS).into(),
            Type::Ip => "client.ip".into(),
            Type::Blob => self.pick(&BLOBS, &BAD_BLOBS).into(),
            Type::Backend => self.pick(&BACKENDS, &BAD_BACKENDS).into(),
            Type::Regex => self.pick(&PATTERNS, &BAD_PATTERNS).into(),
            Type::Acl => self.pick(&["a0"], &["missing"]).into(),
            Type::Header => self.field(false),
            Type::Http => self.draw.of(&MESSAGES).into(),
            Type::Stevedore => self.draw.of(&["storage.s0", "storage.Transient"]).into(),
            Type::Probe => "p0".into(),
            Type::Sub => "vcl_recv".into(),
            _ => "nothing".into(),
        }
    }

    /// A value of another type where a text is wanted.
    fn converted(&mut self, depth: usize) -> String {
        let of = self.draw.of(&[
            &Type::Int,
            &Type::Real,
            &Type::Duration,
            &Type::Time,
            &Type::Bool,
            &Type::Ip,
            &Type::Backend,
            &Type::Blob,
        ]);
        self.expression(*of, depth)
    }

    fn operation(&mut self, of: Type, depth: usize) -> Option<String> {
        use Type as T;
        let (left, operator, right) = match of {
            T::String => {
                if self.draw.once_in(6) && self.has_fields(false) {
                    let method = self.draw.of(&["upper", "lower"]);
                    return Some(format!("{}.{method}()", self.field(false)));
                }
                (T::String, self.pick(&["+"], &["", "-"]), T::String)
            }
            T::Int => (T::Int, self.draw.of(&["+", "-", "*", "/", "%"]), T::Int),
            T::Real => {
                let right = self.draw.of(&[&T::Int, &T::Real]);
                (T::Real, self.draw.of(&["+", "-", "*", "/"]), *right)
            }
            T::Duration if self.draw.once_in(2) => {
                let by = self.draw.of(&[&T::Int, &T::Real]);
                (T::Duration, self.draw.of(&["*", "/"]), *by)
            }
            T::Duration if self.draw.once_in(4) => return Some("now - now".into()),
            T::Duration => (T::Duration, self.draw.of(&["+", "-"]), T::Duration),
            T::Time => (T::Time, self.draw.of(&["+", "-"]), T::Duration),
            T::Bytes => match self.draw.below(2) {
                0 => (T::Bytes, self.draw.of(&["+", "-"]), T::Bytes),
                _ => (T::Bytes, self.draw.of(&["*", "/"]), T::Int),
            },
            T::Bool => return Some(self.condition(depth)),
            _ => return None,
        };
        let left = self.expression(left, depth);
        let right = match operator {
            // Nobody is to divide by nothing.
            "/" | "%" => self.draw.of(&NUMBERS[1..]).to_owned(),
            _ => self.expression(right, depth),
        };
        Some(format!("{left} {operator} {right}"))
    }

    fn condition(&mut self, depth: usize) -> String {
        use Type as T;
        match self.draw.below(9) {
            0 => self.draw.of(&["true", "false", "True", "False"]).into(),
            1 if self.has_fields(false) => self.field(false),
            2 => format!("!({})", self.expression(T::Bool, depth)),
            3 => {
                let text = self.plain_text();
                let operator = self.draw.of(&["~", "!~"]);
                let pattern = self.pick(&PATTERNS, &BAD_PATTERNS);
                format!("{text} {operator} {pattern}")
            }
            4 => format!("client.ip {} a0", self.draw.of(&["~", "!~"])),
            5 => {
                let operator = self.draw.of(&["&&", "||"]);
                let (left, right) =
                    (self.expression(T::Bool, depth), self.expression(T::Bool, depth));
                format!("{left} {operator} {right}")
            }
            6 => match self.draw.below(2) {
                0 => self.plain_text(),
                _ => self.expression(T::Int, depth),
            },
            _ => {
                let of = *self.draw.of(&[
                    &T::Int,
                    &T::Real,
                    &T::Duration,
                    &T::Time,
                    &T::Bytes,
                    &T::String,
                    &T::String,
                    &T::Ip,
                    &T::Bool,
                    &T::Backend,
                ]);
                let operator = self.draw.of(&["==", "!=", "<", "<=", ">", ">="]);
                let operator = match of {
                    T::Ip | T::Bool | T::Backend if !self.wrong() => self.draw.of(&["==", "!="]),
                    _ => operator,
                };
                let (left, right) = match of {
                    T::String => (self.plain_text(), self.plain_text()),
                    T::Ip => ("client.ip".into(), self.expression(of, depth)),
                    T::Bytes => ("storage.s0.free_space".into(), self.expression(of, depth)),
                    T::Real => (self.draw.of(&REALS).into(), self.expression(of, depth)),
                    T::Bool => {
                        (format!("({})", self.condition(0)), format!("({})", self.condition(0)))
                    }
                    T::Backend => (self.pick(&["b0", "b1"], &["missing"]).into(), "b0".into()),
                    _ => (self.expression(of, depth), self.expression(of, depth)),
                };
                format!("{left} {operator} {right}")
            }
        }
    }

    /// A text that no other type has to become, as comparisons demand.
    fn plain_text(&mut self) -> String {
        match self.draw.below(4) {
            0 | 1 if self.has_fields(false) => self.field(false),
            2 => format!("regsub({}, \"a\", \"b\")", self.draw.of(&STRINGS)),
            _ => self.draw.of(&STRINGS).into(),
        }
    }

    /// A call of a function that returns an `of`, or of any.
    fn call(&mut self, of: Option<Type>, depth: usize) -> Option<String> {
        if of == Some(Type::String) && self.draw.once_in(3) {
            let name = self.draw.of(&["regsub", "regsuball"]);
            let text = self.expression(Type::String, depth);
            let pattern = self.pick(&PATTERNS, &BAD_PATTERNS);
            let by = self.expression(Type::String, 0);
            return Some(format!("{name}({text}, {pattern}, {by})"));
        }
        if !self.objects.is_empty() && self.draw.once_in(3) {
            let (object, module, class) = self.objects[self.draw.below(self.objects.len())];
            let wanted = of.map(|of| of.to_string());
            let methods: Vec<(&str, &str)> = freshet_vcl::signatures()
                .filter(|(of, signature)| {
                    let returns = signature.split(' ').next().unwrap_or("");
                    *of == module
                        && name_of(signature).starts_with(&format!("{class}."))
                        && wanted.as_deref().is_none_or(|wanted| wanted == returns)
                })
                .collect();
            let refs: Vec<&(&str, &str)> = methods.iter().collect();
            if !refs.is_empty() {
                let (_, signature) = *self.draw.of(&refs);
                let arguments = self.arguments(signature, depth);
                let method = name_of(signature).split('.').next_back().unwrap_or("");
                return Some(format!("{object}.{method}({arguments})"));
            }
        }
        let fitting: Vec<(&str, &str)> = self
            .functions
            .iter()
            .filter(|(_, signature)| {
                let name = name_of(signature);
                let returns = signature.split(' ').next().unwrap_or("");
                let wanted = of.map(|of| of.to_string());
                !name.contains([' ', '.'])
                    && wanted.is_none_or(|wanted| {
                        wanted == returns || (wanted == "STRING" && returns == "STRANDS")
                    })
            })
            .copied()
            .collect();
        let refs: Vec<&(&str, &str)> = fitting.iter().collect();
        if refs.is_empty() {
            return None;
        }
        let (module, signature) = *self.draw.of(&refs);
        let arguments = self.arguments(signature, depth);
        Some(format!("{module}.{}({arguments})", name_of(signature)))
    }

    fn arguments(&mut self, signature: &str, depth: usize) -> String {
        let mut out: Vec<String> = Vec::new();
        let mut named = false;
        for parameter in parameters(signature) {
            if parameter.has_default && self.draw.once_in(2) {
                named = true;
                continue;
            }
            let value = match parameter.words.is_empty() {
                true => {
                    let of = of_name(parameter.of);
                    self.expression(of, depth)
                }
                false => {
                    let at = self.draw.below(parameter.words.len());
                    if self.wrong() { "WRONG".into() } else { parameter.words[at].to_owned() }
                }
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

fn fits_version(one: &Definition, version: &str) -> bool {
    use freshet_vcl::variables::Versions;
    match one.versions {
        Versions::Any => true,
        Versions::Until40 => version == "4.0",
        Versions::From41 => version == "4.1",
    }
}

fn name_of(signature: &str) -> &str {
    let head = signature.split('(').next().unwrap_or("");
    head.split_once(' ').map_or(head, |(_, name)| name)
}

struct Parameter<'a> {
    of: &'a str,
    name: &'a str,
    has_default: bool,
    words: Vec<&'a str>,
}

fn parameters(signature: &str) -> Vec<Parameter<'_>> {
    let inner = signature.split_once('(').map_or("", |(_, rest)| rest);
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    let mut parts = Vec::new();
    let (mut start, mut depth, mut quoted) = (0, 0, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth -= 1,
            b',' if depth == 0 && !quoted => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let bare = part.trim_start_matches('[').trim_end_matches(']');
            let (head, _) = bare.split_once('=').unwrap_or((bare, ""));
            let has_default = bare.len() != part.len() || head.len() != bare.len();
            let (of, name, words) = match head.split_once('}') {
                Some((words, name)) => {
                    let words = words.split_once('{').map_or("", |(_, words)| words);
                    ("ENUM", name.trim(), words.split(',').map(str::trim).collect())
                }
                None => {
                    let head = head.trim();
                    let (of, name) = head.split_once(' ').unwrap_or((head, ""));
                    (of, name.trim(), Vec::new())
                }
            };
            Parameter { of, name, has_default, words }
        })
        .collect()
}

fn of_name(name: &str) -> Type {
    use Type as T;
    let all = [
        T::Acl,
        T::Backend,
        T::Blob,
        T::Bool,
        T::Bytes,
        T::Duration,
        T::Header,
        T::Http,
        T::Int,
        T::Ip,
        T::Probe,
        T::Real,
        T::Regex,
        T::Stevedore,
        T::String,
        T::Strands,
        T::Sub,
        T::Time,
    ];
    all.into_iter().find(|of| of.to_string() == name).unwrap_or(T::String)
}
