//! An issuer and machines that join it, without servers between.
#![allow(clippy::unwrap_used, reason = "tests")]

use freshet_base::clock::UnixMillis;
use freshet_fleet::identity::{
    Answer, Disbelief, Facts, Identity, IdentityError, Issuer, Joining, Member, Removed, Statement,
    StatementKey, Token, Verifier, unverified,
};
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const MONTH: Duration = Duration::from_secs(30 * 86_400);
const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

struct World {
    folder: tempfile::TempDir,
    issuer: Issuer,
    removed: Removed,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let issuer = issuer(folder.path(), "tv").unwrap();
        Self { folder, issuer, removed: Removed::default() }
    }

    fn identity(&self, name: &str) -> Identity {
        Identity::new(&self.folder.path().join(name))
    }

    fn token(&self, node: &str) -> Token {
        let member = Member { node: node.into(), group: None, labels: vec!["berlin".into()] };
        self.issuer.token(member, HOUR, NOW).unwrap()
    }

    fn answer(&self, request: &[u8], now: UnixMillis) -> Vec<u8> {
        self.issuer.answer(request, &self.removed, MONTH, now).unwrap().unwrap().1
    }

    /// Joins in the folder `name` by a token.
    fn join(&self, name: &str, token: &Token, now: UnixMillis) -> Result<(Member, Facts), String> {
        let joining = self.identity(name).join(token.clone(), NOW).unwrap();
        let answer = self.answer(joining.request(), now);
        joining.answered(&answer, &token.servers).map_err(|error| error.to_string())
    }

    fn renew(&self, name: &str, now: UnixMillis) -> Result<Facts, String> {
        let identity = self.identity(name);
        let request = identity.renewal().unwrap();
        let answer = self.answer(&request, now);
        identity.renewed(&request, &answer).map_err(|error| error.to_string())
    }
}

/// Whose words are heard.
struct Hears {
    verifier: Verifier,
    removed: Removed,
}

impl Hears {
    fn of(world: &World) -> Self {
        let verifier = Verifier::new("tv", &world.folder.path().join("tv/ca.pem")).unwrap();
        Self { verifier, removed: Removed::default() }
    }

    fn hear(&self, node: &str, bytes: &[u8], now: UnixMillis) -> Result<(), Disbelief> {
        self.verifier.verify(node, &Statement::read(bytes)?, &self.removed, now)
    }
}

fn sign(key: &StatementKey, fleet: &str, said: &str) -> Vec<u8> {
    key.sign(fleet, 7, std::iter::empty(), said.as_bytes()).unwrap()
}

fn issuer(folder: &Path, fleet: &str) -> Result<Issuer, IdentityError> {
    let servers = ["tls://127.0.0.1:4222".to_owned()];
    Issuer::init(&folder.join(fleet), fleet, &servers, Path::new("/etc/nats/fleet"), NOW)
}

#[test]
fn a_machine_joins_once_and_renews_with_its_own_key() {
    let world = World::new();
    let token = Token::parse(&world.token("edge-1").text()).unwrap();
    let (member, facts) = world.join("a", &token, NOW).unwrap();
    assert_eq!((member.node.as_str(), &member.labels[..]), ("edge-1", &["berlin".to_owned()][..]));
    assert_eq!((facts.from, facts.until), (NOW, NOW.plus(MONTH)));
    assert_eq!(facts.renewal(), NOW.plus(MONTH / 3 * 2));
    let identity = world.identity("a");
    identity.joined().unwrap();
    let secret = |path| std::fs::read_to_string(path).unwrap();
    assert_eq!(secret(identity.secret()), secret(world.folder.path().join("tv/secret")));
    let later = NOW.plus(HOUR * 480);
    let renewed = world.renew("a", later).unwrap();
    assert_eq!((renewed.key, renewed.until), (facts.key, later.plus(MONTH)));
    assert_eq!(identity.facts().unwrap(), renewed);
    // The token is of no use to anybody else, at whatever time.
    let used = world.join("b", &token, NOW).unwrap_err();
    assert!(used.contains("was used already") && used.contains("remove edge-1"), "{used}");
}

#[test]
fn who_was_cut_short_goes_on_with_the_same_token_and_key() {
    let world = World::new();
    let token = world.token("edge-1");
    let joining = world.identity("a").join(token.clone(), NOW).unwrap();
    // The answer is lost; and the token's time is over when the machine is back.
    world.answer(joining.request(), NOW);
    drop(joining);
    let (_, first) = world.join("a", &token, NOW.plus(HOUR * 2)).unwrap();
    let (_, again) = world.join("a", &token, NOW.plus(HOUR * 2)).unwrap();
    assert_eq!(first, again);
    // Once it is done, another beginning is another machine.
    world.identity("a").joined().unwrap();
    assert!(world.join("a", &token, NOW).unwrap_err().contains("was used already"));
}

#[test]
fn of_many_with_one_token_one_joins() {
    let world = World::new();
    let token = world.token("edge-1");
    let names: Vec<_> = (0..8).map(|number| format!("machine-{number}")).collect();
    let begun: Vec<_> =
        names.iter().map(|name| world.identity(name).join(token.clone(), NOW).unwrap()).collect();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked = |joining: &Joining| {
            let request = joining.request().to_vec();
            scope.spawn({
                let world = &world;
                move || world.answer(&request, NOW)
            })
        };
        let threads: Vec<_> = begun.iter().map(asked).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let joined = begun.into_iter().zip(answers).map(|(one, answer)| one.answered(&answer, &[]));
    assert_eq!(joined.filter(Result::is_ok).count(), 1);
}

#[test]
fn time_is_told_by_both_sides_and_clocks_may_be_an_hour_apart() {
    let world = World::new();
    let token = world.token("edge-1");
    let at = |now: UnixMillis| token.holds_at(now).map_err(|error| error.to_string());
    assert!(at(UnixMillis(NOW.0 - 3_600_000)).is_ok() && at(NOW.plus(HOUR)).is_ok());
    let late = NOW.plus(HOUR + Duration::from_secs(7));
    assert!(at(late).unwrap_err().contains("ended 7 seconds ago"), "{:?}", at(late));
    assert!(at(NOW.plus(HOUR * 2)).unwrap_err().contains("ended 60 minutes ago"));
    let behind = at(UnixMillis(NOW.0 - 3 * 3_600_000)).unwrap_err();
    assert!(behind.contains("clock is 180 minutes behind"), "{behind}");
    let late = world.join("a", &token, NOW.plus(HOUR * 2)).unwrap_err();
    assert!(late.contains("the token's time is over"), "{late}");
}

#[test]
fn another_fleets_issuer_and_a_changed_answer_are_not_believed() {
    let world = World::new();
    let radio = issuer(world.folder.path(), "radio").unwrap();
    let token = world.token("edge-1");
    let joining = world.identity("a").join(token.clone(), NOW).unwrap();
    let (answer, bytes) =
        radio.answer(joining.request(), &world.removed, MONTH, NOW).unwrap().unwrap();
    let Answer::Refused { why } = answer else { panic!("{answer:?}") };
    assert!(why.contains("of the fleet `radio`, not of `tv`"), "{why}");
    let error = joining.answered(&bytes, &[]).unwrap_err().to_string();
    assert!(error.contains("another key signed it"), "{error}");
    // An answer is to one request.
    let one = world.identity("a").join(token.clone(), NOW).unwrap();
    let old = world.answer(one.request(), NOW);
    let next = world.identity("a").join(token.clone(), NOW).unwrap();
    assert!(next.answered(&old, &[]).unwrap_err().to_string().contains("another request"));
    world.join("a", &token, NOW).unwrap();
    // Nor does a folder of one fleet take a token of another.
    let member = Member { node: "edge-1".into(), group: None, labels: Vec::new() };
    let other = radio.token(member, HOUR, NOW).unwrap();
    let error = world.identity("a").join(other, NOW).map(drop).unwrap_err().to_string();
    assert!(error.contains("for the fleet `tv`, and the token for `radio`"), "{error}");
}

#[test]
fn who_was_removed_gets_nothing_until_all_certificates_have_ended() {
    let mut world = World::new();
    let (first, second) = (world.token("edge-1"), world.token("edge-1"));
    world.join("a", &first, NOW).unwrap();
    world.removed.add("edge-1", NOW.plus(MONTH));
    assert!(world.renew("a", NOW).unwrap_err().contains("`edge-1` was removed"));
    assert!(world.join("b", &second, NOW).unwrap_err().contains("free again in 30 days"));
    let decoded = Removed::decode(&world.removed.encode()).unwrap();
    assert_eq!(decoded, world.removed);
    assert_eq!(decoded.until("edge-1", NOW.plus(MONTH)), None);
    let names = |now| decoded.clone().at(now).nodes().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(NOW.plus(HOUR)), ["edge-1"]);
    assert!(names(NOW.plus(MONTH)).is_empty(), "somebody else may have the name");
    assert!(Removed::decode(b"{\"format\":2,\"nodes\":{}}").unwrap_err().contains("newer"));
}

#[test]
fn who_joins_under_a_name_takes_it_from_who_had_it() {
    let world = World::new();
    world.join("a", &world.token("edge-1"), NOW).unwrap();
    world.join("b", &world.token("edge-1"), NOW).unwrap();
    assert!(world.renew("a", NOW).unwrap_err().contains("another machine has joined as `edge-1`"));
    assert!(world.renew("b", NOW).is_ok());
}

#[test]
fn who_has_no_certificate_any_more_gets_none_for_its_key() {
    let mut world = World::new();
    world.join("a", &world.token("edge-1"), NOW).unwrap();
    world.join("b", &world.token("edge-2"), NOW).unwrap();
    let ended = NOW.plus(MONTH + Duration::from_secs(1));
    assert!(world.renew("a", ended).unwrap_err().contains("join with another token"));
    // One that was removed is on the list for as long as it may have one, and no longer.
    let life_max = freshet_fleet::limits::NODE_LIFE_MAX;
    world.removed.add("edge-2", NOW.plus(life_max));
    assert!(world.renew("b", NOW).unwrap_err().contains("was removed from the fleet"));
    let forgotten = NOW.plus(life_max + HOUR);
    world.removed = world.removed.at(forgotten);
    assert!(world.renew("b", forgotten).unwrap_err().contains("join with another token"));
}

#[test]
fn an_issuer_keeps_its_key_and_renews_what_ends() {
    let world = World::new();
    let path = world.folder.path().join("tv");
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    let before = [read("issuer.key"), read("ca.pem"), read("operator/identity.pem")];
    let init = |now| {
        let servers = ["tls://nats-2.example:4222".to_owned()];
        Issuer::init(&path, "tv", &servers, Path::new("/etc/nats/fleet"), now).unwrap()
    };
    assert_eq!(init(NOW.plus(MONTH)).servers().len(), 2);
    assert_eq!([read("issuer.key"), read("ca.pem"), read("operator/identity.pem")], before);
    assert!(read("servers/nats-2.example/fleet.conf").contains("verify_and_map"));
    init(NOW.plus(MONTH * 20));
    assert_eq!([read("issuer.key"), read("ca.pem")], before[..2]);
    assert_ne!(read("operator/identity.pem"), before[2]);
    let wrong = Issuer::init(&path, "radio", &[], Path::new("/"), NOW).map(drop).unwrap_err();
    assert!(wrong.to_string().contains("it is the folder of the fleet `tv`"), "{wrong}");
    for server in ["nats://a:1", "tls://", "tls://../x", "tls://a/b"] {
        let made = Issuer::init(&path, "tv", &[server.into()], Path::new("/"), NOW);
        assert!(made.is_err(), "{server}");
    }
}

#[test]
fn a_node_is_believed_about_itself_while_its_certificate_holds_and_it_was_not_removed() {
    let world = World::new();
    world.join("a", &world.token("edge-1"), NOW).unwrap();
    let (key, mut hears) = (world.identity("a").statement_key().unwrap(), Hears::of(&world));
    assert!(
        key.is_of("tv", "edge-1") && !key.is_of("tv", "edge-2") && !key.is_of("radio", "edge-1")
    );
    let said = sign(&key, "tv", "{}");
    let statement = Statement::read(&said).unwrap();
    assert_eq!((statement.said, statement.number, statement.nonces().count()), (&b"{}"[..], 7, 0));
    assert_eq!((unverified(&said), unverified(b"{}")), (&b"{}"[..], &b"{}"[..]));
    for (now, expected) in [
        (NOW, Ok(())),
        // Clocks of those who hear may be two hours behind that of the issuer.
        (UnixMillis(NOW.0 - 2 * 3_600_000), Ok(())),
        (UnixMillis(NOW.0 - 3 * 3_600_000), Err(Disbelief::Ended)),
        (NOW.plus(MONTH), Ok(())),
        (NOW.plus(MONTH + HOUR), Err(Disbelief::Ended)),
    ] {
        assert_eq!(hears.hear("edge-1", &said, now), expected, "known");
        assert_eq!(Hears::of(&world).hear("edge-1", &said, now), expected, "unknown");
    }
    assert_eq!(hears.hear("edge-2", &said, NOW), Err(Disbelief::Name));
    assert_eq!(hears.hear("EDGE-1", &said, NOW), Err(Disbelief::Name));
    assert_eq!(hears.hear("edge-1", &sign(&key, "radio", "{}"), NOW), Err(Disbelief::Forged));
    assert_eq!(hears.hear("edge-1", b"{}", NOW), Err(Disbelief::NotSigned));
    hears.removed.add("edge-1", NOW.plus(MONTH));
    assert_eq!(hears.hear("edge-1", &said, NOW), Err(Disbelief::Removed));
}

#[test]
fn certificates_of_others_are_good_for_nothing_in_a_nodes_name() {
    let world = World::new();
    let hears = Hears::of(&world);
    let radio = issuer(world.folder.path(), "radio").unwrap();
    let operator = world.issuer.operator().statement_key().unwrap();
    assert_eq!(hears.hear("operator", &sign(&operator, "tv", "{}"), NOW), Err(Disbelief::Name));
    let server = Identity::new(&world.folder.path().join("tv/servers/127.0.0.1"));
    let server = server.statement_key().unwrap();
    assert_eq!(hears.hear("127", &sign(&server, "tv", "{}"), NOW), Err(Disbelief::Name));
    // Of another fleet's issuer, also for the same names.
    let strange = radio.operator().statement_key().unwrap();
    let error = hears.hear("operator", &sign(&strange, "tv", "{}"), NOW);
    assert!(matches!(error, Err(Disbelief::Certificate(_))), "{error:?}");
    let copy = tempfile::tempdir().unwrap();
    let same = issuer(copy.path(), "tv").unwrap();
    let member = Member { node: "edge-1".into(), group: None, labels: Vec::new() };
    let joining = Identity::new(&copy.path().join("a"));
    let joining_now = joining.join(same.token(member, HOUR, NOW).unwrap(), NOW).unwrap();
    let answer = same.answer(joining_now.request(), &Removed::default(), MONTH, NOW).unwrap();
    joining_now.answered(&answer.unwrap().1, &[]).unwrap();
    let error = hears.hear("edge-1", &sign(&joining.statement_key().unwrap(), "tv", "{}"), NOW);
    assert!(matches!(error, Err(Disbelief::Certificate(_))), "{error:?}");
}

#[test]
fn a_later_certificate_of_the_same_key_counts_beside_the_first_and_that_of_another_machine_instead()
{
    let world = World::new();
    world.join("a", &world.token("edge-1"), NOW).unwrap();
    let (first, hears) = (world.identity("a").statement_key().unwrap(), Hears::of(&world));
    world.renew("a", NOW.plus(HOUR)).unwrap();
    let renewed = world.identity("a").statement_key().unwrap();
    assert_ne!(first, renewed);
    for key in [&first, &renewed, &first, &renewed] {
        assert_eq!(hears.hear("edge-1", &sign(key, "tv", "{}"), NOW.plus(HOUR)), Ok(()));
    }
    // Another machine has the name from then on.
    let later = NOW.plus(HOUR * 2);
    world.join("b", &world.token("edge-1"), NOW.plus(HOUR)).unwrap();
    world.renew("b", later).unwrap();
    let other = world.identity("b").statement_key().unwrap();
    assert_eq!(hears.hear("edge-1", &sign(&other, "tv", "{}"), later), Ok(()));
    for key in [&first, &renewed] {
        let heard = hears.hear("edge-1", &sign(key, "tv", "{}"), later);
        assert_eq!(heard, Err(Disbelief::Superseded));
    }
}

proptest! {
    #[test]
    fn no_changed_bit_is_believed_and_nothing_that_is_said_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, bit in 0..8) {
        thread_local!(static HEARS: (Vec<u8>, Hears) = {
            let world = World::new();
            world.join("a", &world.token("edge-1"), NOW).unwrap();
            let key = world.identity("a").statement_key().unwrap();
            (sign(&key, "tv", "{\"sequence\":7}"), Hears::of(&world))
        });
        HEARS.with(|(said, hears)| {
            let mut changed = said.clone();
            let at = at.index(said.len());
            changed[at] ^= 1u8 << bit;
            prop_assert!(hears.hear("edge-1", &changed, NOW).is_err());
            prop_assert!(hears.hear("edge-1", &bytes, NOW).is_err());
            let mixed = [&said[..at], &bytes].concat();
            prop_assert!(hears.hear("edge-1", &mixed, NOW).is_err());
            let _ = Statement::read(&mixed).map(|statement| statement.nonces().count());
            Ok(())
        })?;
    }
}

proptest! {
    // Each makes a token, which is on the disk then.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_that_is_sent_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index) {
        thread_local!(static WORLD: World = World::new());
        WORLD.with(|world| {
            prop_assert!(world.issuer.answer(&bytes, &world.removed, MONTH, NOW).unwrap().is_none());
            let token = world.token("edge-1");
            let joining = world.identity("a").join(token, NOW).unwrap();
            let mut request = joining.request().to_vec();
            let at = at.index(request.len());
            request[at] ^= 1;
            if let Some((answer, _)) = world.issuer.answer(&request, &world.removed, MONTH, NOW).unwrap() {
                let is_refused = matches!(answer, Answer::Refused { .. });
                prop_assert!(is_refused, "{answer:?}");
            }
            let _ = Token::parse(&String::from_utf8_lossy(&bytes));
            let _ = joining.answered(&bytes, &[]);
            Ok(())
        })?;
    }
}
