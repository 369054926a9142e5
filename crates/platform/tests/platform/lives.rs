//! Lives of app instances: what is asked for, in which states, what is done, and who is told.

use crate::packages::{descriptor, named, receive};
use crate::radio::kinds;
use crate::support::{SUPPORT, World, location, setup};
use freshet_platform::limits::BYTES_PER_CLIENT_MAX;
use freshet_platform::notify::Notice;
use freshet_platform::{Found, Platform, Reach, Room, Step, Task, Tunnel};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

const INSTANCES: &str = "/app_lcm/v1/app_instances";
const OCCURRENCES: &str = "/app_lcm/v1/app_lcm_op_occs";

/// Brings a package, whose app takes half of the host.
pub(crate) fn bring(world: &mut World) {
    let (made, _) = world.ask("operator", "POST", "/app_pkgm/v1/onboarded_app_packages", &named());
    let mut descriptor = descriptor();
    descriptor["appTrafficRule"][0]["dstInterface"]["dstIpAddress"] = "0.0.0.0".into();
    descriptor["appDNSRule"] = json!([{
        "dnsRuleId": "www", "domainName": "edge.example.com", "ipAddressType": "IP_V4",
        "ipAddress": "0.0.0.0", "ttl": 30,
    }]);
    descriptor["appServiceRequired"] = json!([{"serName": "rni"}, {"serName": "app_lcm"}]);
    let (answer, _) = receive(world, &location(&made), Ok((descriptor, None)));
    assert_eq!(answer.status, 202, "{answer:?}");
}

pub(crate) fn make(world: &mut World) -> String {
    let body = json!({"appDId": "cache-d", "appInstanceName": "one"});
    location(&world.ask("operator", "POST", INSTANCES, &body).0)
}

pub(crate) fn here() -> Value {
    json!({"selectedMECHostInfo": [{"hostName": "here", "hostId": {}}]})
}

pub(crate) fn forcefully() -> Value {
    json!({"terminationType": "FORCEFUL"})
}

/// Begins an operation; gives the status, and the occurrence's place.
pub(crate) fn begin(world: &mut World, instance: &str, what: &str, body: &Value) -> (u16, String) {
    let answer = world.ask("operator", "POST", &format!("{instance}/{what}"), body).0;
    let place = if answer.status == 202 { location(&answer) } else { String::new() };
    (answer.status, place)
}

/// What a driver would find for a step.
pub(crate) fn well(step: Step) -> Result<Found, String> {
    Ok(if step == Step::Unpack { Found::Ports(vec![80]) } else { Found::Done })
}

/// Does what there is to do for steps, as `found` says; gives them, and who was told.
pub(crate) fn work(
    world: &mut World,
    mut found: impl FnMut(Step) -> Result<Found, String>,
) -> (Vec<Step>, Vec<Notice>) {
    let (mut steps, mut told) = (Vec::new(), Vec::new());
    // No operation has more; what fails is tried again.
    for _ in 0..40 {
        world.now_ms += 5000;
        let works = world.platform.works(world.now_ms);
        let of_step = |task| match task {
            Task::Step(step) => Some(step),
            _ => None,
        };
        let Some((work, step)) =
            works.into_iter().find_map(|work| of_step(work.task).map(|step| (work, step)))
        else {
            break;
        };
        steps.push(step);
        let decision = world.platform.worked(&work, &found(step), world.now_ms);
        told.extend(world.platform.commit(decision, world.now_ms).unwrap().1);
    }
    (steps, told)
}

fn rules(world: &World) -> Vec<Value> {
    let path = world.platform.packet_path();
    let rules = path.rules.as_array().unwrap().clone();
    rules.into_iter().filter(|rule| rule["state"] == "ACTIVE").collect()
}

fn state(world: &mut World, occurrence: &str) -> Value {
    world.get("operator", occurrence).body.unwrap()["operationState"].clone()
}

/// Uses every operation, for the judges of all interfaces.
pub(crate) fn exercise(world: &mut World) {
    bring(world);
    let subscriptions = "/app_lcm/v1/subscriptions";
    for kind in [
        "AppInstanceStateChangeSubscription",
        "AppLcmOpOccStateChangeSubscription",
        "AppIdentifierCreationSubscription",
        "AppIdentifierDeletionSubscription",
    ] {
        let body = json!({"subscriptionType": kind, "callbackUri": "http://192.0.2.7/"});
        let place = location(&world.ask("operator", "POST", subscriptions, &body).0);
        world.get("operator", &place);
        world.get("operator", subscriptions);
        if kind.starts_with("AppIdentifier") {
            world.ask("operator", "DELETE", &place, &Value::Null);
        }
    }
    world.ask("operator", "POST", INSTANCES, &json!({"appDId": "none"}));
    let instance = make(world);
    let id = instance.rsplit('/').next().unwrap().to_owned();
    let link = json!({"href": "http://mec.example/x"});
    let grant = json!({
        "appInstanceId": id, "appLcmOpOccId": "1", "appDId": "cache-d", "operation": "INSTANTIATE",
        "_links": {"appLcmOpOcc": link, "appInstance": link},
    });
    let granted = location(&world.ask("operator", "POST", "/granting/v1/grants", &grant).0);
    world.get("operator", &granted);
    world.ask("operator", "POST", "/granting/v1/grants", &grant);
    let configured = json!({"appDNSRule": []});
    world.ask("operator", "POST", &format!("{instance}/configure_platform_for_app"), &configured);
    let (_, place) = begin(world, &instance, "instantiate", &here());
    world.get("operator", &place);
    let cancel = json!({"CancelMode": "GRACEFUL"});
    world.ask("operator", "POST", &format!("{place}/cancel"), &cancel);
    world.get("operator", &place);
    work(world, well);
    world.ask("operator", "POST", &format!("{place}/retry"), &Value::Null);
    world.ask("operator", "POST", &format!("{place}/cancel"), &cancel);
    work(world, well);
    world.get("operator", &place);
    world.ask("operator", "POST", &format!("{place}/fail"), &Value::Null);
    begin(world, &instance, "instantiate", &here());
    work(world, well);
    world.get("operator", &instance);
    begin(world, &instance, "operate", &json!({"changeStateTo": "STOPPED"}));
    world.get("operator", INSTANCES);
    work(world, well);
    begin(world, &instance, "terminate", &forcefully());
    world.get("operator", OCCURRENCES);
    work(world, well);
    world.ask("operator", "DELETE", &instance, &Value::Null);
    let told = json!({
        "id": "1", "notificationType": "AppInstanceStateChangeSubscription", "appInstanceState": "STARTED",
        "subscriptionId": "1", "timeStamp": {"seconds": 1, "nanoSeconds": 0}, "appInstanceId": "1",
        "appPkgId": "1", "appDId": "cache-d", "_links": {"subscription": {"href": "http://mec.example/x"}},
    });
    world.ask("operator", "POST", "/app_lcm/v1/user_defined_notification", &told);
}

#[test]
fn an_instance_goes_through_its_states_and_its_rules_with_it() {
    use Step::{Answer, Clear, Drain, Leave, Link, Start, Stop, Unlink, Unpack};
    let mut world = World::new();
    bring(&mut world);
    for kind in ["AppInstanceStateChangeSubscription", "AppLcmOpOccStateChangeSubscription"] {
        let body = json!({"subscriptionType": kind, "callbackUri": "http://192.0.2.7/"});
        world.ask("operator", "POST", "/app_lcm/v1/subscriptions", &body);
    }
    let instance = make(&mut world);
    let id = instance.rsplit('/').next().unwrap().to_owned();
    for what in ["terminate", "operate"] {
        let body =
            if what == "operate" { json!({"changeStateTo": "STARTED"}) } else { forcefully() };
        assert_eq!(begin(&mut world, &instance, what, &body).0, 409, "{what}");
    }
    let (status, first) = begin(&mut world, &instance, "instantiate", &here());
    assert_eq!((status, state(&mut world, &first)), (202, json!("STARTING")));
    assert_eq!(begin(&mut world, &instance, "instantiate", &here()).0, 409);
    assert_eq!(begin(&mut world, &instance, "terminate", &forcefully()).0, 409);
    assert_eq!(world.ask("operator", "DELETE", &instance, &Value::Null).0.status, 409);
    let mut in_force = Vec::new();
    let (steps, told) = work(&mut world, |step| {
        in_force.push(step);
        well(step)
    });
    assert_eq!(steps, [Unpack, Link, Start, Answer]);
    assert_eq!(state(&mut world, &first), "COMPLETED");
    assert_eq!(
        kinds(&told),
        [
            "AppLcmOpOccStateChangeSubscription",
            "AppLcmOpOccStateChangeSubscription",
            "AppInstanceStateChangeSubscription",
        ]
    );
    assert_eq!(told[2].body["appInstanceState"], "STARTED");
    let known = world.get("operator", &instance).body.unwrap();
    assert_eq!(known["instantiatedAppState"]["operationalState"], "STARTED");
    // The rules of the descriptor lead to the instance's own address.
    let found = rules(&world);
    assert_eq!(found[0]["dstInterface"]["dstIpAddress"], "10.99.0.2");
    assert_eq!(found[0]["trafficRuleId"], format!("{id}/video"));
    let resolved = world.platform.resolve("edge.example.com", false).unwrap();
    assert_eq!(resolved.address, Some([10, 99, 0, 2].into()));
    // Its package cannot go, nor can it be started twice.
    let package = known["appPkgId"].as_str().unwrap().to_owned();
    let package = format!("/app_pkgm/v1/onboarded_app_packages/{package}");
    assert_eq!(world.ask("operator", "DELETE", &package, &Value::Null).0.status, 409);
    let start = json!({"changeStateTo": "STARTED"});
    assert_eq!(begin(&mut world, &instance, "operate", &start).0, 409);
    let stop =
        json!({"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 5});
    assert_eq!(begin(&mut world, &instance, "operate", &stop).0, 202);
    let works = world.platform.works(world.now_ms + 1);
    assert_eq!(works[0].task, Task::Step(Leave));
    let done = world.platform.worked(&works[0], &Ok(Found::Done), world.now_ms);
    world.platform.commit(done, world.now_ms).unwrap();
    // Its traffic goes elsewhere before it ends.
    assert!(rules(&world).is_empty());
    assert!(world.platform.resolve("edge.example.com", false).is_none());
    assert_eq!(work(&mut world, well).0, [Drain, Stop]);
    assert_eq!(begin(&mut world, &instance, "operate", &start).0, 202);
    assert_eq!(work(&mut world, well).0, [Start, Answer]);
    assert_eq!(rules(&world).len(), 1);
    let allocation = json!({
        "appInsId": id, "requestType": 0, "fixedAllocation": "1000", "allocationDirection": "00",
    });
    let allocations = "/bwm/v1/bw_allocations";
    assert_eq!(world.ask("operator", "POST", allocations, &allocation).0.status, 201);
    let link = json!({"href": "http://mec.example/x"});
    let grant = json!({
        "appInstanceId": id, "appLcmOpOccId": "1", "appDId": "cache-d", "operation": "OPERATE",
        "_links": {"appLcmOpOcc": link, "appInstance": link},
    });
    let granted = location(&world.ask("operator", "POST", "/granting/v1/grants", &grant).0);
    assert_eq!(begin(&mut world, &instance, "terminate", &forcefully()).0, 202);
    assert_eq!(work(&mut world, well).0, [Leave, Drain, Stop, Unlink, Clear]);
    // What others had for it is gone with it.
    assert_eq!(world.get("operator", allocations).body.unwrap(), json!([]));
    assert_eq!(world.get("operator", &granted).status, 404);
    let known = world.get("operator", &instance).body.unwrap();
    assert_eq!(known["instantiationState"], "NOT_INSTANTIATED");
    assert!(
        world
            .get("operator", "/mec_platform/v1/applications")
            .body
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .all(|app| app["appInstanceId"] != id)
    );
    assert_eq!(world.ask("operator", "DELETE", &instance, &Value::Null).0.status, 204);
    assert_eq!(world.ask("operator", "DELETE", &package, &Value::Null).0.status, 204);
}

#[test]
fn lists_leave_out_by_default_what_the_standard_says() {
    let mut world = World::new();
    bring(&mut world);
    let instance = make(&mut world);
    begin(&mut world, &instance, "instantiate", &here());
    work(&mut world, well);
    let mut first = |target: &str| world.get("operator", target).body.unwrap()[0].clone();
    let whole = first(&format!("{OCCURRENCES}?all_fields"));
    assert_eq!(whole["operationParams"], here());
    for query in ["", "?exclude_default", "?filter=(eq,lcmOperation,INSTANTIATE)", "?size=1"] {
        let mut bare = first(&format!("{OCCURRENCES}{query}"));
        assert!(bare.get("operationParams").is_none(), "{query}: {bare}");
        bare["operationParams"] = whole["operationParams"].clone();
        assert_eq!(bare, whole, "{query}");
    }
    for query in
        ["fields=operationParams", "exclude_fields=error", "exclude_default&fields=operationParams"]
    {
        assert_eq!(first(&format!("{OCCURRENCES}?{query}")), whole, "{query}");
    }
    let links =
        |one: &Value| one["_links"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let whole = first(&format!("{INSTANCES}?all_fields"));
    let terminate = links(&whole).iter().any(|name| name == "terminate");
    assert!(terminate, "{whole}");
    assert_eq!(links(&first(INSTANCES)), ["configure_platform_for_app", "self"]);
    // One of them has all of it.
    assert_eq!(world.get("operator", &instance).body.unwrap(), whole);
}

#[test]
fn instances_are_among_what_a_client_may_have() {
    let mut world = World::new();
    bring(&mut world);
    let description = "x".repeat(250 << 10);
    let bytes_of_one = description.len();
    let body = json!({"appDId": "cache-d", "appInstanceDescription": description});
    let mut statuses = (0..100).map(|_| world.ask("operator", "POST", INSTANCES, &body).0.status);
    let made = statuses.by_ref().take_while(|status| *status == 201).count();
    assert_eq!(made, BYTES_PER_CLIENT_MAX / bytes_of_one);
    assert_eq!(statuses.next(), Some(507));
}

#[test]
fn what_fails_is_taken_back_before_anybody_is_told() {
    use Step::{Clear, Link, Start, Stop, Unlink, Unpack};
    let mut world = World::new();
    bring(&mut world);
    let instance = make(&mut world);
    let (_, place) = begin(&mut world, &instance, "instantiate", &here());
    let mut failures = 0;
    let (steps, _) = work(&mut world, |step| match step {
        Start => Err("no room in the kernel".to_owned()),
        // What is taken back is tried until it is gone.
        Unlink if failures < 2 => {
            failures += 1;
            Err("busy".to_owned())
        }
        step => well(step),
    });
    assert_eq!(steps, [Unpack, Link, Start, Stop, Unlink, Unlink, Unlink, Clear]);
    let known = world.get("operator", &place).body.unwrap();
    assert_eq!(known["operationState"], "FAILED_TEMP");
    assert!(known["error"]["detail"].as_str().is_some(), "{known}");
    assert!(rules(&world).is_empty());
    assert_eq!(begin(&mut world, &instance, "instantiate", &here()).0, 409);
    let retry = format!("{place}/retry");
    assert_eq!(world.ask("operator", "POST", &retry, &Value::Null).0.status, 202);
    assert_eq!(world.ask("operator", "POST", &retry, &Value::Null).0.status, 409);
    work(&mut world, well);
    assert_eq!((state(&mut world, &place), rules(&world).len()), (json!("COMPLETED"), 1));
    for what in ["retry", "fail"] {
        let over = world.ask("operator", "POST", &format!("{place}/{what}"), &Value::Null).0;
        assert_eq!(over.status, 409, "{what}");
    }
    // An end that cannot be done is not taken back, and may be given up: the app is there as before.
    let (_, place) = begin(&mut world, &instance, "terminate", &forcefully());
    let cancel = json!({"CancelMode": "FORCED"});
    let cancelled = world.ask("operator", "POST", &format!("{place}/cancel"), &cancel).0;
    assert_eq!(cancelled.status, 409);
    work(&mut world, |step| if step == Stop { Err("it hangs".to_owned()) } else { well(step) });
    assert_eq!(state(&mut world, &place), "FAILED_TEMP");
    let failed = world.ask("operator", "POST", &format!("{place}/fail"), &Value::Null).0;
    assert_eq!(failed.body.unwrap()["operationState"], "FAILED");
    let known = world.get("operator", &instance).body.unwrap();
    assert_eq!(known["instantiationState"], "INSTANTIATED");
    assert_eq!(begin(&mut world, &instance, "terminate", &forcefully()).0, 202);
    work(&mut world, well);
    assert_eq!(world.ask("operator", "DELETE", &instance, &Value::Null).0.status, 204);
}

#[test]
fn an_app_that_does_not_answer_or_is_not_wanted_any_more_is_taken_back() {
    let mut world = World::new();
    bring(&mut world);
    let instance = make(&mut world);
    let (_, place) = begin(&mut world, &instance, "instantiate", &here());
    let (steps, _) = work(&mut world, |step| match step {
        Step::Answer => Ok(Found::NotYet),
        step => well(step),
    });
    assert_eq!(steps.last(), Some(&Step::Clear));
    let known = world.get("operator", &place).body.unwrap();
    assert!(known["error"]["detail"].as_str().unwrap().contains("did not answer"), "{known}");
    world.ask("operator", "POST", &format!("{place}/retry"), &Value::Null);
    let cancel = json!({"CancelMode": "FORCED"});
    assert_eq!(world.ask("operator", "POST", &format!("{place}/cancel"), &cancel).0.status, 202);
    assert_eq!(world.get("operator", &place).body.unwrap()["isCancelPending"], true);
    let (steps, _) = work(&mut world, well);
    assert_eq!(steps, [Step::Unpack, Step::Stop, Step::Unlink, Step::Clear]);
    assert_eq!(state(&mut world, &place), "FAILED_TEMP");
    assert_eq!(world.ask("operator", "POST", &format!("{place}/fail"), &Value::Null).0.status, 200);
    assert!(world.platform.works(world.now_ms).is_empty());
}

#[test]
fn no_more_is_granted_than_there_is() {
    let mut world = World::new();
    bring(&mut world);
    // 500 thousandths of a processor each, of 1000.
    let all: Vec<String> = (0..3).map(|_| make(&mut world)).collect();
    let status = |world: &mut World, instance: &str| {
        let answer = world.ask("operator", "POST", &format!("{instance}/instantiate"), &here()).0;
        (answer.status, answer.body.map(|body| body["detail"].to_string()).unwrap_or_default())
    };
    assert_eq!(status(&mut world, &all[0]).0, 202);
    assert_eq!(status(&mut world, &all[1]).0, 202);
    let (refused, why) = status(&mut world, &all[2]);
    assert!(refused == 403 && why.contains("0 of 1000 are left"), "{why}");
    work(&mut world, well);
    work(&mut world, well);
    begin(&mut world, &all[0], "terminate", &forcefully());
    work(&mut world, well);
    assert_eq!(status(&mut world, &all[2]).0, 202);
    let elsewhere = json!({"selectedMECHostInfo": [{"hostName": "there", "hostId": {}}]});
    assert_eq!(begin(&mut world, &all[0], "instantiate", &elsewhere).0, 403);
}

#[test]
fn packets_are_led_to_no_app_in_a_cluster() {
    let mut setup = setup();
    setup.place.as_mut().unwrap().reach = Reach::Service;
    let mut world = World::with(Platform::new(setup).unwrap());
    bring(&mut world);
    let instance = make(&mut world);
    let path = format!("{instance}/instantiate");
    let refused = world.ask("operator", "POST", &path, &here()).0;
    let why = refused.body.unwrap()["detail"].to_string();
    assert!(refused.status == 403 && why.contains("video") && why.contains("cluster"), "{why}");
    // Without the rule it has an address of its own, and no other of the network's is lost for it.
    let configured = json!({"appTrafficRule": []});
    let configure = format!("{instance}/configure_platform_for_app");
    assert_eq!(world.ask("operator", "POST", &configure, &configured).0.status, 202);
    begin(&mut world, &instance, "instantiate", &here());
    work(&mut world, well);
    assert!(world.platform.packet_path().apps.is_empty());
    let ends = world.get("operator", &instance).body.unwrap()["communicationInterface"].clone();
    assert_eq!(ends["ipAddresses"], json!([{"host": "10.99.0.1", "port": 80}]));
}

#[test]
fn what_an_app_may_be_sent_is_said_to_a_cluster_alone() {
    for (reach, receives_bps_max) in [(Reach::Interface, None), (Reach::Service, Some(7000))] {
        let mut setup = setup();
        setup.place.as_mut().unwrap().reach = reach;
        let mut world = World::with(Platform::new(setup).unwrap());
        bring(&mut world);
        let instance = make(&mut world);
        let configured = json!({"appTrafficRule": []});
        let configure = format!("{instance}/configure_platform_for_app");
        world.ask("operator", "POST", &configure, &configured);
        begin(&mut world, &instance, "instantiate", &here());
        work(&mut world, well);
        let id = instance.rsplit('/').next().unwrap();
        for (direction, bits) in [("00", 5000), ("01", 3000), ("10", 4000)] {
            let body = json!({
                "appInsId": id, "requestType": 0, "fixedAllocation": bits.to_string(),
                "allocationDirection": direction,
            });
            let made = world.ask("operator", "POST", "/bwm/v1/bw_allocations", &body).0;
            assert_eq!(made.status, 201, "{made:?}");
        }
        world.now_ms += 5000;
        let works = world.platform.works(world.now_ms);
        let network = &works[0].spec.network;
        assert_eq!(
            (network.sends_bps_max, network.receives_bps_max),
            (Some(9000), receives_bps_max)
        );
    }
}

#[test]
fn an_app_that_ended_by_itself_has_no_rules_until_it_is_back() {
    let mut world = World::new();
    bring(&mut world);
    let instance = make(&mut world);
    begin(&mut world, &instance, "instantiate", &here());
    work(&mut world, well);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let look = world.platform.works(world.now_ms).remove(0);
        assert_eq!(look.task, Task::Look);
        let gone = world.platform.worked(&look, &Err("over".to_owned()), world.now_ms);
        world.platform.commit(gone, world.now_ms).unwrap();
        assert!(rules(&world).is_empty());
        let mut pause_ms = 0;
        while world.platform.works(world.now_ms + pause_ms).is_empty() {
            pause_ms += 100;
        }
        pauses.push(pause_ms);
        world.now_ms += pause_ms;
        let restart = world.platform.works(world.now_ms).remove(0);
        assert_eq!(restart.task, Task::Restart);
        let waits = world.platform.worked(&restart, &Ok(Found::NotYet), world.now_ms);
        assert!(waits.is_reading(), "it is started before the one before it is gone");
        let is_starting = |world: &World| world.platform.works(world.now_ms)[0].is_starting;
        for (index, work) in [restart, look].into_iter().enumerate() {
            // What was just started has its time to answer.
            assert!(index == 0 || is_starting(&world));
            let done = world.platform.worked(&work, &Ok(Found::Done), world.now_ms);
            world.platform.commit(done, world.now_ms).unwrap();
        }
        assert!(rules(&world).len() == 1 && !is_starting(&world));
    }
    assert_eq!(pauses, [500, 1000, 2000]);
}

#[test]
fn an_instance_is_a_client_of_its_own_and_ends_when_it_says_so() {
    let mut world = World::new();
    bring(&mut world);
    let instance = make(&mut world);
    let id = instance.rsplit('/').next().unwrap().to_owned();
    begin(&mut world, &instance, "instantiate", &here());
    work(&mut world, well);
    // Whoever does not know its secret is not it.
    let form = format!("grant_type=client_credentials&client_id={id}&client_secret=guess");
    let call = freshet_platform::Call {
        method: "POST",
        target: "/oauth2/token",
        body: form.as_bytes(),
        ..freshet_platform::Call::default()
    };
    assert_eq!(world.call(&call).0.status, 401);
    // The platform's own way to end apps of the configuration is not for those it runs.
    let end = json!({"operationAction": "TERMINATING", "maxGracefulTimeout": 10});
    let own = format!("/mec_platform/v1/applications/{id}/terminate");
    assert_eq!(world.ask("operator", "POST", &own, &end).0.status, 409);
    let body = json!({
        "subscriptionType": "AppTerminationNotificationSubscription",
        "callbackReference": "http://192.0.2.9/end", "appInstanceId": id,
    });
    let support = format!("{SUPPORT}/applications/{id}");
    assert_eq!(
        world.ask("operator", "POST", &format!("{support}/subscriptions"), &body).0.status,
        201
    );
    let gracefully = json!({"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 60});
    begin(&mut world, &instance, "terminate", &gracefully);
    let works = world.platform.works(world.now_ms);
    let left = world.platform.worked(&works[0], &Ok(Found::Done), world.now_ms);
    let (_, told) = world.platform.commit(left, world.now_ms).unwrap();
    assert_eq!(kinds(&told), ["AppTerminationNotification"]);
    assert!(rules(&world).is_empty());
    let ready = json!({"indication": "READY"});
    let late = world.ask("operator", "POST", &format!("{support}/confirm_ready"), &ready).0;
    assert_eq!((late.status, rules(&world).len()), (409, 0));
    let confirm = json!({"operationAction": "TERMINATING"});
    let confirmed =
        world.ask("operator", "POST", &format!("{support}/confirm_termination"), &confirm).0;
    assert_eq!(confirmed.status, 204);
    work(&mut world, well);
    assert_eq!(world.get("operator", &support).status, 404);
}

#[test]
fn apps_decide_no_lives() {
    let mut world = World::new();
    bring(&mut world);
    let instance = make(&mut world);
    assert_eq!(world.ask("camera", "POST", INSTANCES, &json!({"appDId": "cache-d"})).0.status, 403);
    for what in ["instantiate", "terminate", "operate"] {
        let status =
            world.ask("camera", "POST", &format!("{instance}/{what}"), &json!({})).0.status;
        assert_eq!(status, 403, "{what}");
    }
    assert_eq!(world.get("camera", &instance).status, 403);
    assert_eq!(world.ask("camera", "DELETE", &instance, &Value::Null).0.status, 403);
    let body = json!({
        "subscriptionType": "AppInstanceStateChangeSubscription", "callbackUri": "http://192.0.2.7/",
    });
    assert_eq!(world.ask("camera", "POST", "/app_lcm/v1/subscriptions", &body).0.status, 403);
}

/// A platform with two hosts, of which each has a part of the network.
fn two_hosts() -> World {
    two_hosts_with([None, None])
}

/// As [`two_hosts`], with tunnels to these.
fn two_hosts_with(tunnels: [Option<Ipv4Addr>; 2]) -> World {
    let mut setup = setup();
    let place = setup.place.as_mut().unwrap();
    place.reach = Reach::Host;
    place.tunnel = Some(Tunnel { near: [192, 0, 2, 1].into(), mtu: 1450 });
    let one = place.rooms.remove(0);
    place.rooms = [("north", 0, tunnels[0]), ("south", 8, tunnels[1])]
        .map(|(host, first, tunnel)| Room {
            host: host.to_owned(),
            zone: Some(format!("zone-{host}")),
            network: Some(([10, 99, 0, first].into(), 29)),
            tunnel,
            ..one.clone()
        })
        .into();
    World::with(Platform::new(setup).unwrap())
}

#[test]
fn an_app_that_packets_are_led_to_comes_where_a_tunnel_leads() {
    let mut world = two_hosts_with([None, Some([192, 0, 2, 3].into())]);
    bring(&mut world);
    let instance = make(&mut world);
    let north = json!({"selectedMECHostInfo": [{"hostName": "north", "hostId": {}}]});
    let path = format!("{instance}/instantiate");
    let refused = world.ask("operator", "POST", &path, &north).0;
    let why = refused.body.unwrap()["detail"].to_string();
    let expected = "on north: no tunnel from the edge router leads to it, as the rule video needs";
    assert!(refused.status == 403 && why.contains(expected), "{why}");
    let anywhere = json!({"selectedMECHostInfo": [{"hostId": {}}]});
    assert_eq!(begin(&mut world, &instance, "instantiate", &anywhere).0, 202);
    let wire = world.platform.works(world.now_ms)[0].spec.network.wire.clone().unwrap();
    assert_eq!((wire.vni, wire.far, wire.mtu), (3, [192, 0, 2, 3].into(), 1450));
    work(&mut world, well);
    let id = instance.rsplit('/').next().unwrap();
    // It is alive where the tunnel says so.
    let app = json!({
        "kind": "breakout", "interface": "mec2", "mac": "02:4d:45:00:02:03",
        "addresses": ["10.99.0.10"], "mtu": 1450, "health": "tcp 169.254.64.2:80",
    });
    assert_eq!(world.platform.packet_path().apps[id], app);
    // One that no packets are led to needs none.
    let second = make(&mut world);
    let configured = json!({"appTrafficRule": []});
    let configure = format!("{second}/configure_platform_for_app");
    assert_eq!(world.ask("operator", "POST", &configure, &configured).0.status, 202);
    assert_eq!(begin(&mut world, &second, "instantiate", &north).0, 202);
    let works = world.platform.works(world.now_ms);
    let work = works.iter().find(|work| matches!(work.task, Task::Step(_))).unwrap();
    assert_eq!(work.spec.network.wire, None);
}

#[test]
fn an_app_that_moves_has_an_interface_at_the_edge_router_only_where_there_is_one() {
    use Step::{Answer, Link};
    let mut world = two_hosts_with([2, 3].map(|last| Some([192, 0, 2, last].into())));
    bring(&mut world);
    let instance = make(&mut world);
    let anywhere = json!({"selectedMECHostInfo": [{"hostId": {}}]});
    begin(&mut world, &instance, "instantiate", &anywhere);
    work(&mut world, well);
    let interface = |world: &World| {
        let apps = world.platform.packet_path().apps;
        apps.values().next().map(|app| app["interface"].as_str().unwrap().to_owned())
    };
    assert_eq!(interface(&world).as_deref(), Some("mec0"));
    look(&mut world, &Found::Lost);
    assert_eq!(interface(&world), None);
    // The first try fails with its interface made.
    let mut seen = Vec::new();
    let mut fails = true;
    for _ in 0..40 {
        world.now_ms += 5000;
        let works = world.platform.works(world.now_ms);
        let Some(Task::Step(step)) = works.first().map(|work| work.task) else { break };
        let found = match step {
            Answer if std::mem::take(&mut fails) => Err("no".to_owned()),
            _ => well(step),
        };
        let decision = world.platform.worked(&works[0], &found, world.now_ms);
        world.platform.commit(decision, world.now_ms).unwrap();
        seen.push((step, interface(&world)));
    }
    let last = seen.len() - 1;
    assert!(!fails && seen[last].0 == Answer, "{seen:?}");
    let tries: Vec<_> = seen.iter().map(|(step, interface)| (*step, interface.is_some())).collect();
    for attempt in [&tries[..=last / 2], &tries[last / 2 + 1..]] {
        let linked = attempt.iter().position(|(step, _)| *step == Link).unwrap();
        let answer = attempt.len() - 1;
        assert!(attempt[..linked].iter().all(|(_, is_there)| !is_there), "{seen:?}");
        assert!(attempt[linked..answer].iter().all(|(_, is_there)| *is_there), "{seen:?}");
    }
    assert!(!tries[last / 2].1 && tries[last].1, "{seen:?}");
}

#[test]
fn a_host_and_a_zone_that_are_named_together_are_both_meant() {
    let mut world = two_hosts();
    let (made, _) = world.ask("operator", "POST", "/app_pkgm/v1/onboarded_app_packages", &named());
    let mut descriptor = descriptor();
    descriptor["appTrafficRule"] = json!([]);
    receive(&mut world, &location(&made), Ok((descriptor, None)));
    let instance = make(&mut world);
    let of = |host: &str, zone: &str| json!({"hostName": host, "hostId": {"zone": zone}});
    let wanted = json!({ "selectedMECHostInfo": [of("north", "zone-south")] });
    assert_eq!(begin(&mut world, &instance, "instantiate", &wanted).0, 403);
    // Of several entries one is enough.
    let wanted = json!({
        "selectedMECHostInfo": [of("north", "zone-south"), of("south", "zone-south")],
    });
    assert_eq!(begin(&mut world, &instance, "instantiate", &wanted).0, 202);
}

/// Looks at all apps that run; `found` is what is seen.
fn look(world: &mut World, found: &Found) {
    let works = world.platform.works(world.now_ms);
    for work in works.iter().filter(|work| work.task == Task::Look) {
        let decision = world.platform.worked(work, &Ok(found.clone()), world.now_ms);
        world.platform.commit(decision, world.now_ms).unwrap();
    }
}

#[test]
fn an_app_whose_host_is_lost_comes_to_another_with_its_names() {
    use Step::{Answer, Clear, Link, Place, Start, Stop, Unlink, Unpack};
    let mut world = two_hosts();
    let (made, _) = world.ask("operator", "POST", "/app_pkgm/v1/onboarded_app_packages", &named());
    let mut descriptor = descriptor();
    descriptor["appTrafficRule"] = json!([]);
    descriptor["appDNSRule"] = json!([{
        "dnsRuleId": "www", "domainName": "edge.example.com", "ipAddressType": "IP_V4",
        "ipAddress": "0.0.0.0", "ttl": 30,
    }]);
    receive(&mut world, &location(&made), Ok((descriptor, None)));
    let instance = make(&mut world);
    let wanted = json!({"selectedMECHostInfo": [{"hostId": {"zone": "zone-south"}}]});
    assert_eq!(begin(&mut world, &instance, "instantiate", &wanted).0, 202);
    work(&mut world, well);
    let address = |world: &World| {
        world.platform.resolve("edge.example.com", false).and_then(|found| found.address)
    };
    assert_eq!(address(&world), Some([10, 99, 0, 10].into()));
    let begun = |world: &mut World| {
        look(world, &Found::Lost);
        let all = world.get("operator", OCCURRENCES).body.unwrap();
        let open = all.as_array().unwrap().iter().find(|one| one["operationState"] == "STARTING");
        open.map(|one| format!("{OCCURRENCES}/{}", one["id"].as_str().unwrap()))
    };
    let first = begun(&mut world).unwrap();
    assert_eq!(address(&world), None, "nobody is sent to a host that is lost");
    // It is wanted in one zone only, which has one host: it comes there again.
    let (steps, _) = work(&mut world, well);
    assert_eq!(steps, [Stop, Unlink, Clear, Place, Unpack, Link, Start, Answer]);
    assert_eq!(
        (state(&mut world, &first), address(&world)),
        (json!("COMPLETED"), Some([10, 99, 0, 10].into()))
    );
    // Somewhere else it is wanted anywhere; the first try to come to the other host fails.
    let (_, _) = begin(&mut world, &instance, "terminate", &forcefully());
    work(&mut world, well);
    let anywhere = json!({"selectedMECHostInfo": [{"hostId": {}}]});
    assert_eq!(begin(&mut world, &instance, "instantiate", &anywhere).0, 202);
    work(&mut world, well);
    assert_eq!(address(&world), Some([10, 99, 0, 2].into()));
    let second = begun(&mut world).unwrap();
    let mut fails = true;
    let (steps, _) = work(&mut world, |step| match step {
        Link if std::mem::take(&mut fails) => Err("no".to_owned()),
        _ => well(step),
    });
    let whole = [Stop, Unlink, Clear, Place, Unpack, Link, Start, Answer];
    assert_eq!(steps, [&whole[..6], &whole[..]].concat());
    assert_eq!(state(&mut world, &second), "COMPLETED");
    let known = world.get("operator", &instance).body.unwrap();
    assert_eq!(known["instantiatedAppState"]["operationalState"], "STARTED");
    // One that fails wherever it comes waits for a word, and is tried again by it.
    let third = begun(&mut world).unwrap();
    work(&mut world, |step| if step == Start { Err("no".to_owned()) } else { well(step) });
    assert_eq!(state(&mut world, &third), "FAILED_TEMP");
    let retried = world.ask("operator", "POST", &format!("{third}/retry"), &Value::Null).0;
    assert_eq!(retried.status, 202);
    work(&mut world, well);
    assert_eq!(state(&mut world, &third), "COMPLETED");
    assert!(address(&world).is_some());
}

#[test]
fn an_instance_that_is_not_there_is_said_before_what_is_wrong_with_the_body() {
    let mut world = World::new();
    for act in ["instantiate", "operate", "terminate"] {
        let target = format!("/app_lcm/v1/app_instances/none/{act}");
        assert_eq!(world.ask("operator", "POST", &target, &json!("no object")).0.status, 404);
    }
}
