//! What a small object takes of the machine's memory, and what is charged for it.

use super::{BODY_BYTES, cache, store};

/// The parts of the index grow by doubling: with so many objects they are three quarters full.
const OBJECTS: usize = 86_000;

/// What an object may take besides its body, its head as it is sent, and what its key says.
const BESIDES_BYTES_MAX: u64 = 600;

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second figure is what is resident") * 4096
}

#[test]
fn a_small_object_takes_little_besides_body_and_head() {
    let cache = cache();
    // What does not grow with the objects is there after as many.
    for number in 0..OBJECTS {
        store(&cache, number);
    }
    let (before, charged_before) = (resident_bytes(), cache.arena().stats());
    let (mut heads, mut keys) = (0, 0);
    for number in OBJECTS..2 * OBJECTS {
        let (head, key) = store(&cache, number);
        heads += head;
        keys += key;
    }
    let objects = OBJECTS as u64;
    let taken = (resident_bytes() - before) / objects;
    let stats = cache.arena().stats();
    let charged = stats.metadata_bytes + stats.committed_bytes
        - charged_before.metadata_bytes
        - charged_before.committed_bytes;
    let charged = charged / objects;
    let (head, key) = (heads / objects, keys / objects);
    let besides = taken - BODY_BYTES as u64 - head - key;
    println!(
        "{taken} B in memory, {charged} charged, for {BODY_BYTES} of body, {head} of head and \
         {key} of key: {besides} besides"
    );
    assert!(besides <= BESIDES_BYTES_MAX, "{besides} B");
    // More is charged for what comes with an eviction, and as allocators differ.
    assert!((taken..taken + 400).contains(&charged), "{taken} B are in memory");
}
