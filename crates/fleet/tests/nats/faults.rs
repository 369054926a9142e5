//! Servers that refuse, and what they should not have: whoever asks is told why, and what was before goes on.

use super::{LIMIT, Node, Server, run, tag, until};
use freshet_fleet::nats::{FleetError, Link, Retention, Waited, publish, wait};
use freshet_fleet::{Change, Outcome};
use std::sync::Arc;

/// An entry of some 50 KB.
fn large() -> Vec<Change> {
    (0..400).map(|number| tag(format!("{number:0100}"))).collect()
}

#[test]
fn a_full_log_accepts_nothing_and_nodes_go_on() {
    run(async {
        let Some(mut server) = Server::start().await else { return };
        server.kill();
        server.jetstream = "max_file: 400KB".into();
        server.run().await.unwrap();
        let (link, node, _follower) = server.fleet_of_one().await;
        let mut accepted = 0;
        let refused = loop {
            match publish(&link, &large()).await {
                Ok(place) => accepted = place.sequence,
                Err(error) => break error,
            }
            assert!(accepted < 20, "it is never full");
        };
        assert!(matches!(refused, FleetError::Full(_)), "{refused:?}");
        assert!(refused.to_string().contains("nothing was accepted"), "{refused}");
        until(|| node.did().place.is_some_and(|place| place.sequence == accepted)).await;
        assert_eq!(link.ask().await.unwrap().last.sequence, accepted);
        assert!(node.is_lifted());
        // With more room it goes on where it was.
        server.kill();
        server.jetstream = "max_file: 4MB".into();
        server.run().await.unwrap();
        let link = server.link().await;
        let Waited { place, outcome, .. } = wait(&link, &large(), LIMIT).await.unwrap();
        assert_eq!((place.sequence, outcome), (accepted + 1, Outcome::Applied));
        assert!(node.did().distrusted.iter().all(|(_, has_lost)| !has_lost));
    });
}

#[test]
fn nodes_of_one_fleet_hear_nothing_of_another_on_the_same_servers() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let (link, node, _follower) = server.fleet_of_one().await;
        let mut other = server.settings();
        other.fleet = "other".into();
        let wrong = Link::connect(&other, false).await.unwrap();
        let refused = publish(&wrong, &[tag("news")]).await.unwrap_err();
        assert!(matches!(&refused, FleetError::NoFleet(name) if name == "other"), "{refused:?}");
        // A node of a fleet that is not there is fenced until it is.
        let lost = Arc::new(Node::default());
        let _lost = server.follow_with(other, "edge", &lost);
        wrong.init(Retention::default()).await.unwrap();
        until(|| lost.is_lifted()).await;
        publish(&wrong, &[tag("news")]).await.unwrap();
        until(|| lost.did().applied.len() == 1).await;
        let Waited { place, outcome, .. } = wait(&link, &[tag("sport")], LIMIT).await.unwrap();
        assert_eq!((place.sequence, outcome), (1, Outcome::Applied));
        assert_eq!(node.did().applied, [(1, "sport".to_owned())]);
        assert_eq!(lost.did().applied, [(1, "news".to_owned())]);
    });
}
