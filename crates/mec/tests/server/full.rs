//! A disk that is full, or becomes so.

use crate::small_disk;
use crate::support::{Running, config};
use freshet_mec::serve::{bind, read};
use std::fs::File;
use std::io::Write;
use std::path::Path;

const NAME: &str = "full::a_full_disk_loses_nothing_and_the_start_says_what_to_do";
const ALL_BYTES: u64 = 4 << 20;
const SERVICES: &str = "/mec_service_mgmt/v1/applications/camera/services";
/// With an address that stays when the port is another.
const PACKAGES: &str = "url = \"http://mec.example\"\n[packages]\nunsigned = true\n";

/// Writes to a file until nothing more fits.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for bytes in [64 << 10, 4 << 10, 1] {
        while file.write_all(&vec![0; bytes]).is_ok() {}
    }
}

fn refused(folder: &Path, more: &str) -> String {
    bind(read(&config(folder, more)).unwrap()).unwrap_err()
}

fn offer(running: &Running, token: &str, number: usize) -> u16 {
    let body = format!(
        r#"{{"serName": "s{number}", "version": "1", "state": "ACTIVE", "serializer": "JSON", "transportId": "rest"}}"#
    );
    running.ask("POST", SERVICES, token, &body).status
}

fn offered(running: &Running, token: &str) -> usize {
    running.ask("GET", SERVICES, token, "").json().as_array().unwrap().len()
}

/// An app with more rules than what is left of a block of the disk takes.
fn another_app() -> String {
    let rule = |third: u8| {
        let addresses: Vec<String> =
            (0..64).map(|last| format!("\"192.0.{third}.{last}/32\"")).collect();
        format!(
            "[[app.other.traffic_rules]]\ntrafficRuleId = \"r{third}\"\nfilterType = \"FLOW\"\n\
             priority = {third}\ntrafficFilter = [{{ dstAddress = [{}] }}]\naction = \"DROP\"\n\
             state = \"INACTIVE\"\n",
            addresses.join(", ")
        )
    };
    (2..8).map(rule).collect()
}

#[test]
fn a_full_disk_loses_nothing_and_the_start_says_what_to_do() {
    let Some(place) = small_disk::of(NAME, ALL_BYTES) else { return };
    let place = Path::new(&place);
    let fillers = place.join("others");
    let says_what_to_do = |said: &str, path: &str| {
        assert!(said.contains(path) && said.contains("the disk is full"), "{said}");
        assert!(said.contains("make room"), "{said}");
    };
    let folder = tempfile::tempdir_in(place).unwrap();
    // The first start of all.
    std::fs::create_dir(folder.path().join("state")).unwrap();
    fill(&fillers);
    says_what_to_do(&refused(folder.path(), PACKAGES), "state/token.key");
    std::fs::remove_file(&fillers).unwrap();
    let running = Running::start_in(folder, PACKAGES);
    let token = running.token("camera");
    assert_eq!(offer(&running, &token, 0), 201);
    // While it runs: what cannot be written down is refused, what was is there.
    fill(&fillers);
    let taken = (1..).take_while(|number| offer(&running, &token, *number) == 201).count();
    assert_eq!(offer(&running, &token, 0), 503);
    assert_eq!(offered(&running, &token), 1 + taken);
    // A start with what there was needs no more of the disk.
    let running = running.again(PACKAGES);
    let token = running.token("camera");
    assert_eq!(offered(&running, &token), 1 + taken);
    assert_eq!(offer(&running, &token, 0), 503);
    std::fs::remove_file(&fillers).unwrap();
    assert_eq!(offer(&running, &token, 0), 201);
    // A start with another configuration has something to write.
    let folder = running.end();
    let more = format!("{PACKAGES}{}", another_app());
    fill(&fillers);
    says_what_to_do(&refused(folder.path(), &more), "state/journal");
    std::fs::remove_file(&fillers).unwrap();
    // What a package left that was on its way is no reason not to start.
    let left = folder.path().join("state/packages/one.incoming");
    std::fs::create_dir_all(&left).unwrap();
    fill(&left.join("archive"));
    let running = Running::start_in(folder, &more);
    assert_eq!(offered(&running, &running.token("camera")), 2 + taken);
    assert!(!left.exists());
}
