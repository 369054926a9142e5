//! Bodies that wait to be written.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freshet_disk::budget::Use;
use freshet_disk::{Description, DiskSpec, Disks, Seat, Wish};
use freshet_store::{Arena, Body};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::{now_us, spec};

const BODY_BYTES: usize = 24 << 20;

/// Opens a store in this folder.
fn open(folder: &Path, seat: &Seat) -> Arc<Disks> {
    open_all(&[folder.join("store")], seat, 1 << 30, 1000.0)
}

/// Opens stores of so many bytes, that may be written over so often a day.
fn open_all(paths: &[PathBuf], seat: &Seat, bytes: u64, drive_writes: f64) -> Arc<Disks> {
    let spec = |path: &PathBuf| DiskSpec { drive_writes, ..spec(path, Some(bytes)) };
    Disks::open(paths.iter().map(spec).collect(), now_us, false, seat).unwrap()
}

fn drain(disks: &Disks) {
    for disk in disks.disks() {
        disk.drain().wait(Duration::from_secs(60)).result.unwrap();
    }
}

/// A body of so many bytes.
fn body(arena: &Arc<Arena>, bytes: usize) -> Arc<Body> {
    let body = Body::new(arena, Some(bytes as u64));
    let mut writer = body.writer(0, None);
    while writer.position() < bytes as u64 {
        let mut context = Context::from_waker(Waker::noop());
        let left = bytes - writer.position() as usize;
        let Poll::Ready(Ok(room)) = writer.poll_reserve(&mut context, left) else {
            panic!("no room")
        };
        let len = room.len().min(left);
        room[..len].fill(7);
        writer.commit(len);
    }
    writer.finish().unwrap();
    body
}

#[test]
fn each_thread_of_a_disk_takes_its_seat() {
    let folder = tempfile::tempdir().unwrap();
    let seated = Arc::new(Mutex::new(Vec::new()));
    let by_thread = Arc::clone(&seated);
    let seat: Seat = Arc::new(move |path: &Path| {
        by_thread.lock().unwrap().push((path.to_owned(), std::thread::current().id()));
    });
    let disks = open(folder.path(), &seat);
    drain(&disks);
    let seated = seated.lock().unwrap();
    let [(opens, opening), (writes, writing)] = &seated[..] else { panic!("{seated:?}") };
    assert!(opens == writes && *opens == folder.path().join("store"));
    assert_ne!(opening, writing);
}

#[test]
fn what_found_too_much_waiting_may_come_again_when_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let seat: Seat = Arc::new(|_: &Path| ());
    let disks = open(folder.path(), &seat);
    let arena = Arena::new(2 * BODY_BYTES as u64).unwrap();
    let body = body(&arena, BODY_BYTES);
    let shown = Use { hits: 10, was_seen: true };
    let wish = Wish {
        bytes: Some(BODY_BYTES as u64),
        lifetime: Duration::from_secs(3600),
        ..Wish::default()
    };
    let offer = |key: u128| {
        let description =
            Description { key, born: now_us(), expires_ms: u64::MAX, ..Description::default() };
        disks.offer(description, &body, shown, &wish)
    };
    // Sooner than any disk writes them.
    let before = disks.generation();
    let refused = (1..).find(|key| !offer(*key)).unwrap();
    drain(&disks);
    assert_ne!(disks.generation(), before, "it is not offered again while this is the same");
    assert!(offer(refused));
}

#[test]
fn what_has_no_known_length_leaves_of_the_write_budget_what_others_are_worth() {
    let folder = tempfile::tempdir().unwrap();
    let seat: Seat = Arc::new(|_: &Path| ());
    let disks = open_all(&[folder.path().join("store")], &seat, 64 << 20, 7.0);
    let fetched_again = Use { hits: 0, was_seen: true };
    let wish = |bytes| Wish { bytes, lifetime: Duration::from_secs(3600), ..Wish::default() };
    let mut endless = disks.stream(1, fetched_again, &wish(None)).unwrap();
    let refused = || disks.disks()[0].counts.refused_budget.value();
    while endless.push(&[7; 1 << 20]) {
        drain(&disks);
    }
    assert_eq!(refused(), 1, "it had what it is worth");
    assert!(endless.total() > 64 << 20, "the first filling is free: {}", endless.total());
    assert!(disks.stream(2, fetched_again, &wish(Some(1 << 20))).is_none());
    let wanted = Use { hits: 2, was_seen: true };
    assert!(disks.stream(3, wanted, &wish(Some(1 << 20))).is_some());
}

#[test]
fn stores_that_change_places_have_what_they_had() {
    const KEYS: std::ops::Range<u128> = 1..50;
    let hash = |key: u128| key.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let folder = tempfile::tempdir().unwrap();
    let seat: Seat = Arc::new(|_: &Path| ());
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    let open = || open_all(&paths, &seat, 32 << 20, 1000.0);
    let arena = Arena::new(4 << 20).unwrap();
    let wish = Wish { bytes: Some(1000), lifetime: Duration::from_secs(3600), ..Wish::default() };
    // The store that has each resource, where that is one.
    let holders = |disks: &Disks| -> Vec<_> {
        let holder = |key| match &disks.holders(key)[..] {
            [volume] => Some(volume.superblock().device),
            _ => None,
        };
        KEYS.map(|key| holder(hash(key))).collect()
    };
    let disks = open();
    for key in KEYS.map(hash) {
        let born = disks.born();
        let description = Description { key, born, expires_ms: u64::MAX, ..Description::default() };
        let shown = Use { hits: 2, was_seen: true };
        assert!(disks.offer(description, &body(&arena, 1000), shown, &wish));
    }
    drain(&disks);
    let before = holders(&disks);
    assert!(before.iter().all(Option::is_some) && before.iter().any(|one| *one != before[0]));
    drop(disks);
    let aside = folder.path().join("aside");
    std::fs::rename(&paths[0], &aside).unwrap();
    std::fs::rename(&paths[1], &paths[0]).unwrap();
    std::fs::rename(&aside, &paths[1]).unwrap();
    assert_eq!(holders(&open()), before);
}
