//! Every variable: what it reads as, what setting it does, and where it is refused.

use crate::scene::{Scene, after, compile, shown_in};
use freshet_vcl::variables::{VARIABLES, Versions};
use freshet_vcl::{NoFiles, Settings, Source, State, States, Type};

/// What each readable variable is in the scene, in the first state that can read it.
const VALUES: &[(&str, &str)] = &[
    ("now", "Fri, 20 Nov 2026 12:00:00 GMT"),
    ("server.hostname", "edge.example"),
    ("server.identity", "edge-1"),
    ("client.ip", "192.0.2.7"),
    ("remote.ip", "203.0.113.9"),
    ("local.ip", "198.51.100.2"),
    ("server.ip", "198.51.100.1"),
    ("client.identity", "192.0.2.7"),
    ("local.endpoint", "0.0.0.0:80"),
    ("local.socket", "a0"),
    ("sess.xid", "1000"),
    ("sess.timeout_idle", "5.000"),
    ("sess.timeout_linger", "0.050"),
    ("sess.send_timeout", "600.000"),
    ("sess.idle_send_timeout", "60.000"),
    ("req.method", "GET"),
    ("req.url", "/a?b=1"),
    ("req.proto", "HTTP/1.1"),
    ("req.esi_level", "0"),
    ("req.restarts", "0"),
    ("req.xid", "1001"),
    ("req.can_gzip", "false"),
    ("req.is_hitmiss", "false"),
    ("req.is_hitpass", "false"),
    ("req.time", "Fri, 20 Nov 2026 11:59:59 GMT"),
    ("req.transport", "HTTP/1"),
    ("req.media_ahead", "false"),
    ("req.media_class", ""),
    ("req.media_kind", "kind of /a?b=1"),
    ("req.media_sequence", ""),
    ("req.media_bitrate", ""),
    ("req.cmcd.ab", ""),
    ("req.cmcd.bg", ""),
    ("req.cmcd.bl", "bl of /a?b=1"),
    ("req.cmcd.br", ""),
    ("req.cmcd.bs", ""),
    ("req.cmcd.bsa", ""),
    ("req.cmcd.bsd", ""),
    ("req.cmcd.bsda", ""),
    ("req.cmcd.cen", ""),
    ("req.cmcd.cid", ""),
    ("req.cmcd.cmsdd", ""),
    ("req.cmcd.cmsds", ""),
    ("req.cmcd.cs", ""),
    ("req.cmcd.d", ""),
    ("req.cmcd.dfa", ""),
    ("req.cmcd.dl", ""),
    ("req.cmcd.e", ""),
    ("req.cmcd.ec", ""),
    ("req.cmcd.h", ""),
    ("req.cmcd.lab", ""),
    ("req.cmcd.lb", ""),
    ("req.cmcd.ltc", ""),
    ("req.cmcd.msd", ""),
    ("req.cmcd.mtp", ""),
    ("req.cmcd.nor", ""),
    ("req.cmcd.nr", ""),
    ("req.cmcd.nrr", ""),
    ("req.cmcd.ot", ""),
    ("req.cmcd.pb", ""),
    ("req.cmcd.pr", ""),
    ("req.cmcd.pt", ""),
    ("req.cmcd.rc", ""),
    ("req.cmcd.rtp", ""),
    ("req.cmcd.sf", ""),
    ("req.cmcd.sid", ""),
    ("req.cmcd.smrt", ""),
    ("req.cmcd.sn", ""),
    ("req.cmcd.st", ""),
    ("req.cmcd.sta", ""),
    ("req.cmcd.su", ""),
    ("req.cmcd.tab", ""),
    ("req.cmcd.tb", ""),
    ("req.cmcd.tbl", ""),
    ("req.cmcd.tpb", ""),
    ("req.cmcd.ts", ""),
    ("req.cmcd.ttfb", ""),
    ("req.cmcd.ttfbb", ""),
    ("req.cmcd.ttlb", ""),
    ("req.cmcd.url", ""),
    ("req.cmcd.v", ""),
    ("req.backend_hint", "b0"),
    ("req.ttl", "-1.000"),
    ("req.grace", "-1.000"),
    ("req.hash_always_miss", "false"),
    ("req.hash_ignore_busy", "false"),
    ("req.hash_ignore_vary", "false"),
    ("req.storage", ""),
    ("req.esi", "true"),
    ("req_top.method", "GET"),
    ("req_top.url", "/a?b=1"),
    ("req_top.proto", "HTTP/1.1"),
    ("req_top.time", "Fri, 20 Nov 2026 11:59:59 GMT"),
    ("bereq.method", "GET"),
    ("bereq.url", "/a?b=1"),
    ("bereq.proto", "HTTP/1.1"),
    ("bereq.is_bgfetch", "false"),
    ("bereq.media_ahead", "false"),
    ("bereq.is_hitmiss", "false"),
    ("bereq.retry_connect", "true"),
    ("bereq.is_hitpass", "false"),
    ("bereq.retries", "0"),
    ("bereq.time", "Fri, 20 Nov 2026 12:00:00 GMT"),
    ("bereq.uncacheable", "false"),
    ("bereq.xid", "1002"),
    ("bereq.backend", ""),
    ("bereq.connect_timeout", "3.500"),
    ("bereq.task_deadline", "0.000"),
    ("bereq.first_byte_timeout", "60.000"),
    ("bereq.between_bytes_timeout", "60.000"),
    ("beresp.proto", "HTTP/1.1"),
    ("beresp.status", "200"),
    ("beresp.reason", "OK"),
    ("beresp.ttl", "120.000"),
    ("beresp.grace", "10.000"),
    ("beresp.keep", "0.000"),
    ("beresp.age", "0.000"),
    ("beresp.time", "Fri, 20 Nov 2026 12:00:00 GMT"),
    ("beresp.uncacheable", "false"),
    ("beresp.media_class", ""),
    ("beresp.media_kind", ""),
    ("beresp.media_sequence", ""),
    ("beresp.media_bitrate", ""),
    ("beresp.do_esi", "false"),
    ("beresp.do_gzip", "false"),
    ("beresp.do_gunzip", "false"),
    ("beresp.do_stream", "false"),
    ("beresp.was_304", "false"),
    ("beresp.backend", ""),
    ("beresp.backend.name", ""),
    ("beresp.backend.ip", "failed: VRT_IP_string: Illegal IP"),
    ("beresp.storage", "storage.s0"),
    ("beresp.storage_hint", "storage.s0"),
    ("beresp.filters", ""),
    ("obj.age", "3.000"),
    ("obj.ttl", "57.000"),
    ("obj.grace", "10.000"),
    ("obj.keep", "4.000"),
    ("obj.hits", "7"),
    ("obj.time", "Fri, 20 Nov 2026 11:59:57 GMT"),
    ("obj.storage", "storage.s0"),
    ("obj.can_esi", "true"),
    ("obj.status", "200"),
    ("obj.reason", "OK"),
    ("obj.proto", "HTTP/1.1"),
    ("obj.uncacheable", "false"),
    ("resp.proto", "HTTP/1.1"),
    ("resp.status", "200"),
    ("resp.reason", "OK"),
    ("resp.time", "Fri, 20 Nov 2026 12:00:00 GMT"),
    ("resp.is_streaming", "false"),
    ("resp.do_esi", "true"),
    ("resp.filters", ""),
];

/// The first state of a set, `vcl_pipe` only where there is no other.
fn first_state(states: States) -> State {
    let mut found = State::ALL.into_iter().filter(|state| states.has(*state));
    let first = found.next().unwrap();
    if first == State::Pipe { found.next().unwrap_or(first) } else { first }
}

fn version(versions: Versions) -> &'static str {
    if versions == Versions::Until40 { "vcl 4.0;" } else { "vcl 4.1;" }
}

#[test]
fn each_variable_reads_as_what_it_is() {
    for definition in VARIABLES {
        let readable = !matches!(definition.of, Type::Http | Type::Body | Type::Blob);
        let row = VALUES.iter().find(|(name, _)| *name == definition.name);
        assert_eq!(row.is_some(), readable, "{}", definition.name);
        let Some((name, expected)) = row else { continue };
        let state = first_state(definition.read);
        let before = version(definition.versions);
        let found = shown_in(state, before, &format!("\"\" + {name}"), &mut Scene::default());
        assert_eq!(found, *expected, "{name} in {}", state.subroutine());
    }
    for (name, _) in VALUES {
        assert!(VARIABLES.iter().any(|definition| definition.name == *name), "{name}");
    }
}

#[test]
fn hashes_are_blobs_of_32_bytes() {
    for (state, name) in [(State::Miss, "req.hash"), (State::BackendFetch, "bereq.hash")] {
        let expression = format!("\"\" + blob.length({name})");
        assert_eq!(shown_in(state, "import blob;", &expression, &mut Scene::default()), "32");
    }
}

#[test]
fn what_is_set_reads_back() {
    for definition in VARIABLES {
        let (value, expected) = match definition.of {
            Type::String if definition.name.ends_with("proto") => ("\"HTTP/1.0\"", "HTTP/1.0"),
            Type::String if definition.name == "beresp.storage_hint" => ("\"s0\"", "storage.s0"),
            Type::String => ("\"/set\"", "/set"),
            Type::Int => ("404", "404"),
            Type::Bool => ("true", "true"),
            Type::Duration => ("7s", "7.000"),
            Type::Backend => ("b0", "b0"),
            Type::Stevedore => ("storage.s0", "storage.s0"),
            _ => continue,
        };
        let (value, expected) = match definition.name {
            "req.method" | "bereq.method" => ("\"POST\"", "POST"),
            _ => (value, expected),
        };
        let written = [(definition.write_40, "vcl 4.0;"), (definition.write, "vcl 4.1;")];
        let versions = written.into_iter().filter(|(states, version)| {
            *states != States::NONE
                && (definition.versions == Versions::Any
                    || (definition.versions == Versions::Until40) == (*version == "vcl 4.0;"))
        });
        for (states, version) in versions {
            let state = first_state(states);
            let name = definition.name;
            let statements = format!("set {name} = {value}; std.log(\"is \" + {name});");
            let policy = compile(&format!(
                "{version} import std; sub {} {{ {statements} }}",
                state.subroutine()
            ));
            let mut scene = Scene::default();
            scene.run(&policy, state);
            let wanted = format!("log is {expected}");
            let seen = &scene.node.events;
            assert!(seen.contains(&wanted), "{name}: {seen:?} {:?}", scene.task.take_failure());
        }
    }
}

#[test]
fn a_variable_may_have_the_name_of_a_later_version() {
    let (_, scene) = after(State::Recv, "", "set req.max_age = 3s; set req.http.A = req.ttl;");
    assert_eq!(scene.req.fields.get_str("a"), Some("3.000"));
}

#[test]
fn arithmetic_on_what_is_there() {
    let (_, scene) = after(
        State::BackendResponse,
        "",
        "set beresp.ttl += 10s; set beresp.ttl *= 2.0; set beresp.grace -= 4s; set beresp.keep = \
         8s; set beresp.keep /= 2.0; set beresp.status -= 1; set beresp.http.A = \"x\"; set \
         beresp.http.A += \"y\";",
    );
    assert_eq!((scene.answer.ttl, scene.answer.grace, scene.answer.keep), (260.0, 6.0, 4.0));
    assert_eq!((scene.beresp.status, scene.beresp.fields.get_str("a")), (199, Some("xy")));
}

#[test]
fn fields_are_set_and_unset_in_their_messages() {
    let rows = [
        (State::Recv, "req"),
        (State::BackendFetch, "bereq"),
        (State::BackendResponse, "beresp"),
        (State::Deliver, "resp"),
        (State::Synth, "resp"),
        (State::Pipe, "bereq"),
    ];
    for (state, message) in rows {
        let leave = if state == State::Synth { "return (deliver);" } else { "" };
        let (_, scene) = after(
            state,
            "",
            &format!(
                "set {message}.http.A = \"1\"; set {message}.http.a = \"2\"; unset {message}.http.A; unset {message}.http.content-type; set {message}.http.B = \"3\"; {leave}"
            ),
        );
        let fields = match message {
            "req" => &scene.req.fields,
            "bereq" => &scene.bereq.fields,
            "beresp" => &scene.beresp.fields,
            _ => &scene.resp.fields,
        };
        assert_eq!((fields.get("a"), fields.get("content-type")), (None, None), "{message}");
        assert_eq!(fields.get_str("b"), Some("3"), "{message}");
    }
    let (_, scene) = after(
        State::Recv,
        "",
        "set req.http.Host = \"b.example\"; set req.http.Was = req.http.host; unset req.http.Host;",
    );
    assert_eq!(scene.req.authority, "");
    assert_eq!(scene.req.fields.get_str("was"), Some("b.example"));
}

#[test]
fn whether_gzip_is_taken_is_what_the_request_says_by_then() {
    let field = "req.http.Accept-Encoding";
    let text = format!(
        "set {field} = \"br, gzip\"; set req.http.One = req.can_gzip; \
         set {field} = \"gzip;q=0\"; set req.http.Two = req.can_gzip; \
         unset {field}; set req.http.Three = req.can_gzip;"
    );
    let (_, scene) = after(State::Recv, "", &text);
    let said = ["one", "two", "three"].map(|name| scene.req.fields.get_str(name));
    assert_eq!(said, [Some("true"), Some("false"), Some("false")]);
}

#[test]
fn what_has_no_body_goes_through_no_filters() {
    let gzip = "set beresp.do_gzip = true; set beresp.http.Has = beresp.filters;";
    for (head, expected) in [
        ("", "gzip"),
        ("set beresp.http.Content-Length = \"0\";", ""),
        ("set beresp.http.Content-Length = \"10\";", "gzip"),
        ("set beresp.status = 204;", ""),
    ] {
        let (_, scene) = after(State::BackendResponse, "", &format!("{head} {gzip}"));
        assert_eq!(scene.beresp.fields.get_str("has"), Some(expected), "{head}");
    }
}

#[test]
fn storages_tell_their_figures() {
    let expression = "\"\" + storage.s0.free_space + storage.s0.used_space + storage.s0.happy";
    assert_eq!(crate::scene::shown("", expression), "100024true");
}

#[test]
fn variables_are_refused_where_they_are_not() {
    let settings = Settings { unused_is_error: false, ..Settings::default() };
    for definition in VARIABLES.iter().filter(|one| !matches!(one.of, Type::Http | Type::Blob)) {
        for state in State::ALL {
            if definition.read == States::NONE {
                continue;
            }
            let text = format!(
                "{} backend b0 {{ .host = \"127.0.0.1\"; }} import std; sub {} {{ std.log(\"\" + \
                 {}); }}",
                version(definition.versions),
                state.subroutine(),
                definition.name
            );
            let source = Source { name: "x".into(), text };
            let (program, report) = freshet_vcl::compile(source, &NoFiles, &settings);
            let allowed = definition.read.has(state);
            let text = report.render(false);
            assert_eq!(program.is_some(), allowed, "{} {text}", definition.name);
            let is_read = program.is_none_or(|program| program.reads(definition.variable));
            assert!(is_read, "{}", definition.name);
            let wanted = format!("Not available in subroutine '{}'", state.subroutine());
            assert_eq!(text.contains(&wanted), !allowed, "{text}");
        }
    }
}
