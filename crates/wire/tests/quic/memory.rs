//! What a connection holds that nobody asks anything of.

use crate::errors::numbers;
use crate::raw::Raw;
use crate::requests::get;
use crate::skip;
use freshet_quic::limits::{CLOSED_MAX, REST_AFTER};
use freshet_wire::h3;
use std::process::{Command, Stdio};

/// Bytes of the engine's: keys, streams of control, ids, numbers of packets. A node's task, its client and
/// what the kernel holds are besides.
const IDLE_BYTES_MAX: u64 = 5_600;

/// Set for the program under valgrind: how many connections it leaves behind.
const CONNECTIONS: &str = "FRESHET_IDLE_CONNECTIONS";

/// A connection that has answered a request, and whose client knows that it has.
fn idle() -> h3::Connection<Vec<u8>> {
    let mut raw = Raw::greedy();
    for (stream, purpose) in [(6, 2), (10, 3)] {
        raw.stream(stream, 0, &[purpose], false);
    }
    raw.server.quic.forget_handshake();
    raw.stream(0, 0, &get(), true);
    raw.pass(REST_AFTER + std::time::Duration::from_secs(1));
    assert!(raw.requests == 1 && raw.server.quic.bytes_in_flight() == 0);
    raw.server
}

#[test]
fn an_idle_connection_holds_little() {
    if let Ok(count) = std::env::var(CONNECTIONS) {
        let count: usize = count.parse().expect("a number");
        return (0..count).for_each(|_| std::mem::forget(idle()));
    }
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip::missing("valgrind");
    }
    let [few, many] = [20, 60].map(left_behind);
    let bytes = (many - few) / 40;
    let own = size_of::<h3::Connection<Vec<u8>>>();
    eprintln!("an idle connection holds {bytes} bytes, and is {own}");
    assert!(bytes <= IDLE_BYTES_MAX, "an idle connection holds {bytes} bytes");
}

#[test]
fn a_connection_that_is_closed_keeps_nothing_of_streams() {
    let mut raw = Raw::connected();
    // The last byte of a window, behind all of the rest.
    raw.frames(&numbers(0xc, &[0, (1 << 18) - 1], b"a"));
    raw.server.quic.forget_streams();
    assert!(raw.server.quic.streams() > 0, "they are of use while it is open");
    raw.frames(&numbers(0x1d, &[0x100, 0], &[]));
    raw.server.quic.forget_streams();
    let quic = &raw.server.quic;
    assert_eq!((quic.streams(), quic.kept(), quic.is_over()), (0, 0, false));
    raw.pass(std::time::Duration::from_secs(1));
    assert!(raw.server.quic.is_over());
}

#[test]
fn a_client_that_acknowledges_late_is_not_remembered_for_longer() {
    let mut raw = Raw::connected();
    // Something is said to it, and it answers 20 s later.
    raw.server.shut_down();
    assert_eq!(raw.take(), 1);
    raw.now += std::time::Duration::from_secs(20);
    assert!(raw.acknowledge_oldest(1));
    raw.frames(&numbers(0x1d, &[0x100, 0], &[]));
    assert!(raw.server.quic.closed().is_some() && !raw.server.quic.is_over());
    raw.pass(CLOSED_MAX);
    assert!(raw.server.quic.is_over());
}

/// Bytes that this test leaves behind when it runs again under valgrind, with so many connections.
fn left_behind(connections: u64) -> u64 {
    let thread = std::thread::current();
    let test = thread.name().expect("tests run in threads named after them");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new("valgrind")
        .arg("--tool=dhat")
        .arg(format!("--dhat-out-file={}", folder.path().join("dhat.out").display()))
        .arg(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env(CONNECTIONS, connections.to_string())
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind failed: {said}");
    let line = said.lines().find_map(|line| line.split_once("At t-end:"));
    let bytes = line.and_then(|(_, end)| end.split_whitespace().next());
    let bytes = bytes.and_then(|bytes| bytes.replace(',', "").parse().ok());
    bytes.unwrap_or_else(|| panic!("valgrind does not say what was left: {said}"))
}
