//! The rooms that do no I/O take time as an argument and open nothing.

use freshet_tidy::{code_of, expect_none, files, product_lines};

use crate::layers::SANS_IO;

/// Ways to read a clock or to touch the world.
const WORLDLY: [&str; 11] = [
    "Instant::now",
    "SystemTime::now",
    ".elapsed()",
    "thread::sleep",
    "thread::spawn",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "std::fs",
    "tokio::",
];

#[test]
fn rooms_without_io_read_no_clock_and_open_nothing() {
    let mut places = Vec::new();
    for file in &files() {
        if !file.room().is_some_and(|room| SANS_IO.contains(&room)) {
            continue;
        }
        for (number, line) in product_lines(file) {
            let code = code_of(line);
            if let Some(found) = WORLDLY.iter().find(|word| code.contains(**word)) {
                places.push(format!("{}:{number}: {found}", file.path));
            }
        }
    }
    expect_none(
        &places,
        "a crate that does no I/O reads a clock or touches the world",
        "Take the time as an argument (`now: UnixMillis`) and return what is to be done; the node \
         does it. Only then can a simulator run the same code.",
    );
}
