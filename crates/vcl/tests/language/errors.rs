//! Mistakes: that each is found, with words people and Varnish's own tests look for.

use freshet_vcl::{NoFiles, Report, Settings, Source};

fn check(text: &str) -> Report {
    let text = if text.contains("vcl 4.") || text.contains("vcl 3") || text.contains("vcl 9") {
        text.to_owned()
    } else {
        format!("vcl 4.1;\nbackend b {{ .host = \"127.0.0.1\"; }}\n{text}")
    };
    let settings = Settings::default();
    let source = Source { name: "<vcl.inline>".into(), text };
    freshet_vcl::compile(source, &NoFiles, &settings).1
}

#[test]
fn mistakes_are_named_as_varnish_names_them() {
    let recv = |statement: &str| format!("sub vcl_recv {{ {statement} }}");
    let rows: Vec<(String, &str)> = vec![
        (recv("set req.foo = 1;"), "Symbol not found: 'req.foo'"),
        (recv("set req.url = req.foo;"), "Unknown property 'foo' for type HTTP"),
        (recv("nobody;"), "Symbol not found: 'nobody'"),
        (recv("b;"), "Symbol cannot be used here."),
        (recv("b.foo = 1;"), "Symbol cannot be used here."),
        (format!("import std; {}", recv("std;")), "Symbol cannot be used here."),
        (format!("import std; {}", recv("std.log = 1;")), "Expected '(' got '='"),
        (recv("acl;"), "Symbol cannot be used here."),
        (
            "import directors; sub vcl_init { new d = directors.hash(); d; }".into(),
            "Expected '.' got ';'",
        ),
        (
            "import directors; sub vcl_init { new d = directors.hash(); d(1); }".into(),
            "Expected '.' got '('",
        ),
        (recv("set req.restarts = 1;"), "Variable is read only."),
        (recv("unset req.url;"), "Variable cannot be unset"),
        (recv("set req.http.a = obj.ttl;"), "Not available in subroutine 'vcl_recv'."),
        (recv("set beresp.ttl = 1s;"), "Cannot be set in subroutine 'vcl_recv'."),
        (recv("return (deliver);"), "Invalid return \"deliver\""),
        (recv("return (deliver);"), "Not a valid action in subroutine 'vcl_recv'"),
        (recv("return (1);"), "Expected return action name."),
        (recv("return (synth);"), "Missing argument."),
        (recv("return (pass(1s));"), "Not available in subroutine 'vcl_recv'"),
        (recv("return (hash(1));"), "Arguments not allowed."),
        (recv("if (req.url ~ req.url) { }"), "Expression has type STRING, expected REGEX"),
        (recv("if (req.url ~ \"(\") { }"), "Regexp compilation error:"),
        (recv("if (req.url == 1) { }"), "Comparison of different types: STRING '==' INT"),
        (recv("if (req.restarts != \"1\") { }"), "Comparison of different types: INT '!=' STRING"),
        (
            recv("if (req.backend_hint == \"b\") { }"),
            "Comparison of different types: BACKEND '==' STRING",
        ),
        (recv("if (client.ip > \"127.0.0.1\") { }"), "Operator > not possible on IP"),
        (recv("if (b > b) { }"), "Operator > not possible on BACKEND"),
        (recv("if (1.5 || true) { }"), "'||' must be preceeded by BOOL, found REAL."),
        (recv("if (true && 1.5) { }"), "'&&' must be followed by BOOL, found REAL."),
        (recv("if (!1.5) { }"), "'!' must be followed by BOOL, found REAL."),
        (recv("set req.ttl = now + now;"), "TIME + TIME not possible."),
        (recv("set req.ttl = 1s + 1;"), "DURATION + INT not possible."),
        (recv("set req.http.a = req.url * 1;"), "Operator * not possible on type STRING."),
        (recv("set req.http.a = \"a\" - \"b\";"), "STRING - STRING not possible."),
        (recv("set req.http.a = 1.5 % 2;"), "Operator % only possible on INT"),
        (recv("set req.ttl = 120;"), "Expression has type INT, expected DURATION"),
        (recv("set req.ttl = 1x;"), "Unknown duration unit 'x'"),
        (recv("set req.url -= \"a\";"), "Expected '=' got '-='"),
        (recv("set req.http.a >> \"a\";"), "Expected '=' got '>>'"),
        (recv("set req.http.a = \"a\""), "Expected ';' got '}'"),
        (recv("set req.http.a = 1234567890123456;"), "Too many digits for integer."),
        (recv("set req.http.a = 1.1234;"), "Too many digits for real."),
        (
            recv("set req.http.a = regsub(req.url, req.url, \"\");"),
            "Expression has type STRING, expected REGEX",
        ),
        (recv("call nothing;"), "Undefined sub nothing, first reference:"),
        (recv("set req.backend_hint = nothing;"), "Undefined backend nothing, first reference:"),
        (recv("nothing();"), "Symbol not found: 'nothing'"),
        (recv("call req;"), "Expression has type HTTP, expected SUB"),
        (recv("req.url;"), "Expected '(' got ';'"),
        (recv("vcl_hit"), "Symbol cannot be used here."),
        (recv("unset obj.http.a;"), "Variable cannot be unset."),
        (
            "import directors; sub vcl_init { new d = directors.hash(); } ".to_owned()
                + &recv("set req.http.a = d;"),
            "Cannot convert directors.hash to STRING.",
        ),
        // What a name is taken for before it is declared is what it has to be.
        (
            recv("if (client.ip ~ later) { }") + " sub later { }",
            "Symbol 'later' has wrong type (acl), expected sub:",
        ),
        (
            recv("set req.backend_hint = later;") + " sub later { }",
            "Symbol 'later' has wrong type (backend), expected sub:",
        ),
        // A class has methods in its objects only.
        ("import directors; ".to_owned() + &recv("directors.random.backend();"), "Syntax error"),
        (recv("if (client.ip ~ vcl_foo) { }"), "Symbols named 'vcl_*' are reserved."),
        (
            "sub first { } ".to_owned() + &recv("if (client.ip ~ first) { }"),
            "Symbol 'first' can only be used as a SUB expression",
        ),
        (recv("return (vcl(vcl_recv));"), "Symbol 'vcl_recv' has wrong type (sub), expected vcl:"),
        (recv("return (vcl(req.url));"), "Symbol 'req.url' has wrong type (var), expected vcl:"),
        (recv("set req.url = \"a\" \"b\";"), "Expected ';' got"),
        (recv("set req.url = !!true;"), "Unknown token '!' when looking for"),
        (recv("if (1KB == 1024B) { }"), "Unknown duration unit 'KB'"),
        (recv("if (true) { } else set req.url = \"a\";"), "'else' must be followed by"),
        (recv("std.log(\"x\");"), "Symbol not found: 'std.log'"),
        (recv("hash_data(\"x\");"), "Not a valid action in subroutine 'vcl_recv'."),
        (recv("new a = directors.random();"), "Not a valid action in subroutine 'vcl_recv'"),
        (recv("return (pipe(x));"), "Arguments not allowed."),
        (recv("C{ int x; }C"), "Inline-C not allowed"),
        (recv("set req.http.a = \"abc"), "Unterminated string, starting at"),
        (recv("set req.http.a = {\"abc"), "Unterminated long-string, starting at"),
        ("/* x".into(), "Unterminated /* ... */ comment, starting at"),
        ("/* /* */".into(), "/* ... */ comment contains /*"),
        ("C{ x".into(), "Unterminated inline C source, starting at"),
        ("sub vcl_foo { }".into(), "The names 'vcl_*' are reserved for subroutines."),
        ("sub a { } sub a { } sub vcl_recv { call a; }".into(), "Subroutine 'a' redefined"),
        ("sub a.b { }".into(), "Name of subroutine, 'a.b', contains illegal character '.'"),
        ("acl a.b { }".into(), "Name of ACL, 'a.b', contains illegal character '.'"),
        ("sub a { }".into(), "Unused sub a, defined:"),
        ("acl a { }".into(), "Unused acl a, defined:"),
        ("probe p { }".into(), "Unused probe p, defined:"),
        ("backend c { .host = \"127.0.0.1\"; }".into(), "Unused backend c, defined:"),
        ("backend b { .host = \"127.0.0.1\"; }".into(), "Backend 'b' redefined"),
        ("backend c { .host = \"127.0.0.1\"; .hots = \"x\"; }".into(), "Unknown field: hots"),
        ("backend c { .host = 1; }".into(), "Expected CSTR got '1'"),
        (
            "backend c { .host = \"no.such.host\"; }".into(),
            "could not be resolved to an IP address",
        ),
        ("backend c { .path = \"@\"; }".into(), "The empty abstract socket name is not supported"),
        ("backend c { .host = \"127.0.0.1\"; .probe = p; }".into(), "Undefined probe p"),
        (
            "backend c { .host = \"127.0.0.1\"; .probe = default; }".into(),
            "No default probe defined",
        ),
        ("backend c { .host = \"127.0.0.1\"; .proxy_header = 3; }".into(), "Unknown PROXY version"),
        ("probe p { .window = 65; .threshold = 3; }".into(), "Window must be 64 or less"),
        (
            "probe p { .window = 3; .threshold = 4; }".into(),
            "Threshold can not be greater than window",
        ),
        ("probe p { .window = 3; }".into(), "Must specify .threshold with .window"),
        ("probe p { .url = \"/\"; .request = \"GET\"; }".into(), "Probe request redefinition at:"),
        ("probe p { .expected_response = 1000; }".into(), "with exactly three digits"),
        ("acl a { \"127.0.0.1\"/33; }".into(), "Too wide mask (/33) for IPv4 address"),
        ("acl a { \"::1\"/129; }".into(), "Too wide mask (/129) for IPv6 address"),
        ("acl a { \"127.0.0.1\"/24; }".into(), "Non-zero bits in masked part"),
        ("acl a { \"127.0.0.1\"; ! \"127.0.0.1\"; }".into(), "Conflicting ACL entries:"),
        ("acl a +foo { }".into(), "Unknown ACL flag"),
        ("acl a + { }".into(), "Expected a flag at:"),
        ("acl a { (\"127.0.0.0\"/8)/8; }".into(), "/mask only allowed once"),
        ("backend c { .host = \"[::1\"; }".into(), "IPv6 address lacks ']'"),
        ("backend c { .host = \"[::1]/8\"; }".into(), "IPv6 address has wrong port separator"),
        (
            "backend c { .host = \"127.0.0.1\"; .probe = p; } probe p { }".into(),
            "Symbol not found: 'p'",
        ),
        (
            "sub vcl_init { new a.b = directors.random(); }".into(),
            "Name of VCL object, 'a.b', contains illegal character '.'",
        ),
        // Only what is a module's may have a comma behind its last argument.
        (recv("set req.url = regsub(req.url, \"a\", \"b\",);"), "Expected ')' got ','"),
        (recv(":a:"), "BLOB must have n*4 base64 characters"),
        (recv(":aa?:"), "Illegal BLOB character:"),
        (recv(":AB==:"), "Illegal BLOB character:"),
        (recv(":aaaa=aa:"), "Wrong padding ('=') in BLOB"),
        (recv(":aaaa"), "Missing colon at end of BLOB"),
        (recv("if (req.url ~ ! \"a\") { }"), "Unknown token '!' when looking for REGEX"),
        (recv("set req.http.{\"a b\"} = \"c\";"), "Invalid character ' ' in header name"),
        (recv("set req.\"http\".a = \"b\";"), "Expected '=' got '.'"),
        ("zool".into(), "Found: 'zool' at"),
        ("vcl 4.01; ".into(), "Don't play silly buggers with VCL version numbers"),
        ("vcl 4.1 ".into(), "Expected 'vcl N.N;' found no semi-colon"),
        ("import nothing;".into(), "Could not find VMOD nothing"),
        ("include \"x\"".into(), "include <string> not followed by semicolon."),
        ("include x;".into(), "include not followed by string constant."),
        ("fnord;".into(), "Syntax error"),
        ("vcl 9.9; ".into(), "VCL version 9.9 not supported."),
        ("vcl 3.9; ".into(), "VCL version 3.9 not supported."),
        ("vcl 4.1; ".into(), "No backends or directors found"),
        (
            "vcl 4.0; backend b none; sub vcl_recv { set req.http.a = local.socket; }".into(),
            "Symbol not found: 'local.socket' (Only available when 4.1 <= VCL syntax)",
        ),
        (
            "vcl 4.1; backend b none; sub vcl_recv { set req.esi = true; }".into(),
            "(Only available when VCL syntax <= 4.0)",
        ),
        (
            "vcl 4.0; backend b none; sub vcl_recv { set req.http.\"a.b\" = \"\"; }".into(),
            "Quoted headers are available for VCL >= 4.1",
        ),
        ("sub a { call c; } sub c { call a; } sub vcl_recv { call a; }".into(), "recurses"),
        ("acl ban { \"127.0.0.1\"; }".into(), "Name ban must have type 'action'."),
        ("sub set { }".into(), "Symbol 'set' has wrong type (action), expected sub:"),
        ("acl regsub { }".into(), "Name regsub must have type 'func'."),
        ("acl Default { }".into(), "Name Default must have type 'func'."),
        ("acl now { }".into(), "Name now must have type 'var'."),
        ("acl vcl { }".into(), "Name vcl must have type 'reserved'."),
        ("acl VCL_a { }".into(), "Symbols named 'vcl_*' are reserved."),
        ("sub true { }".into(), "Symbol 'true' has wrong type (func), expected sub:"),
        ("import std as req;".into(), "Symbol 'req' has wrong type (var), expected vmod:"),
        ("import std as vcl_s;".into(), "Symbols named 'vcl_*' are reserved."),
        ("sub b { }".into(), "Symbol 'b' has wrong type (backend), expected sub:"),
        ("acl b { }".into(), "Name 'b' already defined."),
        // Words that mean something in one place only are free in others.
        ("sub none { }".into(), "Unused sub none, defined:"),
        ("acl none { }".into(), "Unused acl none, defined:"),
        ("probe else { }".into(), "Unused probe else, defined:"),
        (
            "backend c { .host = \"127.0.0.1:80\"; .port = \"81\"; }".into(),
            "Backend host '\"127.0.0.1:80\"' could not be resolved",
        ),
        (
            "backend c { .host = \"\"; }".into(),
            "Backend host '\"\"' could not be resolved to an IP address",
        ),
        (
            "backend c { .host = \"127.0.0.1\"; .probe = { .url = \"/\"; }; }".into(),
            "Expected '.' got ';'",
        ),
        ("acl foo { } sub vcl_init { new bar = foo; }".into(), "Symbol not found: 'foo'"),
        (
            "sub a { set req.http.a = bereq.url; } sub vcl_recv { call a; }".into(),
            "Not available in subroutine 'vcl_recv'",
        ),
        ("sub vcl_recv { set req.http.a = bereq.url + obj.ttl; }".into(), "'obj.ttl'"),
        (
            "import std; sub vcl_recv { set req.http.a = std; }".into(),
            "Symbol 'std' type (vmod) can not be used in expression.",
        ),
        ("import std; sub vcl_recv { std.log(); }".into(), "Argument 's' missing"),
        ("import std; sub vcl_recv { std.log(\"a\", \"b\"); }".into(), "Expected ')' got '\"b\"'"),
        ("import std; sub vcl_recv { std.log(\"a\", 1.5); }".into(), "Expected ')' got '1.5'"),
        ("import std; sub vcl_recv { std.log(\"a\", req.url); }".into(), "Unknown argument 'req'"),
        (recv("ban(\"a\" + req.url req.url);"), "Expected ')' got 'req'"),
        (recv("return (synth(200, req.url req.url));"), "Expected ')' got 'req'"),
        (recv("return (synth(200, \"a\", \"b\"));"), "Expected ')' got ','"),
        (recv("set req.url = regsub(req.url, \"a\", \"b\" req.url);"), "Expected ')' got 'req'"),
        (recv("unset req.http;"), "Symbol 'req.http' has wrong type (none), expected var:"),
        (
            "sub own { unset beresp.http.A; } sub vcl_recv { call own; }".into(),
            "Cannot be unset from subroutine 'vcl_recv'.",
        ),
        ("import std; sub vcl_recv { std.log(t = \"a\"); }".into(), "Unknown argument 't'"),
        (
            "import std; sub vcl_recv { std.log(\"a\", s = \"a\"); }".into(),
            "Argument 's' already used",
        ),
        (
            "import std; sub vcl_recv { set req.http.a = std.log(\"a\"); }".into(),
            "Function returns VOID",
        ),
        (
            "import std; sub vcl_recv { if (std.syntax(\"x\")) { } }".into(),
            "Expression has type STRING, expected REAL",
        ),
        (
            "import blob; sub vcl_recv { set req.http.a = blob.encode(FOO, blob = :aaaa:); }"
                .into(),
            "Wrong enum value.  Expected one of:",
        ),
        ("sub vcl_recv { set req.http.a = :aaaaa=a:; }".into(), "Wrong padding ('=') in BLOB"),
    ];
    let mut missed = Vec::new();
    for (text, wanted) in rows {
        let report = check(&text);
        let shown = report.render_vcc();
        if !shown.contains(wanted) || !report.render(false).contains("error") {
            missed.push(format!("{text}\nwanted: {wanted}\n{shown}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

#[test]
fn all_mistakes_are_found_at_once_with_their_cures() {
    let report = check(
        "import stdd;\nsub vcl_recv {\n  set req.htp.X = \"1\";\n  set req.ttl = 10;\n  return \
         (pas);\n}\nsub vcl_deliver {\n  set resp.http.X = obj.hit;\n  if (req.url ~ \"a\" {\n  }\n  \
         set resp.status = \"a\";\n}\n",
    );
    let shown = report.render(false);
    for wanted in [
        "did you mean `std`?",
        "Symbol not found: 'req.htp.X'",
        "write a unit behind it: 10s",
        "did you mean `pass`?",
        "did you mean `obj.hits`?",
        "Expected ')' got '{'",
        "convert it with std.integer(text, 0)",
        "<vcl.inline>:5",
    ] {
        assert!(shown.contains(wanted), "wanted {wanted}\n{shown}");
    }
    assert_eq!(report.diagnostics.len(), 7, "{shown}");
}

/// Of each diagnostic the first line of what is said, in the order in which they are told.
fn told(text: &str) -> Vec<String> {
    let report = check(text);
    let first = |message: &str| message.lines().next().unwrap_or("").to_owned();
    report.diagnostics.iter().map(|one| first(&one.message)).collect()
}

#[test]
fn mistakes_are_told_in_the_order_in_which_varnish_finds_them() {
    // What is found while the text is read comes first, then names, returns, uses.
    let text = "sub vcl_recv { set req.restarts = 1; return (deliver); }\n\
                sub unused { call nobody; }\n\
                sub vcl_hit { set req.url = 1 * \"a\"; }";
    let wanted = [
        "INT * STRING not possible.",
        "Undefined sub nobody, first reference:",
        "Unused sub unused, defined:",
        "Invalid return \"deliver\"",
        "Variable is read only.",
    ];
    assert_eq!(told(text), wanted);
    // In the text the place counts, whether types are wrong there or signs are missing.
    let text = "sub vcl_recv { set req.foo = 1 +; }\nacl a +none { !! \"127.0.0.1\"; }\n\
                sub vcl_hit { if (client.ip ~ a) { } }";
    let wanted = [
        "Symbol not found: 'req.foo'",
        "Unknown token ';' when looking for STRING",
        "Unknown ACL flag:",
        "Expected CSTR got '!'",
    ];
    assert_eq!(told(text), wanted);
    // What can be set nowhere is found before what a state does not have.
    let wanted =
        ["Variable is read only.", "'bereq.http.A': Cannot be unset in subroutine 'vcl_hash'."];
    assert_eq!(told("sub vcl_hash { unset bereq.http.A; set req.restarts = 1; }"), wanted);
    // A backend without a host is found at its end.
    let wanted = ["Expected CNUM got '\"1s\"'", "Expected .host or .path."];
    assert_eq!(told("backend c { .connect_timeout = \"1s\"; }")[..2], wanted);
}

#[test]
fn a_page_of_the_policy_may_be_said_to_be_one_of_parts() {
    let report = check("sub vcl_synth { set resp.do_esi = true; }");
    assert!(!report.has_errors(), "{}", report.render(false));
}

#[test]
fn what_is_broken_off_is_no_mistake_of_another_kind() {
    for (text, wanted) in [
        ("sub vcl_recv { std.log(\"a\" }", "Expected ',' got '}'"),
        ("sub vcl_recv { set req.ttl = (\"a\"; }", "Expected ')' got ';'"),
        ("sub vcl_recv { return (synth(404, ; }", "Unknown token ';' when looking for STRING"),
        ("sub vcl_recv { return (fail()); }", "Unknown token ')' when looking for STRING"),
    ] {
        let text = format!("import std; {text}");
        assert_eq!(told(&text), [wanted], "{text}");
    }
}

#[test]
fn a_mistake_is_shown_with_a_mark_below_it() {
    let report = check("sub vcl_recv { set req.foo = 1; }");
    let vcc = report.render_vcc();
    assert!(vcc.starts_with("Message from VCC-compiler:\nSymbol not found: 'req.foo'"), "{vcc}");
    assert!(
        vcc.contains(
            "At: ('<vcl.inline>' Line 3 Pos 20) -- (Pos 26)\nsub vcl_recv { set req.foo = 1; }\n"
        ),
        "{vcc}"
    );
    assert!(vcc.contains("-------------------#######-------"), "{vcc}");
    assert!(vcc.ends_with("VCL compilation failed"), "{vcc}");
}

#[test]
fn modules_that_are_not_there_have_something_instead() {
    for (module, cure) in [("goto", "looked up by name"), ("querystring", "std.querysort")] {
        let shown = check(&format!("import {module};")).render(false);
        assert!(shown.contains(cure), "{shown}");
    }
}

#[test]
fn arguments_that_a_module_does_not_have_here_have_something_instead() {
    let new = |argument: &str| {
        let text = "import dynamic; probe p { } backend probed { .host = \"::1\"; .probe = p; }";
        check(&format!(
            "{text} sub vcl_recv {{ set req.backend_hint = probed; }}
             sub vcl_init {{ new d = dynamic.director({argument}); }}"
        ))
    };
    let right = new("port = \"8080\", ttl = 5m, share = HOST").render(false);
    assert!(!right.contains("error"), "{right}");
    for (argument, cure) in [
        ("probe = p", "how requests fare"),
        ("keep = 2", "stay while a name server is away"),
        ("max_connection = 1", "did you mean `max_connections`?"),
    ] {
        let shown = new(argument).render(false);
        assert!(shown.contains("Unknown argument") && shown.contains(cure), "{shown}");
    }
}

#[test]
fn calls_that_recur_are_told_one_by_one_in_columns_of_eight() {
    let vcc = check("\tsub foo { call foo; }\n\tsub vcl_recv { call foo; }").render_vcc();
    let wanted = "Subroutine recurses on\n\
        ('<vcl.inline>' Line 3 Pos 13)\n\
        \u{20}       sub foo { call foo; }\n\
        ------------###--------------\n\n\n\
        ...called from \"foo\"\n\
        ('<vcl.inline>' Line 3 Pos 24)\n\
        \u{20}       sub foo { call foo; }\n\
        -----------------------###---\n";
    assert!(vcc.contains(wanted), "{vcc}");
}
