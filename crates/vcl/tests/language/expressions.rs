//! Operators, conversions and literals.

use crate::scene::{holds, shown};

#[test]
fn values_become_text_as_the_language_has_it() {
    let table = [
        ("\"a\" + \"b\"", "ab"),
        ("\"a\" + \"b\" + {\"c\nd\"} + \"\"\"e\"\"\"", "failed"),
        ("\"a\" + req.url + \"b\"", "a/a?b=1b"),
        ("1 + \"b\"", "1b"),
        ("req.url + 1", "/a?b=11"),
        ("\"\" + 1.5", "1.500"),
        ("\"\" + 10s", "10.000"),
        ("\"\" + 1.5h", "5400.000"),
        ("\"\" + 100ms", "0.100"),
        ("\"\" + 2d + 1w", "172800.000604800.000"),
        ("\"\" + true", "true"),
        ("\"\" + now", "Fri, 20 Nov 2026 12:00:00 GMT"),
        ("\"\" + (now + 1d)", "Sat, 21 Nov 2026 12:00:00 GMT"),
        ("\"\" + (now - req.time)", "1.000"),
        ("\"\" + client.ip", "192.0.2.7"),
        ("\"\" + req.backend_hint", "b0"),
        ("\"\" + (2 * 3 + 4)", "10"),
        ("\"\" + (7 / 2)", "3"),
        ("\"\" + (7 % 4)", "3"),
        ("\"\" + (1 + 2.5)", "3.500"),
        ("\"\" + (10s * 2)", "20.000"),
        ("\"\" + (10s / 4)", "2.500"),
        ("\"\" + (10s - 4s)", "6.000"),
        ("\"\" + -5s", "-5.000"),
        ("req.http.nothing", ""),
        ("req.http.X-Empty", ""),
        ("req.url.upper()", "/A?B=1"),
        ("req.http.User-Agent.lower()", "test"),
        ("\"x\" + req.http.host", "xexample.test"),
        ("req.http.\"user-agent\"", "Test"),
        ("regsub(req.url, \"(.)a\", \"\\1\\1\\0\")", "///a?b=1"),
        ("regsuball(\"aXbX\", \"X\", \"-\")", "a-b-"),
        ("regsub(\"abc\", \"q\", \"-\")", "abc"),
    ];
    for (expression, expected) in table {
        let found = shown("import std;", expression);
        if expected == "failed" {
            assert!(found.starts_with("failed: Bad header"), "{expression}: {found}");
        } else {
            assert_eq!(found, expected, "{expression}");
        }
    }
}

#[test]
fn conditions_hold_as_the_language_has_it() {
    let table = [
        ("req.http.User-Agent", true),
        ("req.http.X-Empty", true),
        ("req.http.nothing", false),
        ("!req.http.nothing", true),
        ("req.restarts", false),
        ("req.restarts == 0", true),
        ("req.backend_hint", true),
        ("10s > 9s && 1 < 2", true),
        ("10s < 9s || 1 > 2", false),
        ("1 <= 1 && 1 >= 1 && 1 != 2", true),
        ("\"a\" < \"b\" && \"b\" >= \"a\"", true),
        ("req.url ~ \"^/a\"", true),
        ("req.url !~ \"^/a\"", false),
        ("req.url ~ \"^/(?!a)\"", false),
        ("req.url ~ \"(?i)^/A\"", true),
        ("\"aa\" ~ \"^(a)\\1$\"", true),
        ("client.ip == \"192.0.2.7\"", true),
        ("client.ip != \"192.0.2.7\"", false),
        ("client.ip == remote.ip", false),
        ("req.http.nothing == \"\"", false),
        ("req.http.nothing != \"x\"", true),
        ("req.http.X-Empty == \"\"", true),
        ("now > req.time", true),
        ("req.method == \"GET\" && (req.url == \"/b\" || req.url == \"/a?b=1\")", true),
        ("true && !false", true),
        ("1.5 > 1.0", true),
        ("!(req.url ~ \"a\")", false),
        ("std.healthy(req.backend_hint)", true),
    ];
    for (condition, expected) in table {
        assert_eq!(holds(condition), expected, "{condition}");
    }
}

#[test]
fn branches_are_taken_one_at_a_time() {
    let text = |n: &str| {
        format!(
            "if (req.url == \"x\") {{ return (pass); }} elseif ({n} == 1) {{ return (synth(201)); }} \
             elsif ({n} == 2) {{ return (synth(202)); }} elif ({n} == 3) {{ return (synth(203)); }} \
             else if ({n} == 4) {{ return (synth(204)); }} else {{ return (synth(205)); }}"
        )
    };
    for number in 1..=5 {
        let statements = text(&number.to_string());
        let (outcome, _) = crate::scene::after(freshet_vcl::State::Recv, "", &statements);
        assert_eq!(outcome, freshet_vcl::Outcome::Synth(200 + number, None));
    }
}

#[test]
fn numbers_too_large_for_a_text_fail_also_where_they_are_known_before() {
    for expression in [
        "999999999999.999 + 1.0",
        "999999999999.999 - -999999999999.999 / 2",
        "1.5m * 999999999999.999",
        "1.5 * 999999999999999 * 3.0 + 1.5",
        "999999999999999 + 1",
    ] {
        let statements = format!("set req.http.A = \"\" + ({expression});");
        let (outcome, _) = crate::scene::after(freshet_vcl::State::Recv, "", &statements);
        assert_eq!(outcome, freshet_vcl::Outcome::Fail, "{expression}");
    }
    assert_eq!(shown("", "\"\" + 999999999999.0"), "999999999999.000");
    assert_eq!(shown("", "\"\" + 999999999999999"), "999999999999999");
}
