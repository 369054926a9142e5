//! Many nodes on one server, measured: how long until all have carried an entry out, and until one that was
//! away has caught up. `bench/fleet/confirm` runs it large.

use super::accounts::{HOUR, join};
use super::*;
use freshet_base::clock::UnixMillis;
use freshet_fleet::identity::Issuer;

fn given(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// The middle and the hundredth from above, in milliseconds.
fn middle_and_slowest(mut took: Vec<Duration>) -> (f64, f64) {
    took.sort();
    let at = |share: usize| took[(took.len() - 1) * share / 100].as_secs_f64() * 1e3;
    (at(50), at(99))
}

#[test]
fn all_of_many_nodes_carry_everything_out_and_one_that_was_away_catches_up() {
    let (count, entries) = (given("FLEET_NODES", 20), given("FLEET_ENTRIES", 40));
    let missed = given("FLEET_MISSED", 600);
    let syncs = std::env::var_os("FLEET_SYNC").is_some();
    let limit = LIMIT * u32::try_from(1 + (entries + missed) / 1000).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let measured = runtime.block_on(async {
        tokio::time::timeout(limit, measure(count, entries, missed, syncs)).await
    });
    let Some((took, caught_up)) = measured.expect("it takes too long") else { return };
    let (middle, slowest) = middle_and_slowest(took);
    println!(
        "{count} nodes, {entries} entries, {}: all carried out after {middle:.1} ms (middle), \
         {slowest:.1} ms (99 %)",
        if syncs { "on disk before the answer" } else { "in the page cache before the answer" },
    );
    println!("{missed} entries missed: caught up after {:.0} ms", caught_up.as_secs_f64() * 1e3);
}

async fn measure(
    count: usize,
    entries: usize,
    missed: usize,
    syncs: bool,
) -> Option<(Vec<Duration>, Duration)> {
    let server = Server::start_with(syncs).await?;
    let signs = std::env::var_os("FLEET_UNSIGNED").is_none();
    let folder = server.folder.path().join("issuer");
    let servers = ["tls://127.0.0.1:4222".to_owned()];
    let issuer = Issuer::init(&folder, "test", &servers, &folder, UnixMillis::now()).unwrap();
    let ca = signs.then(|| folder.join("ca.pem"));
    let settings = LinkSettings { issuer: ca, ..server.settings() };
    let link = Link::connect(&settings, false).await.unwrap();
    link.init(Retention::default()).await.unwrap();
    let nodes: Vec<_> = (0..count).map(|_| Arc::new(Node::default())).collect();
    let names = (0..count).map(|number| format!("edge-{number}"));
    let follow = |name: &str, node: &Arc<Node>| match signs {
        true => {
            let identity = join(&issuer, name, &folder.join("of").join(name), HOUR, |_| {});
            reports::follow(server.settings(), name, node, identity)
        }
        false => server.follow(name, node),
    };
    let followers: Vec<_> = names.zip(&nodes).map(|(name, node)| follow(&name, node)).collect();
    until(|| nodes.iter().all(|node| node.is_lifted())).await;
    while link.nodes().await.unwrap().len() < count {}
    let mut took = Vec::new();
    for number in 0..entries {
        let begun = Instant::now();
        let Waited { place, outcome, .. } =
            wait(&link, &[tag(number.to_string())], LIMIT).await.unwrap();
        took.push(begun.elapsed());
        assert_eq!(outcome, Outcome::Applied);
        for node in &nodes {
            let did = node.did();
            assert_eq!(did.place, Some(place));
            assert_eq!(did.applied.len(), number + 1);
        }
    }
    drop(followers);
    // As a purge of ten thousand URLs by a script is, one by one.
    let known = nodes[0].did();
    for number in 0..missed {
        publish(&link, &[tag(format!("missed {number}"))]).await.unwrap();
    }
    let node = Arc::new(Node::default());
    node.0.lock().unwrap().restored = known.place;
    let begun = Instant::now();
    let _follower = follow("edge-0", &node);
    until(|| node.is_lifted()).await;
    let caught_up = begun.elapsed();
    assert_eq!((node.did().applied_before_lifted, node.did().distrusted.len()), (missed, 0));
    Some((took, caught_up))
}
