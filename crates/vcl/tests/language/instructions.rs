//! What a policy adds to a hit in instructions of ours.

#[path = "../../../../bench/instructions/count.rs"]
mod count;
#[path = "../../benches/policy/hit.rs"]
mod hit;

use hit::{HEAD, load, long_policy, request, response, session};

/// Has a policy judge so many hits.
fn judge(text: String, rounds: u64) {
    let policy = load(text);
    let (session, req, resp) = (session(), request(), response());
    for _ in 0..rounds {
        hit::hit(&policy, &session, &req, &resp);
    }
}

#[test]
fn a_hit_by_the_builtin_text() {
    count::check("vcl-hit", |rounds| judge(HEAD.into(), rounds));
}

#[test]
fn a_hit_by_300_lines_with_20_patterns() {
    count::check("vcl-hit-300-lines", |rounds| judge(long_policy(), rounds));
}
