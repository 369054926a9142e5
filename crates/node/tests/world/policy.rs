//! A policy in VCL as operators write them, what it makes of requests, and what it allows.

use crate::entity::{Nature, PATHS, SITES, target};
use crate::random::Random;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use tempfile::TempDir;

/// The site that has it, in the worlds where there is one.
pub(crate) const SITE: usize = 1;
/// Of a thousand worlds so many have a policy.
const WORLDS_PERMILLE: u64 = 250;
/// What is at a path is told apart by so many things that are asked besides it.
pub(crate) const ASKED: u64 = 4;
/// The status of what it answers without any origin; nothing else has it.
pub(crate) const TEAPOT: u16 = 418;

/// A policy: how long it keeps things, and how it finds an origin.
#[derive(Debug)]
pub(crate) struct Policy {
    ttl_s: u64,
    grace_s: u64,
    keep_s: u64,
    director: &'static str,
    /// Paths that are somebody's: cookies go to origins there and nowhere else.
    personal: String,
    files: TempDir,
}

impl Policy {
    /// Decides about the policy of the world of a seed. What is drawn for it is drawn apart: a world without
    /// is the same as if there never were any.
    pub(crate) fn draw(seed: u64, natures: &[Nature]) -> Option<Self> {
        let mut random = Random(seed ^ 0x706f_6c69_6379);
        if !random.chance(WORLDS_PERMILLE) {
            return None;
        }
        let personal = (0..PATHS).filter(|path| natures[*path].is_personal());
        let personal: Vec<_> = personal.map(|path| path.to_string()).collect();
        Some(Self {
            ttl_s: random.of(&[1, 2, 10, 60]),
            grace_s: random.of(&[0, 1, 5, 20]),
            keep_s: random.of(&[0, 10, 60]),
            director: random.of(&["round_robin", "fallback", "random"]),
            personal: personal.join("|"),
            files: tempfile::tempdir().expect("there is room for a file"),
        })
    }

    pub(crate) fn described(&self) -> String {
        let Self { ttl_s, grace_s, keep_s, director, personal, .. } = self;
        format!(
            "{} has a policy: ttl {ttl_s}, grace {grace_s}, keep {keep_s}, {director}, personal {personal:?}",
            SITES[SITE]
        )
    }

    /// How old what it keeps may be when it is given, at each node.
    pub(crate) const fn allowed_s(&self) -> u64 {
        self.ttl_s + self.grace_s
    }

    /// The file with its text for a node that asks these.
    pub(crate) fn file(&self, node: &str, backends: &[SocketAddr]) -> PathBuf {
        let path = self.files.path().join(format!("{node}.vcl"));
        std::fs::write(&path, self.text(backends)).expect("there is room for a file");
        path
    }

    fn text(&self, backends: &[SocketAddr]) -> String {
        let mut text = "vcl 4.1;\nimport directors;\nimport std;\n".to_owned();
        let mut all = String::new();
        for (number, backend) in backends.iter().enumerate() {
            let (host, port) = (backend.ip(), backend.port());
            let _ =
                writeln!(text, "backend b{number} {{ .host = \"{host}\"; .port = \"{port}\"; }}");
            let weight = if self.director == "random" { ", 1.0" } else { "" };
            let _ = write!(all, " all.add_backend(b{number}{weight});");
        }
        let Self { ttl_s, grace_s, keep_s, director, personal, .. } = self;
        let _ = write!(text, "sub vcl_init {{ new all = directors.{director}();{all} }}");
        let strip = match personal.is_empty() {
            true => "unset req.http.Cookie;".to_owned(),
            false => format!("if (req.url !~ \"^/e({personal})\\?\") {{ unset req.http.Cookie; }}"),
        };
        let _ = write!(
            text,
            r#"
acl operators {{ "127.0.0.1"; }}

sub vcl_recv {{
    set req.backend_hint = all.backend();
    if (req.url == "/teapot") {{ return (synth({TEAPOT}, "Short and stout")); }}
    set req.url = regsuball(req.url, "&?utm_[a-z]+=[^&]*", "");
    set req.url = std.querysort(regsub(req.url, "\?&", "?"));
    if (!req.http.X-Group) {{ set req.http.X-Group = "0"; }}
    if (req.method == "PURGE" || req.method == "BAN") {{
        if (client.ip !~ operators) {{ return (synth(405)); }}
        if (req.method == "PURGE") {{ return (purge); }}
        ban("req.http.host == " + req.http.host + " && req.url ~ ^" + req.url + "([?]|$)");
        return (synth(200, "Banned"));
    }}
    {strip}
}}

sub vcl_hash {{
    hash_data(req.http.X-Group);
}}

sub vcl_backend_response {{
    if (beresp.status >= 500 && bereq.method == "GET" && bereq.retries < 1) {{
        set bereq.backend = all.backend();
        return (retry);
    }}
    if (beresp.status == 200) {{
        set beresp.ttl = {ttl_s}s;
        set beresp.grace = {grace_s}s;
        set beresp.keep = {keep_s}s;
    }} else {{
        set beresp.ttl = 1s;
        set beresp.uncacheable = true;
        return (deliver);
    }}
}}

sub vcl_deliver {{
    if (client.ip !~ operators) {{ unset resp.http.Surrogate-Key; }}
    if (resp.status == 503 && req.method == "GET" && req.restarts < 1) {{ return (restart); }}
}}

sub vcl_synth {{
    if (resp.status == {TEAPOT}) {{
        set resp.body = "short and stout";
        return (deliver);
    }}
}}
"#
        );
        text
    }
}

/// The target that origins hear for a path and what else is asked, and the group that goes with it.
pub(crate) fn asked_of_origin(path: usize, asked: u64) -> (String, u64) {
    (format!("{}?a=1&b={}", target(path), asked / 2), asked % 2)
}

/// One of the ways in which clients ask for it.
pub(crate) fn asked_by_client(random: &mut Random, path: usize, asked: u64) -> String {
    let b = asked / 2;
    let query = match random.within(0..4) {
        0 => format!("a=1&b={b}"),
        1 => format!("b={b}&a=1"),
        2 => format!("utm_source={}&b={b}&a=1", random.within(0..100)),
        _ => format!("a=1&utm_campaign=x&b={b}&utm_source={}", random.within(0..100)),
    };
    format!("{}?{query}", target(path))
}

/// What a target and a group ask besides the path, where they are as the policy sends them.
pub(crate) fn asked_in(target: &str, group: Option<&str>) -> Option<u64> {
    let path = crate::entity::path_of(target)?;
    (0..ASKED).find(|asked| {
        let (wanted, number) = asked_of_origin(path, *asked);
        wanted == target && group == Some(&*number.to_string())
    })
}
