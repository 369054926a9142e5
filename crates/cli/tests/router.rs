//! `freshet router` as its user meets it; on a wire it is tested where its programs are.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use std::process::{Command, Output};

fn router(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freshet")).arg("router").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[cfg(not(feature = "router"))]
#[test]
fn a_program_without_it_says_how_to_get_it() {
    let output = router(&["--config", "router.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--features router"), "{}", said(&output));
}

#[cfg(feature = "router")]
mod built {
    use super::{router, said};

    const GOOD: &str = "wire = \"n3\"\naccess = \"acc0\"\ncore = \"cor0\"\nrules = \"RULES\"\n\
                        [app.cache]\nkind = \"breakout\"\ninterface = \"leg0\"\n\
                        mac = \"02:00:00:00:00:09\"\naddresses = [\"10.99.0.2\"]\n";

    #[test]
    fn a_configuration_and_its_rules_are_checked_before_anything_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (config, rules) = (folder.path().join("router.toml"), folder.path().join("rules.json"));
        let write = |port: &str| {
            let text = GOOD.replace("RULES", rules.to_str().unwrap());
            std::fs::write(&config, text).unwrap();
            let text = format!(
                r#"[{{"trafficRuleId": "video", "filterType": "FLOW", "priority": 10, "state": "ACTIVE",
                     "trafficFilter": [{{"dstPort": ["{port}"]}}], "action": "FORWARD_DECAPSULATED",
                     "dstInterface": {{"interfaceType": "IP", "dstIpAddress": "10.99.0.2"}}}}]"#
            );
            std::fs::write(&rules, text).unwrap();
        };
        let check = || router(&["check", "--config", config.to_str().unwrap()]);
        write("443");
        assert!(check().status.success(), "{}", said(&check()));
        write("70000");
        assert_eq!(check().status.code(), Some(1));
        assert!(
            said(&check()).contains("rules[0].trafficFilter[0].dstPort[0]: `70000` is no port")
        );
        std::fs::write(&config, "wire = \"n3\"\n").unwrap();
        assert!(said(&check()).contains("missing field `access`"), "{}", said(&check()));
    }

    #[test]
    fn who_asks_where_no_router_runs_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("none.sock");
        for what in ["status", "rules", "sessions", "events"] {
            let output = router(&[what, "--socket", socket.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(1));
            assert!(said(&output).contains("does a router run"), "{}", said(&output));
        }
    }

    #[test]
    fn cores_of_a_made_up_machine_are_listed_and_set() {
        let folder = tempfile::tempdir().unwrap();
        for cpu in 0..4 {
            let place = folder.path().join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"));
            std::fs::create_dir_all(&place).unwrap();
            let base = if cpu == 2 { "2800000" } else { "2100000" };
            for (name, value) in [
                ("base_frequency", base),
                ("scaling_min_freq", "800000"),
                ("scaling_max_freq", "3600000"),
                ("cpuinfo_min_freq", "800000"),
                ("cpuinfo_max_freq", "3600000"),
            ] {
                std::fs::write(place.join(name), value).unwrap();
            }
        }
        let root = folder.path().to_str().unwrap();
        let output = router(&["cores", "--root", root, "--check", "--mode", "mixed"]);
        assert!(output.status.success(), "{}", said(&output));
        let said = said(&output);
        for expected in ["fast CPUs  2\n", "mask       0x4\n", "look in the BIOS"] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        let most = |cpu: u32| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq");
            std::fs::read_to_string(folder.path().join(path)).unwrap()
        };
        assert_eq!((most(2).as_str(), most(1).as_str()), ("3600000", "2100000"));
    }
}
