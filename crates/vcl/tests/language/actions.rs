//! States, their actions, the built-in text, and what each state leaves behind.

use crate::scene::{Scene, after, compile};
use freshet_vcl::{Action, BackendRef, NoFiles, Outcome, Settings, Source, State};

#[test]
fn every_state_returns_its_actions_and_no_others() {
    let settings = Settings { unused_is_error: false, ..Settings::default() };
    for state in State::ALL {
        for action in Action::ALL {
            let written = match action {
                Action::Synth => "synth(404)".to_owned(),
                Action::Vcl => "vcl(other)".to_owned(),
                other => other.name().to_owned(),
            };
            let text = format!(
                "vcl 4.1; backend b0 {{ .host = \"127.0.0.1\"; }} sub {} {{ return ({written}); }}",
                state.subroutine()
            );
            let source = Source { name: "x".into(), text };
            let (program, report) = freshet_vcl::compile(source, &NoFiles, &settings);
            let allowed = state.actions().contains(&action);
            assert_eq!(program.is_some(), allowed, "{}", report.render(false));
            if allowed && !matches!(state, State::Init | State::Fini) {
                let policy = compile(&report.sources.files()[0].text);
                let outcome = Scene::default().run(&policy, state);
                assert_eq!(outcome.action(), action, "{written} in {}", state.subroutine());
            }
        }
    }
}

#[test]
fn actions_carry_their_arguments() {
    let rows = [
        (
            State::Recv,
            "synth(404, \"Gone \" + req.url)",
            Outcome::Synth(404, Some("Gone /a?b=1".into())),
        ),
        (State::Recv, "synth(200 + 4)", Outcome::Synth(204, None)),
        (State::BackendFetch, "error(503, \"No\")", Outcome::Error(503, Some("No".into()))),
        (State::BackendFetch, "error", Outcome::Error(503, None)),
        (State::BackendResponse, "pass(10s)", Outcome::Pass(Some(10.0))),
        (State::BackendResponse, "pass", Outcome::Pass(None)),
        (State::Recv, "vcl(other)", Outcome::Vcl(0)),
    ];
    for (state, action, expected) in rows {
        let (outcome, _) = after(state, "", &format!("return ({action});"));
        assert_eq!(outcome, expected);
    }
    let (outcome, mut scene) = after(State::Recv, "", "return (fail(\"not \" + \"today\"));");
    assert_eq!(outcome, Outcome::Fail);
    let failure = scene.task.take_failure().unwrap();
    assert_eq!((failure.message.as_str(), failure.line), ("not today", 3));
    assert!(failure.text.contains("return (fail"), "{}", failure.text);
}

#[test]
fn the_builtin_text_decides_what_a_policy_leaves_open() {
    let policy = compile("");
    let recv = |change: fn(&mut Scene)| {
        let mut scene = Scene::default();
        scene.req.fields.remove("cookie");
        change(&mut scene);
        let outcome = scene.run(&policy, State::Recv);
        (outcome, scene)
    };
    assert_eq!(recv(|_| {}).0, Outcome::Hash);
    assert_eq!(recv(|s| s.req.fields.append("Cookie", "a=b")).0, Outcome::Pass(None));
    assert_eq!(recv(|s| s.req.fields.append("Authorization", "x")).0, Outcome::Pass(None));
    assert_eq!(recv(|s| s.req.method = freshet_http::message::Method::Post).0, Outcome::Pass(None));
    assert_eq!(
        recv(|s| s.req.method = freshet_http::message::Method::from_name("PRI")).0,
        Outcome::Synth(405, None)
    );
    assert_eq!(
        recv(|s| s.req.method = freshet_http::message::Method::from_name("MADEUP")).0,
        Outcome::Pipe
    );
    assert_eq!(recv(|s| s.req.authority.clear()).0, Outcome::Synth(400, None));
    let (_, scene) = recv(|s| s.req.authority = "EXAMPLE.test".into());
    assert_eq!(scene.req.authority, "example.test");

    let mut scene = Scene::default();
    assert_eq!(scene.run(&policy, State::Hash), Outcome::Lookup);
    assert_eq!(scene.task.hash_parts(), b"/a?b=1\0example.test\0");
    scene.req.authority.clear();
    scene.task.clear_hash();
    scene.run(&policy, State::Hash);
    assert_eq!(scene.task.hash_parts(), b"/a?b=1\x00198.51.100.1\0");
    assert_eq!(scene.run(&policy, State::Purge), Outcome::Synth(200, Some("Purged".into())));
    scene.run(&policy, State::BackendFetch);
    assert!(scene.fetch.body_unset);
}

#[test]
fn the_builtin_text_does_not_keep_what_is_not_for_all() {
    let policy = compile("");
    type Change = fn(&mut Scene);
    let rows: [(Change, bool); 8] = [
        (|_| {}, false),
        (|s| s.answer.ttl = 0.0, true),
        (|s| s.beresp.fields.append("Set-Cookie", "a"), true),
        (|s| s.beresp.fields.append("Cache-Control", "Private"), true),
        (|s| s.beresp.fields.append("Surrogate-Control", "no-store"), true),
        (
            |s| {
                s.beresp.fields.append("Cache-Control", "no-store");
                s.beresp.fields.append("Surrogate-Control", "max-age=4");
            },
            false,
        ),
        (|s| s.beresp.fields.append("Vary", "*"), true),
        (|s| s.beresp.fields.append("Vary", "Accept"), false),
    ];
    for (change, uncacheable) in rows {
        let mut scene = Scene::default();
        change(&mut scene);
        assert_eq!(scene.run(&policy, State::BackendResponse), Outcome::Deliver);
        assert_eq!(scene.answer.uncacheable, uncacheable, "{:?}", scene.beresp);
    }
    // What is passed is left alone.
    let mut scene = Scene::default();
    scene.fetch.uncacheable = true;
    scene.answer.ttl = 0.0;
    scene.run(&policy, State::BackendResponse);
    assert_eq!(scene.answer.ttl, 0.0);
}

#[test]
fn synthetic_pages_are_the_builtin_or_the_policys_own() {
    let mut scene = Scene::default();
    scene.resp.status = 404;
    scene.run(&compile(""), State::Synth);
    let page = String::from_utf8(scene.body.clone()).unwrap();
    assert!(page.contains("<title>404 Not Found</title>"), "{page}");
    assert!(page.contains("<p>XID: 1001</p>") && page.contains("Varnish cache server"), "{page}");
    let (_, scene) = after(
        State::Synth,
        "",
        "set resp.body = \"one\"; set resp.body += \"two\"; synthetic(\"three\" + resp.status); \
         return (deliver);",
    );
    // The statement adds as well.
    assert_eq!(scene.body, b"onetwothree200");
    let (_, scene) = after(
        State::BackendError,
        "",
        "set beresp.body = :aGVsbG8=:; set beresp.ttl = 1s; return (deliver);",
    );
    assert_eq!((scene.body.as_slice(), scene.answer.ttl), (&b"hello"[..], 1.0));
}

#[test]
fn subroutines_are_called_joined_and_left() {
    let policy = compile(
        "sub vcl_recv { call first; set req.http.Path = req.http.Path + \"4\"; }
         sub first { set req.http.Path = \"1\"; call second; set req.http.Path += \"3\"; }
         sub second { if (req.http.Path) { set req.http.Path += \"2\"; return; } return (pipe); }
         sub vcl_recv { set req.http.Path += \"5\"; }
         sub vcl_req_cookie { set req.http.Path += \"6\"; return; }",
    );
    let mut scene = Scene::default();
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Hash);
    assert_eq!(scene.req.fields.get_str("path"), Some("123456"));
}

#[test]
fn knobs_reach_the_node() {
    let (_, scene) = after(
        State::Recv,
        "backend nobody none;",
        "set req.backend_hint = nobody; set req.ttl = 5s; set req.grace = 6s; set \
         req.hash_always_miss = true; set req.hash_ignore_busy = true; set req.storage = \
         storage.s0; set client.identity = \"me\";",
    );
    let client = &scene.client;
    assert_eq!(client.backend_hint, Some(BackendRef::Backend(0)));
    assert_eq!((client.ttl, client.grace), (Some(5.0), Some(6.0)));
    assert!(client.hash_always_miss && client.hash_ignore_busy);
    assert_eq!((client.storage, client.identity.as_deref()), (Some(1), Some(&b"me"[..])));
    let (_, scene) = after(
        State::BackendResponse,
        "",
        "set beresp.ttl = 1h; set beresp.grace = 1m; set beresp.keep = 1d; set beresp.do_esi = \
         true; set beresp.do_gzip = true; set beresp.do_gunzip = true; set beresp.do_stream = \
         false; set beresp.uncacheable = true; set beresp.storage = storage.Transient; set \
         beresp.filters = \"esi gzip\";",
    );
    let answer = &scene.answer;
    assert_eq!((answer.ttl, answer.grace, answer.keep), (3600.0, 60.0, 86_400.0));
    assert!(answer.do_esi && answer.do_gzip && answer.do_gunzip && answer.uncacheable);
    assert_eq!((answer.do_stream, answer.storage), (false, Some(0)));
    assert_eq!(answer.filters.as_deref(), Some(&b"esi gzip"[..]));
    let (_, scene) = after(
        State::BackendFetch,
        "backend nobody none;",
        "set bereq.backend = nobody; set bereq.connect_timeout = 1s; set bereq.first_byte_timeout = \
         2s; set bereq.between_bytes_timeout = 3s; unset bereq.body;",
    );
    let fetch = &scene.fetch;
    assert_eq!(fetch.backend, BackendRef::Backend(0));
    assert_eq!(
        (fetch.connect_timeout, fetch.first_byte_timeout, fetch.between_bytes_timeout),
        (Some(1.0), Some(2.0), Some(3.0))
    );
    assert!(fetch.body_unset);
}

#[test]
fn those_who_watch_see_what_happens() {
    let policy = compile(
        "import std; acl here +log { \"192.0.2.0\"/24; ! \"192.0.2.9\"; }
         sub vcl_recv {
             if (client.ip ~ here) { set req.http.A = \"1\"; unset req.http.Cookie; }
             set req.url = \"/b\"; std.log(\"x\");
             return (hash);
         }",
    );
    let mut scene = Scene::default();
    scene.run(&policy, State::Recv);
    assert_eq!(
        scene.node.events,
        [
            "Call(Recv)".to_owned(),
            "Acl { name: \"here\", entry: Some(\"\\\"192.0.2.0\\\"/24\"), matched: true }".into(),
            "set req.A 1".into(),
            "unset req.Cookie a=1; b=2".into(),
            "LineSet { message: Req, line: \"url\", value: [47, 98] }".into(),
            "log x".into(),
            "Return(Hash)".into(),
        ]
    );
}

#[test]
fn access_lists_go_by_the_most_exact_entry() {
    let policy = compile(
        "acl list { \"10.0.0.0\"/8; ! \"10.1.0.0\"/16; \"10.1.2.3\"; \"2001:db8::\"/32; }
         sub vcl_recv { if (client.ip ~ list) { return (pass); } return (hash); }",
    );
    for (address, inside) in [
        ("10.2.3.4", true),
        ("10.1.9.9", false),
        ("10.1.2.3", true),
        ("192.0.2.1", false),
        ("2001:db8::5", true),
        ("2001:db9::5", false),
        ("::ffff:10.2.3.4", true),
    ] {
        let mut scene = Scene::default();
        scene.session.client = Some(std::net::SocketAddr::new(address.parse().unwrap(), 1));
        let expected = if inside { Outcome::Pass(None) } else { Outcome::Hash };
        assert_eq!(scene.run(&policy, State::Recv), expected, "{address}");
    }
}

#[test]
fn a_status_is_checked_when_it_is_set() {
    let rows = [
        ("1404", None),
        ("1001", Some("illegal return(synth()) status code (1001) (..0##)")),
        ("99", Some("illegal return(synth()) status code (99) (..0##)")),
        ("-404", Some("return(synth()) status code (-404) is negative")),
        ("65536", Some("return(synth()) status code (65536) > 65535")),
    ];
    for (status, why) in rows {
        let (outcome, mut scene) = after(State::Recv, "", &format!("return (synth({status}));"));
        match why {
            None => assert_eq!(outcome, Outcome::Synth(1404, None)),
            Some(why) => {
                assert_eq!(outcome, Outcome::Fail);
                assert_eq!(scene.task.take_failure().unwrap().message, why);
            }
        }
    }
}

#[test]
fn names_are_the_same_in_small_and_in_large_letters() {
    let (_, scene) = after(
        State::Recv,
        "backend Other none;",
        "Set Req.Url = \"/b\"; SET REQ.http.A = \"1\"; if (True) { set req.backend_hint = oTHER; }",
    );
    assert_eq!((&*scene.req.target, scene.req.fields.get_str("a")), ("/b", Some("1")));
    assert!(scene.client.backend_hint.is_some());
}

#[test]
fn what_was_decided_is_not_decided_again() {
    let (outcome, mut scene) =
        after(State::BackendResponse, "", "set beresp.filters = \"\"; set beresp.do_gzip = true;");
    assert_eq!(outcome, Outcome::Fail);
    let why = "beresp.filters are already fixed, beresp.do_gzip is undefined";
    assert_eq!(scene.task.take_failure().unwrap().message, why);
    let mut scene = Scene::default();
    scene.answer.uncacheable = true;
    let policy = compile("sub vcl_backend_response { set beresp.uncacheable = false; }");
    scene.run(&policy, State::BackendResponse);
    assert!(scene.answer.uncacheable);
    let wanted = "Error(\"Ignoring attempt to reset beresp.uncacheable\")".to_owned();
    assert!(scene.node.events.contains(&wanted), "{:?}", scene.node.events);
    // What says so has the fetch be one of what is not kept, and the built-in text adds nothing.
    let mut scene = Scene::default();
    scene.beresp.fields.append("Cache-Control", "private");
    let policy = compile("sub vcl_backend_response { set beresp.uncacheable = true; }");
    scene.run(&policy, State::BackendResponse);
    assert!(scene.answer.uncacheable && scene.fetch.uncacheable);
    let told = scene.node.events.iter().filter(|event| event.starts_with("Lifetime")).count();
    assert!(told <= 1, "{:?}", scene.node.events);
}

#[test]
fn a_body_that_does_not_go_along_has_no_length() {
    let policy = compile("sub vcl_backend_fetch { unset bereq.body; }");
    for has_body in [true, false] {
        let mut scene = Scene::default();
        scene.bereq.fields.append("Content-Length", "4");
        scene.fetch.has_body = has_body;
        scene.run(&policy, State::BackendFetch);
        assert_eq!(scene.bereq.fields.contains("content-length"), !has_body);
    }
}

#[test]
fn what_is_not_set_is_hashed_unlike_what_is_empty() {
    let hashed = |text: &str| {
        let policy = compile(&format!("sub vcl_hash {{ hash_data({text}); return (lookup); }}"));
        let mut scene = Scene::default();
        assert_eq!(scene.run(&policy, State::Hash), Outcome::Lookup);
        scene.task.hash_parts().to_vec()
    };
    assert_eq!(hashed("req.http.nothing"), b"\0\0");
    assert_eq!(hashed("\"\""), b"\0");
    assert_eq!(hashed("\"a\" + req.http.nothing + req.method + req.restarts"), b"a\0GET0\0");
    let many = ["req.http.nothing"; 30].join(" + ");
    assert!(hashed(&format!("\"a\" + {many}")).starts_with(b"a"));
}
