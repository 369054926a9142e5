//! Every function of `std`.

use crate::scene::{ALL, Scene, after, compile, table};
use freshet_vcl::{Outcome, State};

#[test]
fn texts_and_numbers_of_std() {
    table(&[
        ("std.toupper(\"aB\" + \"c\")", "ABC"),
        ("std.tolower(\"aB\")", "ab"),
        ("std.querysort(\"/p?c=3&a=1&&b=2\")", "/p?a=1&b=2&c=3"),
        ("std.querysort(\"/p?\")", "/p?"),
        ("std.querysort(\"/p\")", "/p"),
        ("std.strstr(\"hay needle stack\", \"needle\")", "needle stack"),
        ("std.strstr(\"hay\", \"needle\")", ""),
        ("\"\" + std.fnmatch(\"/a/*.ts\", \"/a/b.ts\")", "true"),
        ("\"\" + std.fnmatch(\"/a/*.ts\", \"/a/b/c.ts\")", "false"),
        ("\"\" + std.fnmatch(\"/a/*.ts\", \"/a/b/c.ts\", false)", "true"),
        ("\"\" + std.fnmatch(\"[a-c]?[!x]\", \"bzy\")", "true"),
        ("\"\" + std.fnmatch(\"*\", \".hidden\", period = true)", "false"),
        ("\"\" + std.fnmatch(\"\\*\", \"*\")", "true"),
        ("\"\" + std.fnmatch(\"[[:digit:]]*\", \"1x\")", "true"),
        ("\"\" + std.fnmatch(\"[^[:alpha:]_]\", \"_\")", "false"),
        ("\"\" + std.fnmatch(\"[[:x]\", \":\")", "true"),
        ("\"\" + std.fnmatch(\"[\\]]x\", \"]x\")", "true"),
        ("\"\" + std.fnmatch(\"[a-\\c]\", \"b\")", "true"),
        ("\"\" + std.fnmatch(\"[\\]]\", \"\\]\", noescape = true)", "true"),
        ("\"\" + std.round(2.5)", "3.000"),
        ("\"\" + std.port(client.ip)", "4711"),
        ("\"\" + std.port(server.ip)", "80"),
        ("std.getenv(\"HOME\")", "/root"),
        ("std.getenv(\"NOTHING\")", ""),
        ("\"\" + std.syntax(4.0) + std.syntax(4.1)", "truetrue"),
    ]);
    let (outcome, _) = after(
        State::Recv,
        ALL,
        "if (std.random(1, 2) >= 1.0 && std.random(1, 2) < 2.0) { return (pass); }",
    );
    assert_eq!(outcome, Outcome::Pass(None));
}

#[test]
fn conversions_of_std() {
    table(&[
        ("\"\" + std.duration(\"10s\", 1s)", "10.000"),
        ("\"\" + std.duration(\"1.5h\", 1s)", "5400.000"),
        ("\"\" + std.duration(\"nonsense\", 1s)", "1.000"),
        ("\"\" + std.duration(real = 2.5)", "2.500"),
        ("\"\" + std.duration(integer = 4)", "4.000"),
        ("\"\" + std.duration(\"nonsense\")", "failed: std.duration: conversion failed"),
        ("\"\" + std.bytes(\"10KB\", 1B)", "10240"),
        ("\"\" + std.bytes(\"1.5m\", 1B)", "1572864"),
        ("\"\" + std.bytes(\"x\", 1B)", "1"),
        ("\"\" + std.bytes(fallback = 1B)", "failed: std.bytes: not enough arguments"),
        ("\"\" + std.bytes(integer = 7)", "7"),
        ("\"\" + std.bytes(real = 7.9)", "7"),
        ("\"\" + std.bytes(real = -0.5)", "failed: std.bytes: conversion failed"),
        ("\"\" + std.integer(\"42\", 0)", "42"),
        ("\"\" + std.integer(\"-42\", 0)", "-42"),
        ("\"\" + std.integer(\"42x\", 7)", "7"),
        ("\"\" + std.integer(bool = true)", "1"),
        ("\"\" + std.integer(duration = 2.7s)", "2"),
        ("\"\" + std.integer(real = 3.9)", "3"),
        ("\"\" + std.integer(bytes = 1KB)", "1024"),
        ("\"\" + std.integer(time = now)", "1795176000"),
        ("\"\" + std.integer(s = \"1\", real = 1.0)", "failed: std.integer: too many arguments"),
        ("\"\" + std.real(\"2.25\", 0.0)", "2.250"),
        ("\"\" + std.real(\"x\", 0.5)", "0.500"),
        ("\"\" + std.real(integer = 4)", "4.000"),
        ("\"\" + std.real(bool = true)", "1.000"),
        ("\"\" + std.real(duration = 4s)", "4.000"),
        ("\"\" + std.real(bytes = 1KB)", "1024.000"),
        (
            "\"\" + std.time(\"Fri, 20 Nov 2026 12:00:00 GMT\", now)",
            "Fri, 20 Nov 2026 12:00:00 GMT",
        ),
        ("\"\" + std.time(\"2026-11-20T12:00:01\", now)", "Fri, 20 Nov 2026 12:00:01 GMT"),
        ("\"\" + std.time(\"86400\", now)", "Fri, 02 Jan 1970 00:00:00 GMT"),
        ("\"\" + std.time(integer = 0)", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("\"\" + std.time(\"never\", now)", "Fri, 20 Nov 2026 12:00:00 GMT"),
        ("\"\" + std.ip(\"192.0.2.1\", client.ip)", "192.0.2.1"),
        ("\"\" + std.ip(\"192.0.2.1:80\", client.ip)", "192.0.2.1"),
        ("\"\" + std.ip(\"2001:db8::1\", client.ip)", "2001:db8::1"),
        ("\"\" + std.ip(\"x\", \"127.0.0.1\")", "127.0.0.1"),
        ("\"\" + std.ip(0, client.ip, resolve = false)", "0.0.0.0"),
        ("\"\" + std.ip(\"127.1\", client.ip)", "127.0.0.1"),
        ("\"\" + std.ip(\"0x7f.0.010\", client.ip)", "127.0.0.8"),
        ("\"\" + std.ip(\"4294967295\", client.ip)", "255.255.255.255"),
        ("\"\" + std.ip(\"10.256.1\", \"127.0.0.1\")", "127.0.0.1"),
        ("\"\" + std.ip(\"1.2.3.4.5\", \"127.0.0.1\")", "127.0.0.1"),
        ("\"\" + std.ip(\"1..2\", \"127.0.0.1\")", "127.0.0.1"),
        ("\"\" + std.ip(\"0x\", \"127.0.0.1\")", "127.0.0.1"),
        ("\"\" + std.ip(\"+1\", \"127.0.0.1\")", "127.0.0.1"),
        ("\"\" + std.ip(\"x\", \"127.0.0.1\", resolve = false)", "127.0.0.1"),
        (
            "std.strftime(now, \"%Y-%m-%d %H:%M:%S %a %b %j %u %%\")",
            "2026-11-20 12:00:00 Fri Nov 324 5 %",
        ),
        (
            "std.strftime(now, \"%F %T %D %e %I %p %y %s\")",
            "2026-11-20 12:00:00 11/20/26 20 12 PM 26 1795176000",
        ),
        ("\"\" + std.real2integer(2.5, 0)", "3"),
        ("\"\" + std.real2time(0.0, now)", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("\"\" + std.time2integer(now, 0)", "1795176000"),
        ("\"\" + std.time2real(now, 0.0)", "1795176000.000"),
    ]);
}

#[test]
fn what_std_does_to_requests_and_the_node() {
    let mut scene = Scene::default();
    scene.req.fields.append("X-List", "a");
    scene.req.fields.append("X-List", "b");
    scene.node.files.insert("/etc/page".into(), b"<p>"[..].into());
    scene.node.body = Some(b"name=value"[..].into());
    scene.client.original = Some(Box::new(scene.req.clone()));
    let policy = compile(
        "import std; sub vcl_recv {
            std.collect(req.http.X-List);
            std.log(\"seen \" + req.url);
            std.timestamp(\"here\");
            std.syslog(6, \"quiet\");
            std.late_100_continue(true);
            std.set_ip_tos(8);
            if (std.cache_req_body(1KB)) { set req.http.Kept = \"yes\"; }
            set req.http.Page = std.fileread(\"/etc/page\") + std.fileread(\"/nothing\");
            if (std.file_exists(\"/etc/page\") && !std.file_exists(\"/nothing\")) {
                set req.http.Files = \"right\";
            }
            if (!std.ban(\"bad\")) { set req.http.Ban = std.ban_error(); }
            if (std.ban(\"req.url ~ /x\")) { set req.http.Ban = req.http.Ban + \".\"; }
            ban(\"req.url == /y\");
            set req.http.Joined = req.http.X-List;
            std.rollback(req);
            set req.http.Rolled = req.http.Joined + \"|\" + req.http.X-List;
        }",
    );
    scene.run(&policy, State::Recv);
    assert_eq!(scene.task.take_failure(), None);
    assert_eq!(scene.req.fields.get_str("rolled"), Some("|a"));
    assert_eq!(scene.node.kept, Some(1024));
    assert_eq!(scene.node.bans, ["req.url ~ /x", "req.url == /y"]);
    for event in [
        "log seen /a?b=1",
        "timestamp here",
        "set req.Joined a, b",
        "set req.Page <p>",
        "set req.Files right",
        "set req.Kept yes",
        "set req.Ban no such field.",
    ] {
        assert!(
            scene.node.events.iter().any(|seen| seen == event),
            "{event}: {:?}",
            scene.node.events
        );
    }
}

#[test]
fn a_body_that_is_kept_has_a_length_and_only_before_restarts() {
    let policy = compile(
        "import std; sub vcl_recv { if (std.cache_req_body(1KB)) { set req.http.Kept = \"1\"; } }",
    );
    let chunked = || {
        let mut scene = Scene::default();
        scene.req.fields.append("Transfer-Encoding", "chunked");
        scene.client.original = Some(Box::new(scene.req.clone()));
        scene.node.body = Some(b"user=admin"[..].into());
        scene
    };
    let mut scene = chunked();
    scene.run(&policy, State::Recv);
    for head in [&scene.req, scene.client.original.as_deref().unwrap()] {
        assert_eq!(head.fields.get_str("content-length"), Some("10"));
        assert!(!head.fields.contains("transfer-encoding"));
    }
    // One that was kept stays, and what was not cannot be any more.
    for (body, kept) in [(&b"user=admin"[..], Some("1")), (b"", None)] {
        let mut scene = chunked();
        scene.node.body = Some(body.into());
        scene.client.restarts = 1;
        scene.run(&policy, State::Recv);
        assert_eq!(scene.req.fields.get_str("kept"), kept);
        let why = "Error(\"req.body must be cached before restarts\")".to_owned();
        assert_eq!(scene.node.events.contains(&why), kept.is_none(), "{:?}", scene.node.events);
    }
}

#[test]
fn a_pipe_is_not_rolled_back() {
    let policy = compile("import std; sub vcl_pipe { std.rollback(req); }");
    let mut scene = Scene::default();
    scene.client.original = Some(Box::new(scene.req.clone()));
    assert_eq!(scene.run(&policy, State::Pipe), Outcome::Fail);
}

#[test]
fn lifetimes_are_told_from_the_head_as_it_is_by_now() {
    let (_, scene) = after(
        State::BackendResponse,
        "import std;",
        "set beresp.ttl = 1s; set beresp.grace = 2s; set beresp.keep = 3s; set beresp.uncacheable = true; \
         set beresp.http.Cache-Control = \"max-age=60, stale-while-revalidate=30\"; \
         set beresp.http.Age = \"20\"; std.rfc_ttl();",
    );
    let answer = &scene.answer;
    assert_eq!((answer.ttl, answer.grace, answer.keep), (40.0, 30.0, 0.0));
    assert!(answer.uncacheable);
    let (_, scene) = after(
        State::BackendResponse,
        "import std;",
        "set beresp.status = 500; std.rfc_ttl(); return (deliver);",
    );
    assert!(scene.answer.has_no_life);
}
