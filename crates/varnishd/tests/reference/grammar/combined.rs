//! Statements in which several things have to come together to mean anything: bans, bodies that are kept,
//! lifetimes that end between two requests, tags and limits.

use super::Grammar;
use freshet_vcl::State;

/// What a ban may look at, and what there is not.
const BANNED: [&str; 14] = [
    "req.url",
    "req.http.A",
    "req.http.none",
    "req.http.Host",
    "obj.http.A",
    "obj.http.content-type",
    "obj.http.X-From",
    "obj.status",
    "obj.status",
    "obj.ttl",
    "obj.age",
    "obj.grace",
    "obj.keep",
    "obj.nothing",
];
const BAN_OPERATORS: [&str; 10] = ["==", "==", "!=", "~", "!~", "<", "<=", ">", ">=", "=~"];
/// What that is compared with, for the operators of texts and of numbers.
const BAN_ARGUMENTS: [&str; 20] = [
    "/1",
    "^/",
    ".",
    "[0-9]+$",
    "(?i)HTML",
    "200",
    "404",
    "299",
    "200.5",
    "x200",
    "0s",
    "10s",
    "1m",
    "1.5h",
    "10",
    "-1s",
    "text/html",
    "\"text html\"",
    "[",
    "other",
];
/// Statements of a fetch that mean more together than alone.
const FETCHED: [&str; 10] = [
    "set beresp.ttl = 5ms; set beresp.grace = 30s;",
    "set beresp.ttl = 5ms; set beresp.grace = 0s; set beresp.keep = 30s;",
    "set beresp.ttl = 5ms; set beresp.grace = 30s; set beresp.do_esi = true;",
    "set beresp.ttl = 60s; set beresp.do_esi = true; set beresp.do_gzip = true;",
    "set beresp.ttl = 60s; set beresp.do_esi = true; set beresp.do_gunzip = true;",
    "set beresp.do_stream = false; set beresp.do_gzip = true;",
    "set beresp.uncacheable = true; set beresp.ttl = 20s;",
    "set beresp.uncacheable = true; set beresp.ttl = 5ms; set beresp.grace = 5s;",
    "set beresp.ttl = 0s; set beresp.grace = 30s; set beresp.keep = 30s;",
    "set beresp.http.Vary = \"A\"; set beresp.ttl = 30s;",
];
/// What a body goes through on its way in, and on its way out.
pub(super) const FILTERS_IN: [&str; 8] = [
    "\"esi\"",
    "\"gunzip\"",
    "\"gzip\"",
    "\"esi_gzip\"",
    "\"gunzip esi\"",
    "\"gunzip gzip\"",
    "\"\"",
    "beresp.filters + \" gzip\"",
];
pub(super) const FILTERS_OUT: [&str; 4] = ["\"esi\"", "\"\"", "\"range\"", "\"esi range\""];

impl Grammar {
    /// One condition or more, of which some make no ban.
    pub(super) fn ban(&mut self) -> String {
        let count = 1 + self.draw.below(2);
        let conditions: Vec<String> = (0..count).map(|_| self.ban_condition()).collect();
        let and = if self.draw.once_in(10) { " & " } else { " && " };
        format!("{{\"{}\"}}", conditions.join(and))
    }

    fn ban_condition(&mut self) -> String {
        let (field, operator) = (self.draw.of(&BANNED), self.draw.of(&BAN_OPERATORS));
        let fitting: &[&str] = match field {
            "obj.status" => &BAN_ARGUMENTS[5..10],
            "obj.ttl" | "obj.age" | "obj.grace" | "obj.keep" => &BAN_ARGUMENTS[10..16],
            _ => &BAN_ARGUMENTS,
        };
        let any = self.draw.once_in(10);
        let argument = self.draw.of(if any { &BAN_ARGUMENTS } else { fitting });
        format!("{field} {operator} {argument}")
    }

    /// What fits the state, where anything does.
    pub(super) fn combined(&mut self) -> bool {
        let has = |grammar: &Self, module| grammar.modules.contains(&module);
        let tag = self.draw.of(&["kSEED", "kSEED lSEED", "lSEED, kSEED"]);
        let text = match self.state {
            State::BackendResponse if has(self, "xkey") && self.draw.once_in(2) => {
                format!("set beresp.http.xkey = \"{tag}\";")
            }
            State::BackendResponse => self.draw.of(&FETCHED).to_owned(),
            State::Recv if has(self, "xkey") && self.draw.once_in(2) => {
                let purge = self.draw.of(&["purge", "softpurge"]);
                let number = self.draw.below(4);
                format!(
                    "if (req.http.R == \"{number}\") {{ set req.http.A = xkey.{purge}(\"{tag}\"); }}"
                )
            }
            State::Recv | State::Deliver if has(self, "vsthrottle") => {
                let message = if self.state == State::Recv { "req" } else { "resp" };
                let (limit, what) = (1 + self.draw.below(4), self.draw.below(3));
                let key = format!("\"SEED\" + req.http.A, {limit}, 1000s");
                match what {
                    0 => format!("set {message}.http.A = vsthrottle.remaining({key});"),
                    1 => format!("set {message}.http.A = \"\" + vsthrottle.blocked({key});"),
                    _ => format!("set {message}.http.b = \"\" + vsthrottle.is_denied({key});"),
                }
            }
            State::Recv if self.draw.once_in(2) => {
                let ban = self.ban();
                format!("if (!std.ban({ban})) {{ set req.http.A = std.ban_error(); }}")
            }
            state if state.is_client() => format!("ban({});", self.ban()),
            _ => return false,
        };
        self.line(&text);
        true
    }

    /// Has bodies of requests kept, so that they can be sent again.
    pub(super) fn keeps_bodies(&mut self) {
        self.line("sub vcl_recv {");
        self.line(
            "if (req.method == \"POST\" || req.method == \"PUT\") { std.cache_req_body(64KB); }",
        );
        self.line("}");
        self.has_bodies = true;
    }
}
