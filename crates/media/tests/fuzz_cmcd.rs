//! Random words of players.

use bolero::check;
use freshet_media::cmcd::{BYTES_MAX, Cmcd, decoded, read};
use std::time::Duration;

/// As the other targets.
const TEST_TIME: Duration = Duration::from_millis(1000);
const INPUT_BYTES_MAX: usize = 512;

const WORDS: [&str; 32] = [
    "br=",
    "bl=",
    "sid=",
    "nor=",
    "bs",
    "su",
    "st=ll",
    "sf=h",
    "ot=v",
    "v=2",
    "ts=",
    "e=ps",
    ",",
    ";",
    "(",
    ")",
    "\"",
    "\\",
    "=",
    "?1",
    "?0",
    "-1",
    "3200",
    "99999999999999999999",
    "..%2F",
    "%22",
    "%",
    "%ff",
    " ",
    "é",
    "x-y",
    "1.5",
];

#[test]
fn fuzz_cmcd() {
    check!().with_test_time(TEST_TIME).with_max_len(INPUT_BYTES_MAX).for_each(|input: &[u8]| {
        let picked = input.iter().filter_map(|byte| WORDS.get(usize::from(*byte) % WORDS.len()));
        look(&picked.copied().collect::<String>());
        look(&String::from_utf8_lossy(input));
    });
}

/// What is read is of the text, and the text alone decides it.
fn look(text: &str) {
    let mut once = Cmcd::default();
    read(text, &mut once);
    let mut twice = once;
    read(text, &mut twice);
    assert_eq!(once, twice);
    for part in [once.session, once.content, once.object, once.next, once.event] {
        assert!(part.is_none_or(|part| !part.is_empty() && text.contains(part)));
    }
    let mut room = [0; BYTES_MAX];
    assert!(decoded(text, &mut room).is_none_or(|decoded| decoded.len() <= BYTES_MAX));
}
