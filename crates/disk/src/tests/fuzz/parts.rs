//! Each structure by itself: what is read of it is bounded, and written again it is the same.

use super::{INPUT_BYTES_MAX, TEST_TIME, changed, sealing};
use crate::budget::Account;
use crate::checkpoint::{self, Header};
use crate::erasure::Progress;
use crate::geometry::{FormatOptions, Geometry};
use crate::journal::{self, Event};
use crate::notes::{self, Note};
use crate::purges::{Mark, Soft, Target};
use crate::record::{Kind, RecordHead};
use crate::segment::{self, Entry, footer_bytes};
use crate::superblock::{Superblock, Uuid};
use crate::table::{SegmentInfo, SegmentTable};
use bolero::check;

const DEVICE: Uuid = Uuid([7; 16]);

fn geometry() -> Geometry {
    Geometry::plan(16 << 20, FormatOptions::default()).expect("16 MiB will do")
}

/// Reads what an input makes of something written, as it is and with its checksums made right.
fn try_changed(written: &[u8], input: &[u8], seal: fn(&mut [u8]), check: impl Fn(&[u8])) {
    let mut bytes = changed(written, input);
    check(&bytes);
    seal(&mut bytes);
    check(&bytes);
}

#[test]
fn fuzz_superblock() {
    let written = Superblock {
        version: crate::limits::FORMAT_VERSION,
        device: DEVICE,
        set: Uuid([8; 16]),
        secret: [9; 16],
        geometry: geometry(),
    };
    let written = written.encode();
    check!().with_test_time(TEST_TIME).with_max_len(INPUT_BYTES_MAX).for_each(|input: &[u8]| {
        try_changed(&written, input, sealing::superblock, |bytes| {
            let Ok(read) = Superblock::parse(bytes) else { return };
            assert_eq!(Superblock::parse(&read.encode()).as_ref(), Ok(&read));
            check_geometry(&read.geometry);
        });
    });
}

/// Nothing is beyond the end of the device, and one thing is where the other is not.
fn check_geometry(geometry: &Geometry) {
    let last = geometry.segments - 1;
    let end = geometry.segment_at(last) + geometry.segment_bytes;
    assert!(end <= geometry.last_block_at(), "{geometry:?}");
    assert_eq!(geometry.segment_of(geometry.segment_at(last)), Some(last));
    assert_eq!(geometry.segment_of(end), None);
    assert!(geometry.lines_max() * 64 < geometry.checkpoint_bytes, "{geometry:?}");
    assert!(geometry.marks_bytes() <= geometry.checkpoint_bytes, "{geometry:?}");
    let journal = geometry.journal_at..geometry.journal_at + geometry.journal_bytes;
    let [first, second] = geometry.checkpoint_at;
    let mut places = [
        journal,
        first..first + geometry.checkpoint_bytes,
        second..second + geometry.checkpoint_bytes,
        geometry.segments_at..end,
    ];
    places.sort_by_key(|place| place.start);
    assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "{geometry:?}");
    assert!(places[0].start >= crate::limits::BLOCK_BYTES, "{geometry:?}");
}

#[test]
fn fuzz_segment() {
    let geometry = geometry();
    let entry = |at: u64| Entry {
        hash: at << 40,
        seq: at + 1,
        born: at,
        units_at: 8 + 9 * at as u32,
        units: 9,
        kind: 2,
        share: 1,
    };
    let entries: Vec<Entry> = (0..3).map(entry).collect();
    let (header, footer) = (segment::header(DEVICE, 5, 99, 1), segment::footer(&entries, 77));
    check!().with_test_time(TEST_TIME).with_max_len(INPUT_BYTES_MAX).for_each(|input: &[u8]| {
        try_changed(&header, input, sealing::segment_header, |bytes| {
            if let Some((seq, stream)) = segment::parse_header(bytes, DEVICE, 5) {
                let again = segment::header(DEVICE, 5, seq, stream);
                assert_eq!(segment::parse_header(&again, DEVICE, 5), Some((seq, stream)));
            }
        });
        try_changed(&footer, input, sealing::footer, |bytes| {
            let Some(read) = segment::parse_footer(bytes, 77, &geometry) else { return };
            assert_eq!(footer_bytes(read.len()), bytes.len() as u64);
            let units = geometry.segment_bytes / u64::from(geometry.unit_bytes);
            let end_of = |entry: &Entry| u64::from(entry.units_at) + u64::from(entry.units);
            assert!(read.iter().all(|entry| entry.units > 0 && end_of(entry) <= units));
            let again = segment::footer(&read, 77);
            assert_eq!(segment::parse_footer(&again, 77, &geometry), Some(read));
        });
    });
}

#[test]
fn fuzz_record() {
    let payload = [1; 9000];
    let head = RecordHead {
        kind: Kind::Head,
        segment_seq: 7,
        seq: 8,
        object: 9 << 70,
        key: 10 << 70,
        variant: 11,
        variant_kind: 0,
        born: 12,
        expires_ms: 13,
        total: payload.len() as u64,
        chunk: 0,
        chunk_bytes: 0,
        payload_bytes: payload.len() as u32,
        share: 14,
        is_paged: false,
        tags: [1, 2].into(),
        meta: [3; 20].into(),
        sums: payload.chunks(4096).map(crc32c::crc32c).collect(),
    };
    let mut written = Vec::new();
    head.write(&mut written);
    // A head may say that it is longer.
    written.resize(2 * crate::limits::BLOCK_BYTES as usize, 0);
    check!().with_test_time(TEST_TIME).with_max_len(INPUT_BYTES_MAX).for_each(|input: &[u8]| {
        try_changed(&written, input, sealing::record, |bytes| {
            let Ok(read) = RecordHead::parse(bytes) else { return };
            let mut again = Vec::new();
            read.write(&mut again);
            assert_eq!(again.len() as u64, read.payload_at());
            assert_eq!(RecordHead::parse(&again).as_ref(), Ok(&read));
            let is_whole = read.payload_bytes == head.payload_bytes && read.sums == head.sums;
            assert_eq!(is_whole, is_whole && read.verify(4096, 0, &payload));
        });
    });
}

#[test]
fn fuzz_journal() {
    let soft = Some(Soft { from_ms: 3, grace_ms: Some(4) });
    let erasing = Progress { since: 6, what: "one".into(), ..Progress::default() };
    let events = [
        Event::Purged(Mark { target: Target::Tag(1), seq: 2, soft }),
        Event::Noted(Note { seq: 5, bytes: [1; 50].into() }),
        Event::Opened { segment: 1, seq: 3 },
        Event::Erasing(erasing),
        Event::Sealed { segment: 1, seq: 3 },
    ];
    let mut journal = journal::Journal::new(DEVICE, geometry(), 9);
    for event in events {
        journal.add(event);
    }
    let (_, written) = journal.take().expect("there are events");
    check!().with_test_time(TEST_TIME).with_max_len(INPUT_BYTES_MAX).for_each(|input: &[u8]| {
        try_changed(&written, input, sealing::journal_block, |bytes| {
            let Some((number, events)) = journal::parse(bytes, DEVICE) else { return };
            let mut journal = journal::Journal::new(DEVICE, geometry(), number);
            for event in &events {
                journal.add(event.clone());
            }
            if let Some((_, again)) = journal.take() {
                let (_, read) = journal::parse(&again, DEVICE).expect("it was just written");
                assert!(events.starts_with(&read));
            }
        });
    });
}

#[test]
fn fuzz_checkpoint() {
    let geometry = geometry();
    let header = Header {
        lines: geometry.lines,
        seq: 5,
        journal: 6,
        formatted_ms: 7,
        is_clean: true,
        parts: 1,
        account: Account { filled_bytes: 1.0, daily_bytes: 2.0, at_ms: 3, written_bytes: 4 },
        erasure: Some(Progress { since: 8, what: "two".into(), ..Progress::default() }),
        ..Header::default()
    };
    let written = checkpoint::encode(&header, DEVICE);
    let mut table = SegmentTable::new(&geometry);
    table.change(1, |info| *info = SegmentInfo::opened(9));
    let mut tables = Vec::new();
    table.write(&mut tables);
    let mut noted = Vec::new();
    notes::write(&[Note { seq: 1, bytes: [2; 40].into() }], &mut noted);
    check!().with_test_time(TEST_TIME).with_max_len(INPUT_BYTES_MAX).for_each(|input: &[u8]| {
        try_changed(&written, input, sealing::checkpoint_header, |bytes| {
            let Some(read) = checkpoint::parse(bytes, DEVICE, &geometry) else { return };
            assert!((geometry.lines..=geometry.lines_max()).contains(&read.lines));
            let again = checkpoint::encode(&read, DEVICE);
            assert_eq!(checkpoint::parse(&again, DEVICE, &geometry), Some(read));
        });
        let _ = SegmentTable::parse(&changed(&tables, input), &geometry);
        let _ = notes::parse(&changed(&noted, input));
    });
}
