//! Backends, probes, access lists, objects and subroutines.

use super::Grammar;
use super::values::DURATIONS;
use freshet_vcl::{BACKEND_FIELDS, PROBE_FIELDS, Signature, State};

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

impl Grammar {
    pub(super) fn probe(&mut self) {
        self.line("probe p0 {");
        let mut seen = Vec::new();
        for _ in 0..self.draw.below(4) {
            let field = self.draw.of(&[&PROBE_FIELDS[..], &["colour"]].concat());
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

    pub(super) fn backend(&mut self, name: &str) {
        self.line(&format!("backend {name} {{"));
        if !self.wrong() {
            self.line(".host = \"127.0.0.1\";");
        }
        let mut seen = vec!["host", "probe"];
        self.line(".probe = p0;");
        for _ in 0..self.draw.below(4) {
            let field = self.draw.of(&[&BACKEND_FIELDS[..], &["share"]].concat());
            // Later versions have these.
            if field.starts_with("wait_") {
                continue;
            }
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

    pub(super) fn acl(&mut self) {
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

    pub(super) fn sub(&mut self, name: &str) {
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

    pub(super) fn objects(&mut self) {
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
                .find(|(of, signature)| *of == module && Signature::name_of(signature) == name)
            else {
                continue;
            };
            let arguments = self.arguments(signature, 1);
            self.line(&format!("new {object} = {module}.{class}({arguments});"));
            self.objects.push((object, module, class));
        }
    }
}
