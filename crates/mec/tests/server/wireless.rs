//! What the example of a source tells of a machine's access points, as its programs say it.

use crate::support::Running;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const IW: &str = r#"#!/bin/sh
case "$*" in
dev) printf 'phy#0\n\tInterface wlan1\n\t\taddr 02:00:00:00:00:09\n\t\ttype managed\n\tInterface wlan0\n\t\tifindex 3\n\t\taddr 02:00:00:00:00:01\n\t\tssid caf\303\251 type AP\n\t\ttype AP\n\t\tchannel 36 (5180 MHz), width: 20 MHz\n' ;;
'dev wlan0 station dump') printf 'Station 02:00:00:00:01:0A (on wlan0)\n\tinactive time:\t30 ms\n\tsignal:  \t-45 [-45, -50] dBm\n\tsignal avg:\t-44 dBm\n\ttx bitrate:\t86.7 MBit/s VHT-MCS 8 short GI VHT-NSS 1\n\trx bitrate:\t6.0 MBit/s\n\tassociated:\tyes\nStation 02:00:00:00:01:0b (on wlan0)\n\tassociated:\tno\n' ;;
'dev wlan0 survey dump') printf 'Survey data from wlan0\n\tfrequency:\t\t\t5200 MHz\nSurvey data from wlan0\n\tfrequency:\t\t\t5180 MHz [in use]\n\tchannel active time:\t\t1000 ms\n\tchannel busy time:\t\t250 ms\n' ;;
*) exit 161 ;;
esac
"#;
const IP: &str = "#!/bin/sh\nprintf '10.45.0.2 dev wlan0 lladdr 02:00:00:00:01:0a REACHABLE\\nfe80::1 dev eth0 FAILED\\n'\n";

#[test]
fn access_points_of_a_machine_are_told_of_as_its_programs_say() {
    let client = |name: &str, scope: &str| {
        format!(
            "[client.{name}]\nscopes = [\"{scope}\"]\n\
             secret_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n"
        )
    };
    let running =
        Running::start(&(client("source", "mec_platform:wlan") + &client("reader", "wai")));
    let programs = running.folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for (name, text) in [("iw", IW), ("ip", IP)] {
        let path = programs.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let tell = |secret: &str| {
        let path = std::env::var("PATH").unwrap();
        Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/mec/wlan"))
            .args(["--once", &format!("http://{}/", running.address)])
            .env("PATH", format!("{}:{path}", programs.display()))
            .envs([("MEC_CLIENT", "source"), ("MEC_SECRET", secret)])
            .output()
            .unwrap()
    };
    let refused = tell("wrong");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("401"), "{said}");
    let told = tell("secret");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let token = running.token("reader");
    let read = |what: &str| {
        let answer = running.ask("GET", &format!("/wai/v2/queries/{what}"), &token, "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let mut found = answer.json()[0].clone();
        found.as_object_mut().unwrap().remove("timeStamp").unwrap();
        found
    };
    let point = json!({"bssid": "02:00:00:00:00:01", "ssid": ["café type AP"]});
    assert_eq!(
        read("ap/ap_information"),
        json!({
            "apId": point, "channel": 36,
            "bssLoad": {"staCount": 1, "channelUtilization": 63, "availAdmCap": 0},
        })
    );
    assert_eq!(
        read("sta/sta_information"),
        json!({
            "staId": {"macId": "02:00:00:00:01:0A", "ipAddress": ["10.45.0.2"]}, "channel": 36,
            "apAssociated": point, "rssi": {"rssi": -45},
            "staDataRate": {"staLastDataDownlinkRate": 86_700, "staLastDataUplinkRate": 6_000},
        })
    );
}
