//! What a node's certificate, and that of one who joins, can do at servers that have the fleet's `fleet.conf`.

use super::*;
use async_nats::{Client, ConnectOptions, HeaderMap};
use freshet_base::clock::UnixMillis;
use freshet_fleet::identity::{Identity, Issuer, Joining, Member};
use freshet_fleet::nats::Issued;
use serde_json::json;

const EVIL: &str = r#"{"before":0,"changes":[{"kind":"purge-all"}]}"#;
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// Has a machine join as a node, whose folder this is.
pub(super) fn join(
    issuer: &Issuer,
    node: &str,
    folder: &Path,
    life: Duration,
    meanwhile: impl FnOnce(&Joining),
) -> Identity {
    let (identity, now) = (Identity::new(folder), UnixMillis::now());
    let member = Member { node: node.into(), group: None, labels: Vec::new() };
    let joining = identity.join(issuer.token(member, HOUR, now).unwrap(), now).unwrap();
    meanwhile(&joining);
    let answer = issuer.answer(joining.request(), &Default::default(), life, now).unwrap();
    joining.answered(&answer.unwrap().1, issuer.servers()).unwrap();
    identity.joined().unwrap();
    identity
}

/// A server that lets nobody in but with a certificate of its fleet.
pub(super) struct Closed {
    pub(super) server: Server,
    pub(super) issuer: Issuer,
    /// What a node shows, an operator, and one who joins.
    pub(super) node: PathBuf,
    pub(super) operator: PathBuf,
    joining: PathBuf,
}

impl Closed {
    pub(super) async fn start() -> Option<Self> {
        let mut server = Server::start().await?;
        let folder = server.folder.path().join("issuer");
        let files = folder.join("servers/127.0.0.1");
        let servers = ["tls://127.0.0.1:4222".to_owned()];
        let now = UnixMillis::now();
        let issuer = Issuer::init(&folder, "test", &servers, &files, now).unwrap();
        // It goes with the end of joining.
        let kept = server.folder.path().join("joining.pem");
        join(&issuer, "edge", &server.folder.path().join("edge"), HOUR, |joining| {
            std::fs::copy(joining.files().1, &kept).unwrap();
        });
        server.more = std::fs::read_to_string(files.join("fleet.conf")).unwrap();
        server.kill();
        server.run().await.unwrap();
        let node = server.folder.path().join("edge/identity.pem");
        Some(Self {
            operator: folder.join("operator/identity.pem"),
            node,
            joining: kept,
            server,
            issuer,
        })
    }

    fn address(&self) -> String {
        format!("tls://127.0.0.1:{}", self.server.port.unwrap())
    }

    pub(super) fn ca(&self) -> PathBuf {
        self.server.folder.path().join("issuer/ca.pem")
    }

    pub(super) fn settings(&self, shown: &Path) -> LinkSettings {
        LinkSettings {
            servers: vec![self.address()],
            ca: Some(self.ca()),
            certificate: Some((shown.to_owned(), shown.to_owned())),
            issuer: Some(self.ca()),
            ..self.server.settings()
        }
    }

    pub(super) async fn link(&self, shown: &Path) -> Link {
        Link::connect(&self.settings(shown), false).await.unwrap()
    }

    pub(super) async fn client(&self, shown: &Path) -> Client {
        ConnectOptions::new()
            .add_root_certificates(self.ca())
            .add_client_certificate(shown.to_owned(), shown.to_owned())
            .request_timeout(Some(Duration::from_secs(2)))
            .connect(self.address())
            .await
            .unwrap()
    }
}

/// All of what somebody may try who has the certificate of a node, towards `to`.
async fn try_all(node: &Client, number: usize, to: &str) {
    let listing = format!("freshet.test.node.evil{number}");
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Sequence", "1");
    let _ = node.request_with_headers(listing.clone(), headers, EVIL.into()).await;
    let consumer = json!({ "stream_name": "FRESHET_test_nodes", "config": {
        "durable_name": format!("c{number}"), "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant",
        "filter_subject": listing, "deliver_subject": to } });
    let pulled = json!({ "stream_name": "FRESHET_test_nodes", "config": {
        "durable_name": format!("p{number}"), "deliver_policy": "all", "ack_policy": "explicit",
        "replay_policy": "instant", "filter_subject": listing } });
    let last = json!({ "last_by_subj": listing });
    for (what, asked) in [
        (format!("CONSUMER.DURABLE.CREATE.FRESHET_test_nodes.c{number}"), consumer),
        (format!("CONSUMER.DURABLE.CREATE.FRESHET_test_nodes.p{number}"), pulled),
        (format!("CONSUMER.MSG.NEXT.FRESHET_test_nodes.p{number}"), json!({ "batch": 1 })),
        ("DIRECT.GET.KV_FRESHET_test_config".to_owned(), last.clone()),
        ("STREAM.MSG.GET.FRESHET_test_nodes".to_owned(), last),
        ("STREAM.INFO.FRESHET_test".to_owned(), json!({})),
    ] {
        let asked = asked.to_string();
        node.publish_with_reply(format!("$JS.API.{what}"), to.to_owned(), asked.into())
            .await
            .unwrap();
    }
    node.publish_with_reply(listing, to.to_owned(), EVIL.into()).await.unwrap();
    node.publish(to.to_owned(), EVIL.into()).await.unwrap();
}

#[test]
fn who_has_a_nodes_certificate_says_nothing_to_all_by_answers_of_the_servers() {
    run(async {
        let Some(closed) = Closed::start().await else { return };
        let operator = closed.link(&closed.operator).await;
        operator.init(Retention::default()).await.unwrap();
        let edge = Arc::new(Node::default());
        let _follower = closed.server.follow_with(closed.settings(&closed.node), "edge", &edge);
        until(|| edge.is_lifted()).await;
        while operator.nodes().await.unwrap() != ["edge"] {}
        let node = closed.client(&closed.node).await;
        let subjects = [
            "freshet.test.log",
            "freshet.test.pushed",
            "freshet.test.upgrade.edge",
            "$KV.FRESHET_test_config.all",
            "$KV.FRESHET_test_identity.removed",
            "$O.FRESHET_test_bundles.M.eA==",
        ];
        for (number, subject) in subjects.into_iter().enumerate() {
            try_all(&node, number, subject).await;
        }
        // Who joins, by what is answered to it.
        let (heard, mut answered) = tokio::sync::mpsc::unbounded_channel();
        let answers = freshet_fleet::nats::issue(&operator, &closed.issuer, HOUR, move |issued| {
            let _ = heard.send(matches!(issued, Issued::Heard));
        });
        let tries = async {
            while answered.recv().await != Some(true) {}
            let joining = closed.client(&closed.joining).await;
            for subject in subjects {
                let asked = "freshet.test.identity";
                joining.publish_with_reply(asked, subject, "{}".into()).await.unwrap();
            }
            joining.flush().await.unwrap();
        };
        tokio::select! {
            () = answers => unreachable!("it goes on"),
            () = tries => {}
        }
        // A question that is answered behind all of these.
        node.flush().await.unwrap();
        let link = closed.link(&closed.node).await;
        assert_eq!(link.ask().await.unwrap().last.sequence, 0);
        let place = publish(&operator, &[tag("a")]).await.unwrap();
        assert_eq!(place.sequence, 1);
        until(|| edge.did().place == Some(place)).await;
        assert_eq!(edge.did().applied, [(1, "a".to_owned())]);
        assert_eq!(edge.did().distrusted, [(0, false)]);
        assert_eq!(link.release("all").await.unwrap().revision, 0);
        assert_eq!(operator.removed().await.unwrap(), Default::default());
        assert!(publish(&link, &[tag("b")]).await.is_err());
    });
}

#[test]
fn nodes_of_an_account_without_streams_get_what_their_operators_send() {
    run(async {
        let Some(closed) = Closed::start().await else { return };
        let operator = closed.link(&closed.operator).await;
        operator.init(Retention::default()).await.unwrap();
        let link = closed.link(&closed.node).await;
        // Of several pieces.
        let sent: Vec<u8> = (0..400_000_u32).map(|number| (number % 251) as u8).collect();
        operator.put_bundle("b", &sent).await.unwrap();
        assert_eq!(link.bundle("b").await.unwrap(), Some(sent));
        assert_eq!(link.bundle("none").await.unwrap(), None);
        operator.remove_identity("gone").await.unwrap();
        assert_eq!(link.removed().await.unwrap(), operator.removed().await.unwrap());
        let mut changes = Vec::new();
        for number in 1..=130 {
            changes.push((number, number.to_string()));
            publish(&operator, &[tag(number.to_string())]).await.unwrap();
        }
        let edge = Arc::new(Node::default());
        edge.0.lock().unwrap().restored = Some(Place::default());
        let identity = Identity::new(closed.node.parent().unwrap());
        let _follower = reports::follow(closed.settings(&closed.node), "edge", &edge, identity);
        until(|| edge.is_lifted()).await;
        assert_eq!(edge.did().applied, changes);
        while operator.nodes().await.unwrap().is_empty() {}
        let Waited { outcome, .. } = wait(&operator, &[tag("x")], LIMIT).await.unwrap();
        assert_eq!(outcome, Outcome::Applied);
        assert_eq!(operator.reports(LIMIT).await.unwrap().reports.len(), 1);
    });
}
