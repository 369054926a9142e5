//! What the head of a response says that came by way of another cache.

use crate::client::get_with;
use crate::harness::run;
use crate::origin::{Origin, response};
use crate::tiers::parent;
use freshet_http::applied::Position;

#[test]
fn a_cache_is_known_also_where_it_says_whose_request_it_is() {
    run(async {
        let origin = Origin::serve(|_| {
            response("200 OK", &["Cache-Control: no-store", "Surrogate-Key: news"], "x")
        });
        let networks = "[forwarded]\nfrom = [\"127.0.0.0/8\"]\n";
        let above = parent(&origin, "parent").and(networks).start();
        let client = "X-Forwarded-For: 203.0.113.9";
        let answer = get_with(&above, "/a", &["CDN-Loop: edge", client]).await;
        assert_eq!(answer.field("surrogate-key"), Some("news"));
        // A balancer in the same network asks for anybody.
        assert_eq!(get_with(&above, "/a", &[client]).await.field("surrogate-key"), None);
        // What the cache has purged is not given to it from what is here.
        above.node.shared.applied.advance(Position::new("test", 1).expect("a name"));
        let fields = ["CDN-Loop: edge", client, "Freshet-Applied: test.2"];
        let answer = get_with(&above, "/b", &fields).await;
        assert!(answer.cache().contains("pass-behind"), "{}", answer.cache());
    });
}
