//! What players of HLS and DASH are told: which nodes to take, the best one first (HLS content
//! steering, RFC 8216 second edition §7; DASH, ETSI TS 103 998).
//!
//! Each node is a pathway, a clone of the one the manifest has with the node's host in its URLs. A player
//! stays with the node it has while that is good, since another one would have to fetch what it plays.

use crate::decision::key::Asked;
use crate::decision::{Family, Question, SiteId};
use crate::live::{Outcome, Routing};
use crate::redirect::node_host;
use freshet_base::clock::UnixMillis;
use serde_json::json;

/// Pathways a player is told of: its own, one beside it, and what is left when a region is gone.
const PATHWAYS: usize = 4;
/// The parameters in which players say which pathway they are on.
const PRESENT: [&str; 2] = ["_HLS_pathway", "_DASH_pathway"];
/// The parameter in which a manifest says what is played, as a path.
const PLAYED: &str = "path";

/// The answer to a player, and what became of its question. `None` where nobody can be sent to.
pub(crate) fn manifest(
    routing: &Routing,
    site: SiteId,
    asked: &Asked<'_>,
    now: UnixMillis,
) -> (Option<String>, Outcome) {
    let (Some(of), Some(redirects)) =
        (routing.table.site(site), routing.redirects.get(site as usize))
    else {
        return (None, Outcome::Nobody);
    };
    let played = asked.parameter(PLAYED).map(decoded);
    let key = match &played {
        Some(path) => of.key_of(&Asked { path, ..*asked }),
        // What is played is not known: players are spread, each by its network.
        None => asked.client_key(&of.name),
    };
    let present = PRESENT.iter().find_map(|name| asked.parameter(name)).map(decoded);
    let present = present.as_deref().map(|name| name.trim_matches('"'));
    let kept = present.and_then(|name| routing.table.node_named(name));
    let question = Question {
        site,
        client: asked.client,
        key,
        wanted: 1,
        family: Family::Any,
        kept,
        avoid: &[],
    };
    let (decision, nodes) = routing.table.decide_ladder(&question, &routing.at(now), PATHWAYS);
    if decision.is_refused {
        return (None, Outcome::Refused);
    }
    let nodes: Vec<_> = nodes.iter().filter_map(|id| routing.table.node(*id)).collect();
    let Some(first) = nodes.first() else { return (None, Outcome::Nobody) };
    let names: Vec<_> = nodes.iter().map(|node| &node.name).collect();
    let clones = nodes.iter().map(|node| {
        json!({
            "BASE-ID": redirects.steering_base,
            "ID": node.name,
            "URI-REPLACEMENT": { "HOST": node_host(redirects, node, asked.host) },
        })
    });
    // What the player adds by itself is not to be there twice.
    let is_own = |pair: &&str| !pair.starts_with("_HLS_") && !pair.starts_with("_DASH_");
    let rest: Vec<_> =
        asked.query.split('&').filter(is_own).filter(|pair| !pair.is_empty()).collect();
    let separator = if rest.is_empty() { "" } else { "?" };
    let text = json!({
        "VERSION": 1,
        "TTL": of.ttl.as_secs().max(1),
        "RELOAD-URI": format!("{}{separator}{}", asked.path, rest.join("&")),
        "PATHWAY-PRIORITY": names,
        "PATHWAY-CLONES": clones.collect::<Vec<_>>(),
    });
    let is_kept = present == Some(first.name.as_str());
    (Some(text.to_string()), if is_kept { Outcome::Kept } else { Outcome::Sent })
}

/// A value of a query without its `%` signs; what is none stays as it is.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.first_chunk::<2>().filter(|_| *first == b'%');
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(value.unwrap_or(*first));
        rest = if value.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use crate::redirect::{Request, answer};
    use serde_json::Value;

    const TEXT: &str = r#"
[[region]]
name = "west"
[[region]]
name = "east"
[[node]]
name = "west-1"
region = "west"
host = "west-1.example"
[[node]]
name = "west-2"
region = "west"
host = "west-2.example"
[[node]]
name = "west-3"
region = "west"
host = "west-3.example"
[[node]]
name = "east-1"
region = "east"
host = "east-1.example"
[[site]]
hosts = ["video.example"]
key = ["folder"]
steering = "/steering"
"#;

    fn ask(target: &str) -> (u16, Value) {
        let routing = Routing::new(read(TEXT).unwrap(), None).unwrap();
        let request = Request::of_url(target, [192, 0, 2, 1].into()).unwrap();
        let reply = answer(&routing, &request, UnixMillis(1));
        let body = reply.body.map_or(Value::Null, |body| serde_json::from_str(&body).unwrap());
        (reply.status, body)
    }

    fn first(target: &str) -> String {
        let (status, told) = ask(target);
        assert_eq!(status, 200);
        told["PATHWAY-PRIORITY"][0].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_player_is_told_of_nodes_of_two_regions_and_stays_with_its_own() {
        let (_, told) = ask("http://video.example/steering?path=/film/7/");
        let names = told["PATHWAY-PRIORITY"].as_array().unwrap();
        assert_eq!(names.len(), 3, "{told}");
        assert_eq!(names[2], "east-1");
        assert_eq!((told["VERSION"].as_u64(), told["TTL"].as_u64()), (Some(1), Some(30)));
        assert_eq!(told["RELOAD-URI"], "/steering?path=/film/7/");
        let clone = &told["PATHWAY-CLONES"][2];
        assert_eq!(clone["ID"], "east-1");
        assert_eq!(
            (&clone["BASE-ID"], &clone["URI-REPLACEMENT"]["HOST"]),
            (&json!("."), &json!("east-1.example"))
        );
        for name in ["west-1", "west-2", "west-3"] {
            let target = format!("http://video.example/steering?path=/film/7/&_HLS_pathway={name}");
            assert_eq!(first(&target), name);
            let target = format!(
                "http://video.example/steering?_DASH_pathway=%22{name}%22&_DASH_throughput=5"
            );
            assert_eq!(first(&target), name);
        }
        let (_, told) = ask("http://video.example/steering?_HLS_pathway=x&a=b&_HLS_throughput=1");
        assert_eq!(told["RELOAD-URI"], "/steering?a=b");
    }

    #[test]
    fn it_is_the_node_that_a_redirect_would_send_to() {
        let routing = Routing::new(read(TEXT).unwrap(), None).unwrap();
        for film in 0..20 {
            let url = format!("http://video.example/film/{film}/1.m3u8");
            let request = Request::of_url(&url, [192, 0, 2, 1].into()).unwrap();
            let sent = answer(&routing, &request, UnixMillis(1)).location.unwrap();
            let told = first(&format!("http://video.example/steering?path=%2Ffilm/{film}/1.m3u8"));
            assert!(sent.starts_with(&format!("http://{told}.example/")), "{sent}");
        }
    }

    #[test]
    fn percent_signs_are_read_where_they_are_any() {
        assert_eq!(decoded("%2Fa%22b%"), "/a\"b%");
        assert_eq!(decoded("%zz%2"), "%zz%2");
        assert_eq!(decoded("%ff"), "\u{fffd}");
    }
}
