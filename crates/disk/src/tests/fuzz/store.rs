//! A whole store of which some bytes were changed. It is opened, read and written on; where the changes have no
//! right checksums, what it gives is what was written.

use super::{INPUT_BYTES_MAX, next_change, sealing};
use crate::geometry::{FormatOptions, Geometry};
use crate::limits::BLOCK_BYTES;
use crate::recovery::scan;
use crate::segment::{TRAILER_BYTES, footer_bytes, parse_trailer};
use crate::superblock::Uuid;
use crate::tests::world::{World, content, read};
use bolero::check;
use freshet_device::Device;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// Each input opens a store twice.
const TEST_TIME: Duration = Duration::from_secs(3);
const DEVICE_BYTES: u64 = 4 << 20;
const RESOURCES: u64 = 24;
const OPTIONS: FormatOptions = FormatOptions {
    object_bytes: Some(16 << 10),
    segment_bytes: Some(128 << 10),
    record_bytes_max: Some(32 << 10),
    check_bytes: Some(4096),
};

/// A part of the device under a checksum of its own.
struct Part {
    at: u64,
    bytes: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Sealed(fn(&mut [u8])),
    /// The data of a checkpoint: index, segments, marks and notes; and where its header is.
    Checkpoint(u64),
}

/// A store with all there is on one: objects of one record and of many, purges, notes, a renewal, a checkpoint
/// and what came after it.
fn written() -> World {
    let mut world = World::new(DEVICE_BYTES, 1, OPTIONS);
    for resource in 0..RESOURCES {
        let len = [300, 5_000, 31_000, 70_000][resource as usize % 4];
        world.insert(resource, len, resource % 3).expect("there is room");
        if resource == RESOURCES / 2 {
            assert!(world.purge_resource(1) && world.note(2));
            world.opened().writer.drain().expect("the drive works");
            assert!(world.renew(0).is_some());
            world.opened().writer.checkpoint(false).expect("the drive works");
            assert!(world.purge_resource(3) && world.note(5));
        }
    }
    world.opened().writer.flush().expect("the drive works");
    world.device.process_end();
    world
}

fn parts_of(world: &mut World) -> Vec<Part> {
    let device = Arc::clone(&world.device);
    let volume = Arc::clone(&world.opened().volume);
    let (geometry, id) = (*volume.geometry(), volume.superblock().device);
    let block = BLOCK_BYTES as usize;
    let sealed = |at, bytes, seal: fn(&mut [u8])| Part { at, bytes, what: What::Sealed(seal) };
    let mut parts = vec![
        sealed(0, block, sealing::superblock),
        sealed(geometry.last_block_at(), block, sealing::superblock),
    ];
    let journal = (geometry.journal_at..geometry.journal_at + geometry.journal_bytes)
        .step_by(block)
        .filter(|at| is_written(&*device, *at));
    parts.extend(journal.map(|at| sealed(at, block, sealing::journal_block)));
    for at in geometry.checkpoint_at {
        parts.push(sealed(at, block, sealing::checkpoint_header));
        parts.push(Part { at: at + BLOCK_BYTES, bytes: block, what: What::Checkpoint(at) });
    }
    for segment in 0..geometry.segments {
        parts.extend(parts_of_segment(&*device, &geometry, id, segment));
    }
    parts
}

fn is_written(device: &dyn Device, at: u64) -> bool {
    let block = device.read(at, BLOCK_BYTES as usize).expect("the drive works");
    block.iter().any(|byte| *byte != 0)
}

fn parts_of_segment(device: &dyn Device, geometry: &Geometry, id: Uuid, segment: u32) -> Vec<Part> {
    let at = geometry.segment_at(segment);
    let block = BLOCK_BYTES as usize;
    let header = device.read(at, block).expect("the drive works");
    let Some((seq, _)) = crate::segment::parse_header(&header, id, segment) else {
        return Vec::new();
    };
    let sealed = |at, bytes, seal: fn(&mut [u8])| Part { at, bytes, what: What::Sealed(seal) };
    let mut parts = vec![sealed(at, block, sealing::segment_header)];
    for entry in scan(device, geometry, segment, seq) {
        let record_at = at + u64::from(entry.units_at) * u64::from(geometry.unit_bytes);
        parts.push(sealed(record_at, 512, sealing::record));
    }
    let last_at = at + geometry.segment_bytes - BLOCK_BYTES;
    let last = device.read(last_at, block).expect("the drive works");
    if let Some(entries) = parse_trailer(&last[block - TRAILER_BYTES..], seq, geometry) {
        let bytes = footer_bytes(entries) as usize;
        parts.push(sealed(at + geometry.segment_bytes - bytes as u64, bytes, sealing::footer));
    }
    parts
}

/// Bytes of a part, which may begin and end within a block.
fn change(device: &dyn Device, at: u64, bytes: usize, change: impl FnOnce(&mut [u8])) {
    let start = at & !(BLOCK_BYTES - 1);
    let skip = (at - start) as usize;
    let mut block = device.read(start, (skip + bytes).next_multiple_of(BLOCK_BYTES as usize));
    let block = block.as_mut().expect("the drive works");
    change(&mut block[skip..skip + bytes]);
    let changed = freshet_device::block::Block::from_bytes(block);
    device.write(start, changed).expect("the drive works");
}

/// Makes the changes of an input; whether some of them have right checksums.
fn apply(device: &dyn Device, parts: &[Part], mut input: &[u8]) -> bool {
    let mut any_sealed = false;
    while let Some((choice, rest)) = input.split_first() {
        input = rest;
        let (is_sealed, which) = (choice & 1 == 1, usize::from(choice >> 1) % parts.len());
        let Part { at, bytes, what } = &parts[which];
        let Some((place, new)) = next_change(&mut input, *bytes) else { break };
        change(device, *at, *bytes, |old| {
            old[place..place + new.len()].copy_from_slice(new);
            if let (true, What::Sealed(seal)) = (is_sealed, what) {
                seal(old);
            }
        });
        if let (true, What::Checkpoint(header)) = (is_sealed, what) {
            seal_checkpoint(device, *header);
        }
        any_sealed |= is_sealed;
    }
    any_sealed
}

/// A checkpoint of one part, as that of so small a store is.
fn seal_checkpoint(device: &dyn Device, header_at: u64) {
    let header = device.read(header_at, BLOCK_BYTES as usize).expect("the drive works");
    let word = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let (lines, marks, notes_bytes) = (u64::from(word(24)), word(108), word(120));
    let segments =
        crate::superblock::Superblock::read(device).map_or(0, |read| read.geometry.segments);
    let len =
        lines * 64 + u64::from(segments) * 32 + u64::from(marks) * 40 + u64::from(notes_bytes);
    let len = len.next_multiple_of(BLOCK_BYTES);
    let data_at = header_at + BLOCK_BYTES;
    if len == 0 || data_at + len >= DEVICE_BYTES - BLOCK_BYTES {
        return;
    }
    let data = device.read(data_at, len as usize).expect("the drive works");
    let sum = crc32c::crc32c(&data).to_le_bytes();
    change(device, data_at + len, 4, |sums| sums.copy_from_slice(&sum));
    change(device, header_at, BLOCK_BYTES as usize, |header| {
        let at = sealing::CHECKPOINT_PARTS_SUM_AT;
        header[at..at + 4].copy_from_slice(&crc32c::crc32c(&sum).to_le_bytes());
        sealing::checkpoint_header(header);
    });
}

/// Looks everything up and reads it; with `must_be_right`, it is as it was inserted.
fn look_at_all(world: &mut World, must_be_right: bool) {
    for resource in 0..RESOURCES + 8 {
        for whole in [true, false] {
            let Some(stored) = world.find(resource, whole) else { continue };
            let bytes = read(&stored, 0, stored.total.min(1 << 20), &world.arena);
            if !must_be_right {
                continue;
            }
            let number = stored.meta.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
            let known = world.inserted.iter().find(|one| one.number == number);
            let known = known.expect("only what was inserted is found");
            assert_eq!((known.resource, known.len), (resource, stored.total));
            if let Some(Ok(bytes)) = bytes {
                assert!(bytes == content(number, known.len), "wrong bytes");
            }
        }
    }
}

fn try_store(kept: &AssertUnwindSafe<World>, parts: &[Part], input: &[u8]) {
    let mut world = kept.beside(Arc::new(kept.device.prefix(DEVICE_BYTES)));
    let must_be_right = !apply(&*world.device, parts, input);
    world.device.process_end();
    for _ in 0..2 {
        if world.open().is_err() {
            return;
        }
        look_at_all(&mut world, must_be_right);
        // More than a segment.
        for resource in RESOURCES..RESOURCES + 8 {
            let _ = world.insert(resource, 20_000, 1);
        }
        let _ = world.purge_resource(RESOURCES);
        let _ = world.opened().writer.stop();
    }
}

#[test]
fn fuzz_store() {
    let mut kept = written();
    let parts = parts_of(&mut kept);
    kept.opened = None;
    // Each input has a copy of its own.
    let kept = AssertUnwindSafe(kept);
    check!().with_test_time(TEST_TIME).with_max_len(INPUT_BYTES_MAX).for_each(|input: &[u8]| {
        try_store(&kept, &parts, input);
    });
}
