//! Policies of the pieces that operators put theirs together of.

use super::Grammar;
use super::pieces::{DELIVER, ERROR, FETCH, HASH, HIT, MISS, PASS, PURGE, RECV, RESPONSE, SYNTH};
use freshet_vcl::State;

/// What is said before a state's pieces, where there is one that needs it.
const TOP: &str = "import std;
import directors;
import cookie;
import header;
import blob;
import purge;
import str;
import var;
import xkey;
import vsthrottle;
import bodyaccess;
import saintmode;
import accept;
backend b0 { .host = \"127.0.0.1\"; .port = \"ORIGIN\"; }
backend b1 { .host = \"127.0.0.1\"; .port = \"ORIGIN\"; }
acl purgers { \"localhost\"; \"10.0.0.0\"/8; ! \"10.0.0.5\"; }
acl others { \"192.0.2.0\"/24; }
sub vcl_hash { hash_data(\"SEED\"); }
sub vcl_init { new rr = directors.round_robin(); rr.add_backend(b0); rr.add_backend(b1); }
sub vcl_init { new hd = directors.hash(); hd.add_backend(b0, 1.0); hd.add_backend(b1, 2.0); }
sub vcl_init { new fb = directors.fallback(); fb.add_backend(b1); fb.add_backend(b0); }
sub vcl_init { new sh = directors.shard(); sh.add_backend(b0); sh.add_backend(b1); sh.reconfigure(); }
sub vcl_init { new sm = saintmode.saintmode(b0, 10); }
sub vcl_init { new lang = accept.rule(\"en\"); lang.add(\"de\"); lang.add(\"fr\"); }
sub vcl_init { new shp = directors.shard_param(); shp.set(by=URL, alt=1); }
sub vcl_init { new bl = blob.blob(HEX, \"c0ffee\"); }
sub tidy_up { set req.http.Host = req.http.Host.lower(); if (req.http.Cookie == \"\") { unset req.http.Cookie; } call deeper; }
sub deeper { if (req.url ~ \"^/favicon\") { return (synth(204)); } set req.http.X-Deep = req.url; }
sub choose { if (req.http.X-Deep ~ \"^/api\") { set req.backend_hint = b1; return; } set req.backend_hint = b0; }";

/// What is said in each state, and at most how often.
const PIECES: [(State, &[&str], usize); 11] = [
    (State::Recv, &RECV, 6),
    (State::Hash, &HASH, 2),
    (State::Hit, &HIT, 1),
    (State::Miss, &MISS, 1),
    (State::Purge, &PURGE, 1),
    (State::Pass, &PASS, 1),
    (State::BackendFetch, &FETCH, 2),
    (State::BackendResponse, &RESPONSE, 5),
    (State::BackendError, &ERROR, 1),
    (State::Deliver, &DELIVER, 4),
    (State::Synth, &SYNTH, 2),
];

/// A policy for each seed.
pub(crate) fn usual(seed: u64) -> String {
    let mut grammar = Grammar::new(seed);
    grammar.is_run = true;
    let version = grammar.version;
    grammar.line(&format!("vcl {version};"));
    grammar.line(TOP);
    for (state, pieces, most) in PIECES {
        let count = grammar.draw.below(most + 1);
        if count == 0 {
            continue;
        }
        grammar.line(&format!("sub {} {{", state.subroutine()));
        for _ in 0..count {
            let piece = grammar.draw.of(pieces);
            grammar.line(piece);
        }
        if state == State::Recv && grammar.draw.once_in(6) {
            grammar.line("return (hash);");
        }
        grammar.line("}");
    }
    grammar.out
}
