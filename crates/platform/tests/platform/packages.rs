//! Packages: what is said of them before and after their archives come, and who is told.

use crate::radio::kinds;
use crate::support::{World, location, rule};
use freshet_platform::notify::Notice;
use freshet_platform::{Answer, Call};
use serde_json::{Value, json};

const PACKAGES: &str = "/app_pkgm/v1/onboarded_app_packages";

/// A request to name a package.
pub(crate) fn named() -> Value {
    json!({
        "appPkgName": "cache", "appPkgVersion": "1", "appPkgPath": "cache.csar",
        "checksum": {"algorithm": "SHA-256", "hash": "0".repeat(64)},
    })
}

pub(crate) fn descriptor() -> Value {
    let mut rule = rule();
    rule.as_object_mut().unwrap().remove("state");
    json!({
        "appDId": "cache-d", "appName": "cache", "appProvider": "freshet", "appSoftVersion": "1.2",
        "appDVersion": "1", "mecVersion": "2.2.1, 3.1.1", "appDescription": "a caching node",
        "appExtCpd": [{"inherited_attributes": {}}], "appTrafficRule": [rule],
        "swImageDescriptor": [{
            "id": "i", "name": "node", "version": "1", "containerFormat": "DOCKER",
            "swImage": {"path": "Artifacts/image"},
        }],
    })
}

/// Says that the archive of a package was received.
pub(crate) fn receive(
    world: &mut World,
    place: &str,
    found: Result<(Value, Option<String>), String>,
) -> (Answer, Vec<Notice>) {
    let id = place.rsplit('/').next().unwrap();
    match world.platform.onboarded(id, found) {
        Ok(decision) => world.platform.commit(decision, world.now_ms).unwrap(),
        Err(problem) => (problem.into(), Vec::new()),
    }
}

fn name(world: &mut World) -> String {
    let (made, _) = world.ask("operator", "POST", PACKAGES, &named());
    assert_eq!(made.status, 201, "{made:?}");
    location(&made)
}

#[test]
fn a_descriptor_is_given_without_what_is_left_out_by_default() {
    let mut world = World::new();
    let place = name(&mut world);
    let mut whole = descriptor();
    whole["virtualComputeDescriptor"] = json!({"virtualComputeDescriptorId": "c"});
    whole["terminateAppInstanceOpConfig"] = json!({"minGracefulTerminationTimeout": 3});
    receive(&mut world, &place, Ok((whole.clone(), None)));
    let mut asked = |query: &str| world.get("operator", &format!("{place}/appd{query}"));
    let mut bare = whole.clone();
    for name in ["virtualComputeDescriptor", "terminateAppInstanceOpConfig"] {
        bare.as_object_mut().unwrap().remove(name);
    }
    assert_eq!(asked("?all_fields").body.unwrap(), whole);
    assert_eq!(asked("").body.unwrap(), bare);
    assert_eq!(asked("?exclude_default").body.unwrap(), bare);
    let without = asked("?exclude_fields=appTrafficRule").body.unwrap();
    assert!(without.get("appTrafficRule").is_none(), "{without}");
    assert_eq!(without["virtualComputeDescriptor"], whole["virtualComputeDescriptor"]);
    for wrong in ["all_fields&fields=appLatency", "size=1", "exclude_fields=appExtCpd"] {
        assert_eq!(asked(&format!("?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn a_package_is_what_its_archive_says_from_when_that_is_there() {
    let mut world = World::new();
    let filters = json!([{"appName": "other"}, {"appName": "cache", "appProvider": "freshet"}]);
    for filter in [json!([]), filters, json!([{"appName": "other"}])] {
        let body = json!({
            "subscriptionType": "AppPackageOnBoardingSubscription", "callbackUri": "http://192.0.2.7/",
            "appPkgFilter": filter,
        });
        assert_eq!(
            world.ask("operator", "POST", "/app_pkgm/v1/subscriptions", &body).0.status,
            201
        );
    }
    let place = name(&mut world);
    // As clients of version 2.1.1 ask.
    let earlier = place.replace("onboarded_app_packages", "app_packages");
    assert_eq!(world.get("operator", &earlier).body, world.get("operator", &place).body);
    let before = world.get("operator", &place).body.unwrap();
    assert_eq!((&before["onboardingState"], &before["appDId"]), (&json!("CREATED"), &json!("")));
    assert_eq!(world.get("operator", &format!("{place}/appd")).status, 404);
    assert_eq!(world.get("operator", &format!("{place}/package_content")).status, 409);
    let enable = json!({"operationalState": "ENABLED"});
    assert_eq!(world.ask("operator", "PATCH", &place, &enable).0.status, 409);
    let (answer, notices) =
        receive(&mut world, &place, Ok((descriptor(), Some("CN=maker".to_owned()))));
    assert_eq!(answer.status, 202);
    assert_eq!(kinds(&notices), ["AppPackageOnBoarded"; 2]);
    assert_eq!(notices[0].body["appDId"], "cache-d");
    let after = world.get("operator", &place).body.unwrap();
    assert_eq!(
        (&after["onboardingState"], &after["operationalState"]),
        (&json!("ONBOARDED"), &json!("ENABLED"))
    );
    assert_eq!(
        (&after["signingCertificate"], &after["mecInfo"]),
        (&json!("CN=maker"), &json!(["2.2.1", "3.1.1"]))
    );
    let known = world.get("operator", &format!("{place}/appd?all_fields")).body.unwrap();
    assert_eq!(known, descriptor());
    assert_eq!(world.ask("operator", "PATCH", &place, &enable).0.status, 409);
    assert_eq!(
        world.ask("operator", "PUT", &format!("{place}/package_content"), &Value::Null).0.status,
        409
    );
    let found =
        world.get("operator", &format!("{PACKAGES}?filter=(eq,appDId,cache-d)")).body.unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1);
    // The same descriptor in the same version is the same package.
    let second = name(&mut world);
    assert_eq!(receive(&mut world, &second, Ok((descriptor(), None))).0.status, 409);
    assert_eq!(world.ask("operator", "DELETE", &place, &Value::Null).0.status, 204);
    assert_eq!(world.get("operator", &format!("{place}/appd")).status, 404);
    assert_eq!(receive(&mut world, &second, Ok((descriptor(), None))).0.status, 202);
    assert_eq!(receive(&mut world, &place, Ok((descriptor(), None))).0.status, 404);
}

#[test]
fn a_package_is_not_changed_over_anothers_change() {
    let mut world = World::new();
    let place = name(&mut world);
    receive(&mut world, &place, Ok((descriptor(), None)));
    let token = world.token("operator").to_owned();
    let stale = world.get("operator", &place).field("ETag").unwrap().to_owned();
    for (state, status) in [("DISABLED", 200), ("ENABLED", 412)] {
        let body = json!({"operationalState": state}).to_string();
        let patch = Call {
            method: "PATCH",
            target: &place,
            authorization: Some(&token),
            if_match: Some(&stale),
            body: body.as_bytes(),
            ..Call::default()
        };
        assert_eq!(world.call(&patch).0.status, status, "{state}");
    }
    assert_eq!(world.get("operator", &place).body.unwrap()["operationalState"], "DISABLED");
}

#[test]
fn what_is_wrong_with_a_package_is_kept_with_it() {
    let mut world = World::new();
    let place = name(&mut world);
    let mut lacking = descriptor();
    lacking.as_object_mut().unwrap().remove("appExtCpd");
    let mut wrong = descriptor();
    wrong["appTrafficRule"][0]["action"] = "DANCE".into();
    let mut too_long = descriptor();
    too_long["appTrafficRule"][0]["trafficFilter"][0]["dstAddress"][0] = "203.0.113.0/33".into();
    for (found, what) in [
        (Err("the archive: is no ZIP".to_owned()), "is no ZIP"),
        (Ok((lacking, None)), "/appExtCpd is missing"),
        (Ok((wrong, None)), "/appTrafficRule/0"),
        (Ok((too_long, None)), "/appTrafficRule/0/trafficFilter/0/dstAddress/0: "),
    ] {
        let (answer, notices) = receive(&mut world, &place, found);
        assert_eq!((answer.status, notices.len()), (422, 0), "{what}");
        let package = world.get("operator", &place).body.unwrap();
        assert_eq!(package["onboardingState"], "CREATED");
        let why = package["onboardingFailureDetails"]["detail"].as_str().unwrap().to_owned();
        assert!(why.contains(what), "{why}");
    }
    receive(&mut world, &place, Ok((descriptor(), None)));
    let package = world.get("operator", &place).body.unwrap();
    assert!(package.get("onboardingFailureDetails").is_none());
}

#[test]
fn packages_are_not_for_apps_to_bring() {
    let mut world = World::new();
    assert_eq!(world.ask("camera", "POST", PACKAGES, &named()).0.status, 403);
    let mut other = named();
    other["checksum"]["algorithm"] = "MD5".into();
    assert_eq!(world.ask("operator", "POST", PACKAGES, &other).0.status, 400);
    let place = name(&mut world);
    assert_eq!(world.get("camera", &place).status, 403);
    assert_eq!(
        world.ask("camera", "PUT", &format!("{place}/package_content"), &Value::Null).0.status,
        403
    );
    assert_eq!(world.ask("camera", "DELETE", &place, &Value::Null).0.status, 403);
}
