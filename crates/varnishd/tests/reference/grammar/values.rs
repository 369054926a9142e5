//! What expressions begin with: literals, variables and fields.

use super::Grammar;
use super::running::FOUND_PATTERNS;
use freshet_vcl::Type;
use freshet_vcl::variables::{Definition, VARIABLES, Versions};

pub(super) const STRINGS: [&str; 16] = [
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
pub(super) const PATTERNS: [&str; 9] = [
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
pub(super) const BAD_PATTERNS: [&str; 3] = ["\"[\"", "\"(a\"", "\"*\""];
pub(super) const HEADERS: [&str; 9] = [
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
pub(super) const BAD_HEADERS: [&str; 1] = ["\"a.b\""];
pub(super) const NUMBERS: [&str; 12] =
    ["0", "1", "2", "7", "10", "100", "200", "404", "999999999999999", "1000", "4000", "15"];
pub(super) const REALS: [&str; 7] =
    ["0.0", "1.5", "2.", "0.125", "100.25", "999999999999.999", "3.0"];
pub(super) const DURATIONS: [&str; 11] =
    ["0s", "1s", "10s", "1.5m", "100ms", "2h", "1d", "1w", "1y", "1 s", "0.5s"];
pub(super) const BYTES: [&str; 6] = ["0B", "1KB", "1.5MB", "2GB", "1 KB", "3TB"];
pub(super) const BLOBS: [&str; 3] = [":YQ==:", ":YWJj:", ":YWI=:"];
pub(super) const BAD_BLOBS: [&str; 2] = [":a:", "::"];
pub(super) const IPS: [&str; 4] =
    ["\"192.0.2.1\"", "\"2001:db8::1\"", "\"127.0.0.1:80\"", "\"[::1]:8080\""];
pub(super) const BAD_IPS: [&str; 1] = ["\"nope\""];
pub(super) const BACKENDS: [&str; 3] = ["b0", "b1", "default"];
pub(super) const BAD_BACKENDS: [&str; 1] = ["missing"];
/// Variables and groups of them that Varnish 7.1 does not have, by what their names have in them.
const OWN_VARIABLES: [&str; 4] =
    [".media_", ".cmcd.", "bereq.retry_connect", "bereq.task_deadline"];
pub(super) const MESSAGES: [&str; 6] = ["req", "req_top", "bereq", "beresp", "obj", "resp"];
pub(super) const ACTIONS: [&str; 16] = [
    "abandon", "deliver", "error", "fail", "fetch", "hash", "lookup", "ok", "pass", "pipe",
    "purge", "restart", "retry", "synth", "vcl", "nothing",
];
impl Grammar {
    pub(super) fn variable_where(
        &mut self,
        has: impl Fn(&Definition) -> bool,
    ) -> Option<&'static Definition> {
        let anything = self.wrong();
        let is_own = |name: &str| OWN_VARIABLES.iter().any(|own| name.contains(own));
        let known = VARIABLES.iter().filter(|one| !is_own(one.name));
        let fitting: Vec<&Definition> = known.filter(|one| anything || has(one)).collect();
        (!fitting.is_empty()).then(|| self.draw.of(&fitting))
    }

    pub(super) fn has_fields(&self, written: bool) -> bool {
        freshet_vcl::Message::ALL
            .iter()
            .any(|message| if written { message.write() } else { message.read() }.has(self.state))
    }

    /// A header field that the state can read, or write.
    pub(super) fn field(&mut self, written: bool) -> String {
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
        let name = match self.meaning() {
            Some(name) => name,
            None => self.pick(&HEADERS, &BAD_HEADERS),
        };
        // An empty one counts as none here, as the documentation says.
        let name = if self.is_run && written && name == "Host" { "A" } else { name };
        format!("{message}.http.{name}")
    }

    pub(super) fn simple(&mut self, of: Type, depth: usize) -> String {
        match of {
            Type::String => match self.draw.below(3) {
                0 if self.has_fields(false) => self.field(false),
                1 if depth > 0 => self.converted(depth - 1),
                _ => self.literal().into(),
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
            Type::Time if self.is_run => {
                "std.time(\"Fri, 20 Nov 2026 12:00:00 GMT\", std.real2time(0.0, now))".into()
            }
            Type::Time => "now".into(),
            Type::Ip if self.draw.once_in(2) => self.pick(&IPS, &BAD_IPS).into(),
            Type::Ip => "client.ip".into(),
            Type::Blob => self.pick(&BLOBS, &BAD_BLOBS).into(),
            // The name of the default one is a word of the language where a text is wanted.
            Type::Backend if self.is_run => {
                let at = self.draw.below(self.backends.len());
                self.backends[at].into()
            }
            Type::Backend => self.pick(&BACKENDS, &BAD_BACKENDS).into(),
            Type::Regex => self.pattern().into(),
            Type::Acl => self.pick(&["a0"], &["missing"]).into(),
            Type::Header => self.field(false),
            Type::Http => self.draw.of(&MESSAGES).into(),
            Type::Stevedore => self.draw.of(&["storage.s0", "storage.Transient"]).into(),
            Type::Probe => "p0".into(),
            Type::Sub => "vcl_recv".into(),
            _ => "nothing".into(),
        }
    }

    /// A regular expression.
    pub(super) fn pattern(&mut self) -> &'static str {
        if self.is_run && self.draw.once_in(2) {
            self.draw.of(&FOUND_PATTERNS)
        } else {
            self.pick(&PATTERNS, &BAD_PATTERNS)
        }
    }

    /// A value of another type where a text is wanted.
    pub(super) fn converted(&mut self, depth: usize) -> String {
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
}

pub(super) fn fits_version(one: &Definition, version: &str) -> bool {
    match one.versions {
        Versions::Any => true,
        Versions::Until40 => version == "4.0",
        Versions::From41 => version == "4.1",
    }
}
