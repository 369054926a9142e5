//! Nodes that believe their operators only, on a server where anybody may write.

use super::*;
use freshet_fleet::config::{Counts, Folder, Refusal, Release, Version};
use freshet_fleet::nats::{ConfigSettings, Configures, Does};
use freshet_fleet::signature::{Signers, SigningKey};

/// As an operator with this key, or with none, is connected.
async fn link_of(server: &Server, key: Option<&SigningKey>) -> Link {
    let settings = LinkSettings { key: key.cloned(), ..server.settings() };
    Link::connect(&settings, false).await.unwrap()
}

fn believing(server: &Server, key: &SigningKey) -> LinkSettings {
    LinkSettings { signers: Signers::new([key.signer()]), ..server.settings() }
}

#[test]
fn only_what_an_operator_signed_is_carried_out_and_who_publishes_is_told() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let (anna, other) = (SigningKey::random().unwrap(), SigningKey::random().unwrap());
        let annas = link_of(&server, Some(&anna)).await;
        annas.init(Retention::default()).await.unwrap();
        let (strict, trusting) = (Arc::new(Node::default()), Arc::new(Node::default()));
        let _strict = server.follow_with(believing(&server, &anna), "strict", &strict);
        let _trusting = server.follow("trusting", &trusting);
        until(|| strict.is_lifted() && trusting.is_lifted()).await;
        while annas.nodes().await.unwrap().len() < 2 {}
        let refused = Outcome::Refused(vec!["strict".into()]);
        for (link, name, expected) in [
            (&link_of(&server, None).await, "unsigned", &refused),
            (&annas, "signed", &Outcome::Applied),
            (&link_of(&server, Some(&other)).await, "stranger", &refused),
            (&annas, "signed again", &Outcome::Applied),
        ] {
            let Waited { outcome, .. } = wait(link, &[tag(name)], LIMIT).await.unwrap();
            assert_eq!(outcome, *expected, "{name}");
        }
        let names = |node: &Node| -> Vec<String> {
            node.did().applied.into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(&strict), ["signed", "signed again"]);
        assert_eq!(names(&trusting), ["unsigned", "signed", "stranger", "signed again"]);
        // Nothing is distrusted for it: whoever may write makes nobody ask his origin.
        assert_eq!(strict.did().distrusted, [(0, false)]);
        assert!(strict.is_lifted());
        assert_eq!(strict.did().place.unwrap().sequence, 4);
    });
}

#[test]
fn a_node_that_was_away_believes_no_more_of_what_it_reads() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let anna = SigningKey::random().unwrap();
        let (annas, anybodys) = (link_of(&server, Some(&anna)).await, server.link().await);
        annas.init(Retention::default()).await.unwrap();
        let first = publish(&annas, &[tag("0")]).await.unwrap();
        for number in 1..=40 {
            let link = if number % 2 == 0 { &annas } else { &anybodys };
            publish(link, &[tag(number.to_string())]).await.unwrap();
        }
        let node = Arc::new(Node::default());
        node.0.lock().unwrap().restored = Some(first);
        let _follower = server.follow_with(believing(&server, &anna), "edge", &node);
        until(|| node.is_lifted()).await;
        let applied: Vec<_> = node.did().applied.into_iter().map(|(_, name)| name).collect();
        let signed: Vec<_> = (2..=40).step_by(2).map(|number| number.to_string()).collect();
        assert_eq!(applied, signed);
        assert_eq!(node.did().distrusted, []);
    });
}

/// Takes everything in.
#[derive(Default)]
struct Takes(Mutex<Vec<Option<u64>>>);

impl Configures for Takes {
    fn apply(&self, version: Option<&Version>) -> Result<(), String> {
        self.0.lock().unwrap().push(version.map(|version| version.number));
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

#[test]
fn a_configuration_nobody_signed_is_not_taken_in_nor_an_older_one_that_somebody_did() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let anna = SigningKey::random().unwrap();
        let (annas, anybodys) = (link_of(&server, Some(&anna)).await, server.link().await);
        annas.init(Retention::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let takes = Arc::new(Takes::default());
        let settings = NodeSettings {
            link: believing(&server, &anna),
            node: "edge".into(),
            version: "test".into(),
        };
        let config = ConfigSettings {
            folder: Folder::new(folder.path()),
            group: "all".into(),
            labels: Vec::new(),
            secret: None,
            takes_over: false,
        };
        let does = Does {
            acts: Arc::new(Node::default()),
            config: Some((config, Arc::clone(&takes) as Arc<dyn Configures>)),
            upgrades: None,
            belongs: None,
        };
        let _follower = Follower::start_with(settings, does).unwrap();
        let state = async || {
            let reports = annas.reports(LIMIT).await.unwrap().reports;
            reports.into_iter().find_map(|report| report.config).unwrap_or_default()
        };
        let send = async |link: &Link, text: &str| {
            let bundle = bundle(folder.path(), text);
            link.put_bundle(&bundle.0, &bundle.1).await.unwrap();
            // Whoever signs nothing reads what was signed.
            let mut read = anybodys.release("all").await.unwrap();
            let trial = Trial { hold_ms: 0, band: Band::default() };
            let plan = Plan { stages: Vec::new(), trial, patience_ms: 0 };
            read.release.begin(bundle.0, plan, Author::default()).unwrap();
            read.release.finish();
            link.set_release("all", &read).await.unwrap();
            read.release
        };
        while annas.nodes().await.unwrap().is_empty() {}
        send(&anybodys, "# nobody's").await;
        let problem = until_problem(&state).await;
        assert!(problem.contains("is not signed"), "{problem}");
        send(&annas, "# anna's first").await;
        while state().await.kept.is_none_or(|version| version.number != 2) {}
        let kept = annas.release("all").await.unwrap();
        send(&annas, "# anna's second").await;
        while state().await.kept.is_none_or(|version| version.number != 3) {}
        assert_eq!(*takes.0.lock().unwrap(), [Some(2), Some(3)]);
        // Who has the servers puts back what was signed once.
        put_back(&server, &anna, &kept.release).await;
        let problem = until_problem(&state).await;
        assert!(problem.contains("older document"), "{problem}");
        assert_eq!(*takes.0.lock().unwrap(), [Some(2), Some(3)]);
        assert_eq!(state().await.refused, None::<Refusal>);
    });
}

async fn until_problem(state: &impl AsyncFn() -> freshet_fleet::config::ConfigState) -> String {
    loop {
        if let Some(problem) = state().await.problem {
            return problem;
        }
    }
}

/// A bundle of one file: its name and bytes.
fn bundle(folder: &Path, text: &str) -> (String, Vec<u8>) {
    let file = folder.join("freshet.toml");
    std::fs::write(&file, text).unwrap();
    freshet_fleet::config::Bundle::read(&file).unwrap().pack(None)
}

/// Puts the very bytes back that were signed then.
async fn put_back(server: &Server, key: &SigningKey, release: &Release) {
    let client = async_nats::connect(server.settings().servers).await.unwrap();
    let saying = freshet_fleet::signature::Saying::Release { group: "all" };
    let bytes = key.sign("test", saying, &release.encode());
    let context = async_nats::jetstream::new(client.clone());
    let store = context.get_key_value("FRESHET_test_config").await.unwrap();
    store.put("all", bytes.into()).await.unwrap();
    client.publish("freshet.test.config.all", "".into()).await.unwrap();
    client.flush().await.unwrap();
}
