//! What a node's certificate is good for in the name of another node: for nothing.

use super::accounts::{Closed, join};
use super::*;
use async_nats::Client;
use freshet_base::clock::UnixMillis;
use freshet_fleet::identity::{Disbelief, Identity, Removed};
use freshet_fleet::nats::{Belongs, Does};
use futures_util::StreamExt;

/// A machine's folder, and nothing else that its certificate is good for.
pub(super) struct Folder(pub(super) Identity);

impl Belongs for Folder {
    fn identity(&self) -> &Identity {
        &self.0
    }

    fn renewed(&self) {}

    fn refuse(&self, _: &Removed) {}
}

/// A node that signs with what is in a folder.
pub(super) fn follow(
    link: LinkSettings,
    node: &str,
    acts: &Arc<Node>,
    identity: Identity,
) -> Follower {
    let settings = NodeSettings { link, node: node.into(), version: "test".into() };
    let acts = Arc::clone(acts) as Arc<dyn Acts>;
    let belongs = Some(Arc::new(Folder(identity)) as Arc<dyn Belongs>);
    let does = Does { acts, config: None, upgrades: None, belongs };
    Follower::start_with(settings, does).unwrap()
}

/// A fleet whose nodes `edge`, which runs, and `other` belong to it; `edge` was stolen.
struct Stolen {
    closed: Closed,
    operator: Link,
    edge: Arc<Node>,
    _edge: Follower,
    other: Identity,
    /// With the certificate of `edge`.
    thief: Client,
}

impl Stolen {
    async fn start() -> Option<Self> {
        let closed = Closed::start().await?;
        let operator = closed.link(&closed.operator).await;
        operator.init(Retention::default()).await.unwrap();
        let folder = closed.server.folder.path();
        let other = join(&closed.issuer, "other", &folder.join("other"), LIFE, |_| {});
        let edge = Arc::new(Node::default());
        let identity = Identity::new(&folder.join("edge"));
        let follower = follow(closed.settings(&closed.node), "edge", &edge, identity);
        until(|| edge.is_lifted()).await;
        operator.set_member("other", true).await.unwrap();
        while operator.nodes().await.unwrap().len() < 2 {}
        let thief = closed.client(&closed.node).await;
        Some(Self { closed, operator, edge, _edge: follower, other, thief })
    }

    fn follow_other(&self) -> (Arc<Node>, Follower) {
        let (node, link) =
            (Arc::new(Node::default()), self.closed.settings(&self.other.certificate()));
        let follower = follow(link, "other", &node, Identity::new(self.other.folder()));
        (node, follower)
    }

    /// Has the thief say all of this again and again in the name of `other`, until the work is done.
    async fn while_it_says<T>(&self, said: &[Vec<u8>], work: impl Future<Output = T>) -> T {
        let says = async {
            let mut each = tokio::time::interval(Duration::from_millis(2));
            loop {
                each.tick().await;
                for bytes in said {
                    let said = bytes.clone().into();
                    self.thief.publish("freshet.test.state.other", said).await.unwrap();
                }
                self.thief.flush().await.unwrap();
            }
        };
        tokio::select! {
            () = says => unreachable!("it goes on"),
            done = work => done,
        }
    }
}

/// So short that the node looks each second whether its folder has a later certificate.
const LIFE: Duration = Duration::from_secs(100);
const SHORT: Duration = Duration::from_millis(1500);

fn said_of_other(sequence: u64) -> Vec<u8> {
    let said = serde_json::json!({
        "node": "other", "sequence": sequence, "fenced": false, "version": "1" });
    said.to_string().into()
}

#[test]
fn a_stolen_node_has_nobody_believe_that_another_carried_anything_out() {
    run(async {
        let Some(fleet) = Stolen::start().await else { return };
        let key = Identity::new(&fleet.closed.server.folder.path().join("edge"));
        let key = key.statement_key().unwrap();
        let waiting = Outcome::Waiting(vec!["other".into()]);
        // Not signed; signed with its own key; and with the certificate of the other, which everybody hears.
        let unsigned = said_of_other(1);
        let signed = key.sign("test", u64::MAX, std::iter::empty(), &said_of_other(1)).unwrap();
        let shown = fleet.other.statement_key().unwrap();
        let shown = shown.sign("test", 1, std::iter::empty(), b"{}").unwrap();
        let line = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').next().unwrap().to_vec();
        let forged = [&line(&shown)[..], &signed[line(&signed).len()..]].concat();
        let tells = async |said: Vec<u8>| {
            let said = [said];
            fleet.while_it_says(&said, wait(&fleet.operator, &[tag("a")], SHORT)).await.unwrap()
        };
        let Waited { outcome, disbelieved, .. } = tells(unsigned.clone()).await;
        assert_eq!((&outcome, &disbelieved["other"]), (&waiting, &Disbelief::NotSigned));
        for said in [signed, forged] {
            assert_eq!(tells(said).await.outcome, waiting);
        }
        let said = [unsigned];
        let reports = fleet.while_it_says(&said, fleet.operator.reports(SHORT)).await.unwrap();
        assert_eq!(reports.reports.iter().map(|one| &one.node).collect::<Vec<_>>(), ["edge"]);
        assert_eq!(reports.disbelieved["other"], Disbelief::NotSigned);
        // Without the issuer's certificate whoever may publish it is believed.
        let settings = fleet.closed.settings(&fleet.closed.operator);
        let trusting = LinkSettings { issuer: None, ..settings };
        let trusting = Link::connect(&trusting, false).await.unwrap();
        let said = [said_of_other(4)];
        let waited = fleet.while_it_says(&said, wait(&trusting, &[tag("a")], LIMIT)).await.unwrap();
        assert_eq!(waited.outcome, Outcome::Applied);
        // And the other is believed once it says so itself.
        let (_other, _follower) = fleet.follow_other();
        let waited = fleet.while_it_says(&said, wait(&fleet.operator, &[tag("b")], LIMIT)).await;
        let Waited { outcome, disbelieved, .. } = waited.unwrap();
        assert_eq!((outcome, disbelieved.len()), (Outcome::Applied, 0));
        assert_eq!(fleet.edge.did().applied.len(), 5);
    });
}

#[test]
fn what_a_node_said_once_counts_no_second_time_not_even_for_a_log_that_has_lost_its_end() {
    run(async {
        let Some(mut fleet) = Stolen::start().await else { return };
        let mut heard = fleet.thief.subscribe("freshet.test.state.other").await.unwrap();
        let (other, follower) = fleet.follow_other();
        until(|| other.is_lifted()).await;
        for number in 1..=3 {
            let Waited { place, outcome, .. } =
                wait(&fleet.operator, &[tag("a")], LIMIT).await.unwrap();
            assert_eq!((place.sequence, outcome), (number, Outcome::Applied));
        }
        // Calls as well are answered before it goes.
        assert_eq!(fleet.operator.reports(LIMIT).await.unwrap().reports.len(), 2);
        drop(follower);
        let mut said = Vec::new();
        while let Ok(Some(message)) =
            tokio::time::timeout(Duration::from_millis(100), heard.next()).await
        {
            said.push(message.payload.to_vec());
        }
        let sequence = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("\"sequence\":3");
        assert!(said.iter().any(|bytes| sequence(bytes)));
        let reports = fleet.while_it_says(&said, fleet.operator.reports(SHORT)).await.unwrap();
        assert_eq!(reports.reports.iter().map(|one| &one.node).collect::<Vec<_>>(), ["edge"]);
        // The log begins anew, and gives the same numbers once more.
        fleet.closed.server.kill();
        std::fs::remove_dir_all(fleet.closed.server.folder.path().join("log")).unwrap();
        fleet.closed.server.run().await.unwrap();
        let operator = fleet.closed.link(&fleet.closed.operator).await;
        operator.init(Retention::default()).await.unwrap();
        operator.set_member("other", true).await.unwrap();
        fleet.thief = fleet.closed.client(&fleet.closed.node).await;
        for number in 1..=3 {
            let waited = fleet.while_it_says(&said, wait(&operator, &[tag("a")], SHORT)).await;
            let Waited { place, outcome, .. } = waited.unwrap();
            assert_eq!(place.sequence, number);
            assert!(outcome.lacks("other"), "{outcome:?}");
        }
    });
}

#[test]
fn a_node_that_renews_its_certificate_is_believed_all_along_and_one_that_was_removed_no_more() {
    run(async {
        let Some(fleet) = Stolen::start().await else { return };
        let (other, _follower) = fleet.follow_other();
        until(|| other.is_lifted()).await;
        // A later certificate for the same key, which the node takes from its folder.
        let folder = Identity::new(fleet.other.folder());
        let request = folder.renewal().unwrap();
        let (removed, now) = (Removed::default(), UnixMillis::now().plus(Duration::from_secs(5)));
        let answer = fleet.closed.issuer.answer(&request, &removed, LIFE, now).unwrap();
        folder.renewed(&request, &answer.unwrap().1).unwrap();
        let shown = folder.statement_key().unwrap();
        let shown = shown.sign("test", 1, std::iter::empty(), b"").unwrap();
        let shown = shown.split(|byte| *byte == b' ').nth(3).unwrap();
        let mut heard = fleet.thief.subscribe("freshet.test.state.other").await.unwrap();
        loop {
            let waited = wait(&fleet.operator, &[tag("a")], LIMIT).await.unwrap();
            assert_eq!(waited.outcome, Outcome::Applied);
            let said = heard.next().await.unwrap().payload;
            if said.windows(shown.len()).any(|part| part == shown) {
                break;
            }
        }
        // It stays in the list, as if somebody had put it there again.
        fleet.operator.remove_identity("other").await.unwrap();
        let Waited { outcome, disbelieved, .. } =
            wait(&fleet.operator, &[tag("b")], SHORT).await.unwrap();
        assert_eq!(outcome, Outcome::Waiting(vec!["other".into()]));
        assert_eq!(disbelieved["other"], Disbelief::Removed);
    });
}
