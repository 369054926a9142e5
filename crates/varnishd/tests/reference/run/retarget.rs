//! Policies as operators have them, with the origin in the place of their backends.

use crate::corpus::closing;

/// A policy whose backends are all the origin, whose objects are its own, and which checks nothing.
pub(super) fn retargeted(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("backend ") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let body = from.find('{').filter(|open| from[..*open].split_whitespace().count() == 2);
        let Some(open) = body.filter(|_| before.ends_with(['\n', ' ', '}', ';']) || out.is_empty())
        else {
            out.push_str("backend ");
            rest = &from["backend ".len()..];
            continue;
        };
        let end = open + closing(&from[open..]);
        out.push_str(&from[..open]);
        out.push_str("{ .host = \"127.0.0.1\"; .port = \"ORIGIN\"; }\n");
        rest = &from[end..];
    }
    out.push_str(rest);
    // In front of what the policy says itself, or it would never be reached.
    let end = out.find("vcl 4").and_then(|at| Some(at + out[at..].find(';')? + 1)).unwrap_or(0);
    out.insert_str(end, "\nsub vcl_hash { hash_data(\"SEED\"); }\n");
    out
}
