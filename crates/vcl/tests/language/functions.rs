//! Every function of every module but `std`.

use crate::scene::{ALL, NOW, Node, Scene, after, compile, shown, shown_in, table};
use freshet_vcl::{CertificateFacts, NoFiles, Outcome, Policy, Purge, Settings, Source, State};

#[test]
fn str_takes_texts_apart() {
    table(&[
        ("\"\" + str.count(\"abc\")", "3"),
        ("\"\" + str.startswith(\"abc\", \"ab\") + str.startswith(\"abc\", \"b\")", "truefalse"),
        ("\"\" + str.endswith(\"abc\", \"bc\") + str.endswith(\"abc\", \"b\")", "truefalse"),
        ("\"\" + str.contains(\"abc\", \"b\") + str.contains(\"abc\", \"x\")", "truefalse"),
        ("str.take(\"abcdef\", 2)", "ab"),
        ("str.take(\"abcdef\", 2, 3)", "de"),
        ("str.take(\"abcdef\", -2, 3)", "bc"),
        ("str.take(\"abcdef\", 2, -2)", "ef"),
        ("str.take(\"abc\", 9, 1)", "bc"),
        ("str.reverse(\"abc\")", "cba"),
        ("str.split(\"a b\tc\", 2)", "b"),
        ("str.split(\"a,b,,c\", -1, \",\")", "c"),
        ("str.split(\"a\", 4)", ""),
        ("\"\" + str.token_intersect(\"a, b\", \"b c\")", "true"),
        ("\"\" + str.token_intersect(\"a, b\", \"c\")", "false"),
        ("\"\" + str.token_intersect(\"a/b\", \"b\", \"/\")", "true"),
    ]);
}

#[test]
fn blob_codes_and_decodes() {
    table(&[
        ("blob.encode(encoding = BASE64, blob = :aGVsbG8=:)", "aGVsbG8="),
        ("blob.encode(blob = :aGVsbG8=:)", "hello"),
        ("blob.encode(HEX, blob = :aGVsbG8=:)", "68656c6c6f"),
        ("blob.encode(HEX, UPPER, :aGVsbG8=:)", "68656C6C6F"),
        ("blob.encode(URL, blob = blob.decode(encoded = \"a b/c\"))", "a%20b%2fc"),
        ("blob.encode(blob = blob.decode(BASE64, encoded = \"aGVsbG8=\"))", "hello"),
        ("blob.encode(blob = blob.decode(HEX, encoded = \"68656c\"))", "hel"),
        ("blob.encode(blob = blob.decode(URL, encoded = \"a%20b\"))", "a b"),
        ("blob.transcode(BASE64, BASE64URLNOPAD, encoded = \"+/8=\")", "-_8"),
        ("blob.transcode(BASE64URL, BASE64CF, encoded = \"-_8=\")", "-~8_"),
        ("blob.transcode(encoding = HEX, length = 2, encoded = \"abc\")", "6162"),
        ("blob.transcode(BASE64URL, encoded = \"YWI\")", "ab"),
        ("blob.encode(BASE64, DEFAULT, :aGVsbG8=:,)", "aGVsbG8="),
        (
            "blob.transcode(HEX, length = 2, encoded = \"12.3\")",
            "failed: vmod blob error: cannot decode, illegal encoding beginning with \"12.3\"",
        ),
        ("blob.transcode(BASE64URL, BASE64URL, encoded = \"-_8\")", "-_8"),
        ("\"\" + blob.length(:aGVsbG8=:)", "5"),
        ("\"\" + blob.equal(:aGVsbG8=:, blob.decode(encoded = \"hello\"))", "true"),
        ("\"\" + blob.same(:aGVsbG8=:, :aGVsbG8=:)", "true"),
        ("blob.encode(blob = blob.sub(:aGVsbG8=:, 2B, 1B))", "el"),
        (
            "blob.encode(blob = blob.sub(:aGVsbG8=:, 9B))",
            "failed: vmod blob error: size 9 from offset 0 requires more bytes than blob length 5 in \
             blob.sub()",
        ),
        (
            "blob.encode(blob = blob.decode(HEX, encoded = \"zz\"))",
            "failed: vmod blob error: cannot decode, illegal encoding beginning with \"zz\"",
        ),
    ]);
    let found = shown(
        "import blob; sub vcl_init { new page = blob.blob(HEX, \"6869\"); }",
        "page.encode() + page.encode(HEX) + blob.encode(blob = page.get())",
    );
    assert_eq!(found, "hi6869hi");
}

#[test]
fn cookies_are_taken_apart_and_put_together() {
    let rows = [
        ("", "a=1; bc=2; d=3;"),
        ("cookie.delete(\"bc\");", "a=1; d=3;"),
        ("cookie.keep(\"a, d\");", "a=1; d=3;"),
        ("cookie.filter(\"a,d\");", "bc=2;"),
        ("cookie.keep_re(\"^b\");", "bc=2;"),
        ("cookie.filter_re(\"^[ab]\");", "d=3;"),
        ("cookie.set(\"d\", \"4\"); cookie.set(\"e\", \"5\");", "a=1; bc=2; d=4; e=5;"),
        ("cookie.clean();", ""),
    ];
    for (statements, expected) in rows {
        let (_, scene) = after(
            State::Recv,
            ALL,
            &format!(
                "cookie.parse(\"a=1; bc=2;d=3; =x; y\"); {statements} set req.http.Shown = \
                 cookie.get_string();"
            ),
        );
        assert_eq!(scene.req.fields.get_str("shown"), Some(expected), "{statements}");
    }
    let (_, scene) = after(
        State::Recv,
        ALL,
        "cookie.parse(req.http.Cookie); cookie.parse(req.http.nothing); cookie.parse(\"\"); set \
         req.http.Shown = cookie.get(\"a\") + \
         cookie.get_re(\"b\") + cookie.get(\"z\") + cookie.isset(\"a\") + cookie.isset(\"z\") + \
         cookie.format_date(now, 1h);",
    );
    let expected = "12truefalseFri, 20 Nov 2026 13:00:00 GMT";
    assert_eq!(scene.req.fields.get_str("shown"), Some(expected));
}

#[test]
fn cookies_are_read_as_varnish_reads_them() {
    for (sent, read) in [
        ("a=1; b=2", "a=1; b=2;"),
        (";; a=1", ";; a=1;"),
        ("has_js; b=1", "has_js; b=1;"),
        ("a=1 ;  b = 2 ", "a=1 ; b = 2 ;"),
        ("a=1; a=2; b=", "a=2;"),
        ("=x; y", ""),
        ("a=b=c", "a=b=c;"),
    ] {
        let statements =
            format!("cookie.parse(\"{sent}\"); set req.http.Shown = cookie.get_string();");
        let (_, scene) = after(State::Recv, ALL, &statements);
        assert_eq!(scene.req.fields.get_str("shown"), Some(read), "{sent}");
    }
}

#[test]
fn header_works_on_lines() {
    let (_, mut scene) = after(
        State::Recv,
        ALL,
        "header.append(req.http.X, \"one=1\"); header.append(req.http.X, \"two=2\"); \
         header.copy(req.http.X, req.http.Y); set req.http.Got = header.get(req.http.X, \"^two\"); \
         header.remove(req.http.X, \"^one\"); header.regsub(req, \"^User-Agent: T\", \"Agent: t\"); \
         set req.http.Dyn = header.dyn(req, \"agent\");",
    );
    assert_eq!(scene.task.take_failure(), None);
    let fields = &scene.req.fields;
    assert_eq!(fields.get_all("x").collect::<Vec<_>>(), [b"two=2"]);
    assert_eq!(fields.get_all("y").collect::<Vec<_>>(), [b"one=1", b"two=2"]);
    assert_eq!(fields.get_str("got"), Some("two=2"));
    assert_eq!((fields.get_str("dyn"), fields.contains("user-agent")), (Some("test"), false));
}

#[test]
fn variables_live_as_long_as_they_should() {
    let (_, scene) = after(
        State::Recv,
        ALL,
        "var.set(\"a\", \"x\"); var.set_string(\"b\", \"y\"); var.set_int(\"i\", 4); \
         var.set_real(\"r\", 1.5); var.set_duration(\"d\", 2s); var.set_ip(\"p\", client.ip); \
         var.set_backend(\"k\", b0); var.global_set(\"g\", \"z\"); set req.http.Shown = \
         var.get(\"a\") + var.get_string(\"b\") + var.get_int(\"i\") + var.get_real(\"r\") + \
         var.get_duration(\"d\") + var.get_ip(\"p\") + var.get_backend(\"k\") + \
         var.global_get(\"g\") + var.get(\"none\") + var.get_int(\"a\"); var.clear(); set \
         req.http.After = var.get(\"a\") + var.global_get(\"g\");",
    );
    assert_eq!(scene.req.fields.get_str("shown"), Some("xy41.5002.000192.0.2.7b0z0"));
    assert_eq!(scene.req.fields.get_str("after"), Some("z"));
}

#[test]
fn purges_bans_and_tags_reach_the_node() {
    let (_, scene) = after(
        State::Hit,
        "import purge; import xkey;",
        "set req.http.N = purge.hard() + purge.soft(1s, 2s) + purge.soft(0s, 0s, 0s) + xkey.purge(\"a b\") + \
         xkey.softpurge(\"c\");",
    );
    let soft = Purge::Soft { ttl: 1.0, grace: 2.0, keep: -1.0 };
    assert_eq!(scene.node.purges, [Purge::Hard, soft, Purge::Hard]);
    assert_eq!(scene.node.tags, [("a".into(), false), ("b".into(), false), ("c".into(), true)]);
    assert_eq!(scene.req.fields.get_str("n"), Some("9"));
}

#[test]
fn throttling_counts_and_forgives() {
    let policy = compile(
        "import vsthrottle; sub vcl_recv {
            if (req.url == \"/give\") { vsthrottle.return_token(\"k\", 2, 10s); return (hash); }
            if (req.url == \"/drop\") { vsthrottle.remove_bucket(\"k\", 2, 10s); return (hash); }
            if (vsthrottle.is_denied(\"k\", 2, 10s)) {
                return (synth(429, \"\" + vsthrottle.remaining(\"k\", 2, 10s)));
            }
            return (hash);
        }
        sub vcl_hash { hash_data(\"\" + vsthrottle.blocked(\"b\", 1, 1s, 5s)); return (lookup); }",
    );
    let mut scene = Scene::default();
    let denied = Outcome::Synth(429, Some("0".into()));
    let mut ask = |target: &str, now: f64| {
        scene.req.target = target.into();
        scene.now = NOW + now;
        scene.run(&policy, State::Recv)
    };
    assert_eq!(
        [ask("/", 0.0), ask("/", 0.0), ask("/", 0.0)],
        [Outcome::Hash, Outcome::Hash, denied.clone()]
    );
    // Five of ten seconds bring one of two tokens back.
    assert_eq!([ask("/", 5.0), ask("/", 5.0)], [Outcome::Hash, denied.clone()]);
    ask("/give", 5.0);
    assert_eq!([ask("/", 5.0), ask("/", 5.0)], [Outcome::Hash, denied]);
    ask("/drop", 5.0);
    assert_eq!(ask("/", 5.0), Outcome::Hash);
}

#[test]
fn bodies_are_seen_where_they_were_kept() {
    let mut scene = Scene::default();
    scene.node.body = Some(b"user=admin"[..].into());
    let policy = compile(
        "import bodyaccess; import std; sub vcl_recv {
            std.cache_req_body(1KB);
            bodyaccess.log_req_body(\"body: \", 6);
            set req.http.Shown = bodyaccess.rematch_req_body(\"admin\") + \
             bodyaccess.rematch_req_body(\"guest\") + bodyaccess.len_req_body();
            return (hash);
        }
        sub vcl_hash { bodyaccess.hash_req_body(); return (lookup); }",
    );
    scene.run(&policy, State::Recv);
    assert_eq!(scene.task.take_failure(), None);
    assert_eq!(scene.req.fields.get_str("shown"), Some("11"));
    assert!(scene.node.events.iter().any(|event| event == "debug body: user=a"));
    scene.run(&policy, State::Hash);
    assert_eq!(scene.task.hash_parts().len(), 65);

    // What is not kept, or asked for elsewhere, is said in the log, and the request goes on.
    scene.node.body = None;
    scene.run(&policy, State::Recv);
    assert_eq!(scene.req.fields.get_str("shown"), Some("-3"));
    assert_eq!(scene.task.take_failure(), None);
    assert!(scene.node.events.iter().any(|event| event.contains("Unbuffered req.body")));
}

#[test]
fn ends_of_connections_are_told() {
    table(&[
        ("proxy.alpn() + proxy.authority() + proxy.is_ssl()", "false"),
        ("\"\" + proxy.client_has_cert_sess() + proxy.client_has_cert_conn()", "falsefalse"),
        ("proxy.ssl_version() + proxy.ssl_cipher() + proxy.client_cert_cn()", ""),
        ("proxy.cert_sign() + proxy.cert_key() + proxy.ssl_verify_result()", "0"),
        ("unix.user() + unix.group() + unix.uid() + unix.gid()", "-1-1"),
        ("\"\" + vtc.typesize(\"cp\") + vtc.typesize(\"?\")", "16-1"),
        ("\"\" + vtc.no_backend() + vtc.no_stevedore()", ""),
    ]);
    let mut scene = Scene::default();
    scene.session.tls = Some(freshet_vcl::TlsFacts {
        version: "TLSv1.3".into(),
        cipher: "AES".into(),
        authority: "a.example".into(),
        alpn: "h2".into(),
        client_certificate: Some(CertificateFacts {
            common_name: "me".into(),
            name: "me.example".into(),
            subject: "CN=me".into(),
            issuer: "CN=us".into(),
            serial: "0a".into(),
            fingerprint: "ff".into(),
        }),
    });
    let expression = "proxy.alpn() + proxy.authority() + proxy.is_ssl() + proxy.ssl_version() + \
                      proxy.ssl_cipher() + proxy.client_cert_cn()";
    let found = shown_in(State::Recv, ALL, expression, &mut scene);
    assert_eq!(found, "h2a.exampletrueTLSv1.3AESme");
    let expression = "tls.client_name() + tls.client_subject() + tls.client_issuer() + \
                      tls.client_serial() + tls.client_fingerprint() + tls.client_verified()";
    let found = shown_in(State::Recv, "import tls;", expression, &mut scene);
    assert_eq!(found, "me.exampleCN=meCN=us0afftrue");
    assert_eq!(shown("import tls;", expression), "false");
}

#[test]
fn who_was_let_in_is_told() {
    let expression = "\"\" + access.user() + access.has_token() + access.token_id() + \
                      access.claim(\"tier\") + access.claim(\"nothing\") + access.claim(\"\") + \
                      access.said(\"x-who\") + access.said(\"\") + access.backend()";
    let platform = "mec.client() + mec.app() + mec.group() + mec.service() + mec.scope()";
    assert_eq!(shown("import access;", expression), "false");
    assert_eq!(shown("import mec;", platform), "");
    let mut scene = Scene::default();
    scene.session.access = Some(std::sync::Arc::new(freshet_vcl::AccessFacts {
        user: "ann".into(),
        has_token: true,
        token_id: "j1".into(),
        claims: vec![("tier".into(), "gold".into())],
        said: [("X-Who", "a"), ("Mec-Client", "partner"), ("Mec-Scope", "services:d:read")]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        has_place: true,
    }));
    let found = shown_in(State::Recv, "import access;", expression, &mut scene);
    assert_eq!(found, "anntruej1goldatold");
    let found = shown_in(State::Recv, "import mec;", platform, &mut scene);
    assert_eq!(found, "partnerservices:d:read");
    let policy = "import access; sub vcl_recv { set req.backend_hint = access.backend(); \
                  if (req.backend_hint != access.backend()) { return (synth(500)); } return (pass); }";
    assert_eq!(scene.run(&compile(policy), State::Recv), Outcome::Pass(None));
}

#[test]
fn a_proxy_in_front_tells_of_the_clients_tls() {
    let mut scene = Scene::default();
    scene.session.tls = Some(freshet_vcl::TlsFacts {
        version: "TLSv1.2".into(),
        authority: "node.example".into(),
        ..freshet_vcl::TlsFacts::default()
    });
    scene.session.front = Some(freshet_vcl::FrontFacts {
        is_tls: true,
        has_certificate_in_session: true,
        verify_result: 10,
        version: Some("TLSv1.3".into()),
        alpn: Some(String::new()),
        common_name: Some("client.example".into()),
        signature_algorithm: Some("RSA-SHA256".into()),
        key_algorithm: Some("EC256".into()),
        ..freshet_vcl::FrontFacts::default()
    });
    for (expression, expected) in [
        ("\"\" + proxy.is_ssl() + proxy.ssl_verify_result()", "true10"),
        ("\"\" + proxy.client_has_cert_sess() + proxy.client_has_cert_conn()", "truefalse"),
        ("proxy.ssl_version() + proxy.client_cert_cn()", "TLSv1.3client.example"),
        ("proxy.cert_sign() + proxy.cert_key()", "RSA-SHA256EC256"),
        // What it does not say, TLS to the proxy does not say of the client either.
        ("proxy.authority() + proxy.ssl_cipher()", ""),
    ] {
        assert_eq!(shown_in(State::Recv, ALL, expression, &mut scene), expected, "{expression}");
    }
    let says = "if (proxy.alpn() && !proxy.authority()) { return (pass); }";
    let policy = compile(&format!("import proxy; sub vcl_recv {{ {says} }}"));
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Pass(None));
}

#[test]
fn relations_of_texts_hold_only_where_both_are_set() {
    let rows = [
        ("str.startswith(req.http.nothing, \"a\")", "false"),
        ("str.startswith(req.url, req.http.nothing)", "false"),
        ("str.endswith(req.url, req.http.nothing)", "false"),
        ("str.contains(req.url, req.http.nothing)", "false"),
        ("str.contains(req.url, \"\")", "true"),
        ("str.take(\"abcdef\", -2)", "ef"),
        ("str.take(\"abcdef\", 2, -3)", "de"),
    ];
    for (expression, expected) in rows {
        assert_eq!(shown("import str;", &format!("\"\" + {expression}")), expected, "{expression}");
    }
}

#[test]
fn names_of_header_fields_can_be_made() {
    let (_, scene) = after(
        State::Recv,
        "import header;",
        "header.append(header.dyn(req, \"X-\" + \"Made\"), \"1\"); header.append(header.dyn(req, \
         \"x-made: old\"), \"2\"); set req.http.Read = header.dyn(req, \"x-made\"); \
         header.copy(header.dyn(req, \"x-made\"), req.http.Copy);",
    );
    let fields = &scene.req.fields;
    assert_eq!(fields.get_all("x-made").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!((fields.get_str("read"), fields.count("copy")), (Some("1"), 2));
}

#[test]
fn geoip2_asks_the_database_of_its_object() {
    let imports = "import geoip2; sub vcl_init { new d = geoip2.geoip2(\"echo.mmdb\"); }";
    for (expression, expected) in [
        ("d.lookup(\"country/iso_code\", client.ip)", "country/iso_code of 192.0.2.7"),
        ("d.lookup(\"none\", client.ip) + \"x\"", "x"),
    ] {
        assert_eq!(shown(imports, expression), expected, "{expression}");
    }
}

#[test]
fn functions_of_every_kind_can_be_called() {
    let imports = "import debug; acl near { \"192.0.2.0\"/24; } sub vcl_init { new o = debug.obj(number = \
                   two); new p = debug.obj_opt(b = true); new l = debug.aclobj(near); new c = \
                   debug.concat(\"a\" + 1); }";
    for (expression, expected) in [
        ("debug.author() + debug.author(someone = geoff)", "Poul-HenningPoul-Henning"),
        ("debug.argtest(\"1\", three = \"3c\", two = 2.5)", "1 2.5 3c , 4 0 <undef>"),
        ("debug.argtest(\"1\", opt = \"7\")", "1 2 3 , 4 1 7"),
        ("o.string() + o.number() + o.bar(\"\")", "defaulttwoBOO"),
        ("p.meth_opt(s = \"x\")", "obj p obj_s *undef* obj_b true met_s x met_b *undef*"),
        ("c.get() + debug.return_strands(\"b\" + \"c\")", "a1bc"),
        ("\"\" + (client.ip ~ debug.acl(near)) + (client.ip !~ l.get())", "truefalse"),
        ("\"\" + debug.match_acl(ip = \"10.0.0.1\", acl = near)", "false"),
        ("\"\" + (client.ip ~ debug.null_acl())", "failed: Cannot match a null ACL"),
        ("\"\" + (req.url ~ (debug.just_return_regex(\"^\" + \"/\")))", "true"),
        ("\"\" + (\"x\" !~ debug.just_return_regex(\"y\"))", "true"),
        ("regsub(\"a OK b\", debug.just_return_regex(\"OK\"), \"c\")", "a c b"),
        ("debug.re_quote(\"a\\Eb\") + debug.re_quote(\"\")", "\\Qa\\\\EE\\Qb\\E"),
        (
            "\"\" + debug.validhdr(\"a\") + debug.client_ip() + debug.client_port()",
            "true192.0.2.74711",
        ),
        ("debug.test_priv_task(\"a\") + debug.test_priv_task(\"b\")", "aa b"),
        ("o.test_priv_task(\"a\") + o.test_priv_task(\"b\") + o.test_priv_task()", "abb"),
        ("debug.priv_task_with_option() + debug.priv_task_with_option(\"1\")", "1"),
        ("\"\" + debug.fail2()", "failed: Forced failure"),
    ] {
        assert_eq!(shown(imports, expression), expected, "{expression}");
    }
    let (_, scene) = after(
        State::Recv,
        "import debug; import std;",
        "debug.store_ip(std.ip(\"192.0.2.9:81\", client.ip)); debug.sethdr(req.http.A, \"1\" + \
         debug.get_ip());",
    );
    assert_eq!(scene.req.fields.get_str("a"), Some("1192.0.2.9"));
}

#[test]
fn counts_and_texts_of_the_process_go_on_in_the_policy_that_follows() {
    let text = |more: &str| {
        format!(
            "import var; import vsthrottle; sub vcl_recv {{ {more} set req.http.Shown = \
             var.global_get(\"a\") + vsthrottle.remaining(\"k\", 3, 1h); return (hash); }}"
        )
    };
    let first =
        compile(&text("var.global_set(\"a\", \"kept\"); vsthrottle.is_denied(\"k\", 3, 1h);"));
    let second = crate::scene::compile_after(Some(&first), &text(""));
    let mut scene = Scene::default();
    scene.run(&first, State::Recv);
    scene.run(&second, State::Recv);
    assert_eq!(scene.req.fields.get_str("shown"), Some("kept2"));
    // One that follows nobody begins with nothing.
    scene.run(&compile(&text("")), State::Recv);
    assert_eq!(scene.req.fields.get_str("shown"), Some("3"));
}

#[test]
fn every_object_has_to_be_made() {
    for (class, is_optional) in [("obj", false), ("obj_opt", true)] {
        let text = format!(
            "vcl 4.1; import debug; backend b none; \
             sub vcl_init {{ if (false) {{ new o = debug.{class}(); }} }}"
        );
        let source = Source { name: "test.vcl".into(), text };
        let settings = Settings { test_module: true, ..Settings::default() };
        let (program, _) = freshet_vcl::compile(source, &NoFiles, &settings);
        let loaded = Policy::load(
            "p",
            program.unwrap(),
            Default::default(),
            None,
            NOW,
            &mut Node::default(),
        );
        let said = loaded.map_or_else(|failure| failure.message, |_| String::new());
        let expected = if is_optional { "" } else { "Object o not initialized" };
        assert_eq!(said, expected);
    }
}

#[test]
fn a_workspace_can_be_used_up() {
    let left = "import vtc; sub vcl_recv { vtc.workspace_alloc(client, -100); }";
    for (expression, expected) in [
        ("\"\" + vtc.workspace_free(client)", "100"),
        ("\"\" + vtc.workspace_reserve(client, 100) + vtc.workspace_reserve(client, 101)", "1000"),
        ("\"\" + vtc.workspace_free(backend) + vtc.workspace_reserve(session, 1)", "00"),
    ] {
        assert_eq!(shown(left, expression), expected, "{expression}");
    }
    let statement = "vtc.workspace_alloc(client, 200000);";
    let (outcome, _) = after(State::Recv, "import vtc;", statement);
    assert_eq!(outcome, Outcome::Fail);
}

#[test]
fn what_a_policy_sets_is_no_field_of_the_connection() {
    let (_, scene) = after(
        State::Recv,
        "",
        "set req.http.Connection = \"A, b\"; set req.http.B = \"1\"; set req.http.C = \"2\";",
    );
    assert_eq!(scene.client.spared, ["B".into()]);
    assert_eq!(scene.req.fields.get_str("connection"), Some("A, b"));
    let statements = "set req.http.Connection = \"a\"; set req.http.A = \"1\"; std.rollback(req);";
    let policy = compile(&format!("import std; sub vcl_recv {{ {statements} }}"));
    let mut scene = Scene::default();
    scene.client.original = Some(Box::new(scene.req.clone()));
    scene.run(&policy, State::Recv);
    assert!(scene.client.spared.is_empty());
}

#[test]
fn the_host_is_a_field_as_others_and_a_text_of_nothing_is_none() {
    let (_, scene) = after(
        State::Recv,
        "import header;",
        "set req.http.Host = \"h.example\"; header.copy(req.http.Host, req.http.A); \
         set req.http.B = header.get(req.http.Host, \"^h\"); set req.http.E = \"\"; \
         if (req.http.E.upper()) { set req.http.F = \"1\"; }",
    );
    let field = |name| scene.req.fields.get_str(name);
    assert_eq!([field("A"), field("B"), field("F")], [Some("h.example"), Some("h.example"), None]);
}

#[test]
fn numbers_of_math() {
    for (expression, expected) in [
        ("math.strfromd(\"%.17f\", math.sin(math.constant(M_PI)))", "0.00000000000000012"),
        ("\"\" + math.approx(math.sin(math.constant(M_PI)), 0.0)", "true"),
        ("\"\" + (math.fpclassify(0.0) == math.fpclass(FP_ZERO))", "true"),
        ("\"\" + math.pow(2.0, 10.0)", "1024.000"),
        ("\"\" + math.lround(math.sqrt(2.0) * 100.0)", "141"),
        ("\"\" + math.fmod(7.5, 2.0)", "1.500"),
        ("\"\" + math.floor(-1.5)", "-2.000"),
        ("math.strfromd(\"%g\", math.log(0.0))", "-inf"),
        ("math.strfromd(\"%5f\", 1.0)", "failed: math.strfromd(\"%5f\", ...): Invalid format"),
    ] {
        assert_eq!(shown("import math;", expression), expected, "{expression}");
    }
}

#[test]
fn a_policy_says_whether_a_connection_is_tried_again() {
    let set = "set bereq.retry_connect = !bereq.retry_connect;";
    let (_, scene) = after(State::BackendFetch, "", set);
    assert!(scene.fetch.connects_once);
}
