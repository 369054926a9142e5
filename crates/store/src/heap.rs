//! The heap of the process in huge pages.
//!
//! What describes a million small objects is half a gigabyte of pieces of some hundred bytes, and a hit looks at
//! several of them that lie anywhere in it. In pages of 4 KiB each look costs a walk through page tables
//! that are in no cache of the processor either, about as long as the look itself. Allocators can ask for
//! huge pages everywhere (`thp:always` of jemalloc), but then the kernel also fills 2 MiB of which one page is used,
//! and brings back what the allocator gave away. So here it is the other way round: every so often is looked
//! which 2 MiB are in use as good as whole, and only those become huge pages. They take a 31st of memory more at most,
//! and what the allocator gives back of one later stays with the kernel.

use crate::idle::Idle;
use crate::limits::{
    FRAME_BYTES, FRAME_PAGES, HEAP_CHANGE_BYTES_MIN, HEAP_IDLE, HEAP_PAGES_MIN, HEAP_PAUSE,
    HEAP_STEP_PAUSE, PAGE_BYTES,
};
use std::collections::HashSet;
use std::io;
use std::time::Duration;

/// What the kernel was told of huge pages for all of the machine.
const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// madvise(2); the libc crate has it for some C libraries only.
const MADV_COLLAPSE: libc::c_int = 25;

/// Has what is in use of the heap in huge pages from now on, on a thread that takes hardly any time from others.
/// Nothing is done where huge pages are forbidden, or by a kernel before Linux 6.1.
///
/// # Errors
/// There is no thread for it.
pub fn use_huge_pages() -> io::Result<Idle> {
    // What there is before anything is stored is little.
    let resident_bytes = resident_bytes().unwrap_or_default();
    let mut heap = Heap { resident_bytes, ..Heap::default() };
    Idle::start("heap", move || heap.step())
}

/// What is known of the heap.
#[derive(Default)]
struct Heap {
    /// Frames, by their addresses, that were made huge pages.
    huge: HashSet<usize>,
    /// Frames to be looked at next.
    next: Vec<usize>,
    /// How many of them were as good as full, and how many of these became huge pages.
    tried: usize,
    made: usize,
    /// What the process had of memory when the heap was looked at last, and for how long that is so.
    resident_bytes: u64,
    waited: Duration,
}

/// Adjacent memory that the allocator of the process may have.
#[derive(Debug, Eq, PartialEq)]
struct Stretch {
    start: usize,
    end: usize,
    huge_bytes: u64,
}

impl Heap {
    /// Makes the next frame that is in use a huge page, or looks for more; returns for how long to rest. `None` where
    /// there is nothing to do here.
    fn step(&mut self) -> Option<Duration> {
        while let Some(frame) = self.next.pop() {
            if pages_in_use(frame) < HEAP_PAGES_MIN {
                continue;
            }
            self.tried += 1;
            if make_huge(frame) {
                self.made += 1;
                self.huge.insert(frame);
            }
            return Some(HEAP_STEP_PAUSE);
        }
        if std::fs::read_to_string(SETTING).ok()?.contains("[never]") {
            return None;
        }
        if !self.is_due(resident_bytes()?) {
            return Some(HEAP_PAUSE);
        }
        let is_vain = self.tried > 0 && self.made == 0;
        (self.tried, self.made) = (0, 0);
        self.look(&stretches(&std::fs::read_to_string("/proc/self/smaps").ok()?));
        Some(if is_vain { HEAP_IDLE } else { HEAP_STEP_PAUSE })
    }

    /// Whether it is time for a look, where the process has so much memory.
    fn is_due(&mut self, resident_bytes: u64) -> bool {
        let is_as_before = resident_bytes.abs_diff(self.resident_bytes) < HEAP_CHANGE_BYTES_MIN;
        if is_as_before && self.waited < HEAP_IDLE {
            self.waited += HEAP_PAUSE;
            return false;
        }
        (self.resident_bytes, self.waited) = (resident_bytes, Duration::ZERO);
        true
    }

    /// Learns what the heap is now: what is huge stays so unless a part of it was given back.
    fn look(&mut self, stretches: &[Stretch]) {
        let before = std::mem::take(&mut self.huge);
        for stretch in stretches {
            let still: Vec<_> = stretch.frames().filter(|frame| before.contains(frame)).collect();
            let still_bytes = still.len() as u64 * FRAME_BYTES;
            if stretch.huge_bytes >= still_bytes - still_bytes / 8 {
                self.huge.extend(still);
            }
            let huge = &self.huge;
            self.next.extend(stretch.frames().filter(|frame| !huge.contains(frame)));
        }
    }
}

impl Stretch {
    /// Addresses of the frames that are wholly in it.
    fn frames(&self) -> impl Iterator<Item = usize> + use<> {
        let frame_bytes = FRAME_BYTES as usize;
        let first = self.start.next_multiple_of(frame_bytes);
        (first..self.end).step_by(frame_bytes).filter({
            let end = self.end;
            move |frame| end - frame >= frame_bytes
        })
    }
}

/// What the allocator may have of all that is mapped, as `/proc/self/smaps` lists it (proc_pid_smaps(5)): private and
/// anonymous, and nobody has said of what size its pages are to be.
fn stretches(smaps: &str) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut next: Option<Stretch> = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("AnonHugePages:") => {
                let kilobytes = words.next().and_then(|text| text.parse::<u64>().ok());
                if let (Some(next), Some(kilobytes)) = (&mut next, kilobytes) {
                    next.huge_bytes = kilobytes << 10;
                }
            }
            // The last line of each.
            Some("VmFlags:") => {
                let is_advised = words.any(|flag| matches!(flag, "hg" | "nh"));
                found.extend(next.take().filter(|_| !is_advised));
            }
            Some(range) if !range.ends_with(':') => next = of_heap(range, words),
            _ => {}
        }
    }
    found
}

/// The stretch that a first line is of, where it may be of the heap.
fn of_heap<'a>(range: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Stretch> {
    let (start, end) = range.split_once('-')?;
    let at = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (at(start)?, at(end)?);
    let is_private = words.next()? == "rw-p";
    // Offset and device are zero, as is the inode, of what is in no file.
    let is_anonymous = words.nth(2)? == "0";
    (is_private && is_anonymous).then_some(Stretch { start, end, huge_bytes: 0 })
}

/// Memory of the process, by proc_pid_statm(5): cheaper to ask for than what is where.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()? * PAGE_BYTES)
}

/// How many pages of a frame are there.
fn pages_in_use(frame: usize) -> usize {
    let mut pages = [0_u8; FRAME_PAGES as usize];
    let at = std::ptr::without_provenance_mut(frame);
    // SAFETY: mincore(2) looks at no contents, takes any address, and writes a byte for each page.
    let found = unsafe { libc::mincore(at, FRAME_BYTES as usize, pages.as_mut_ptr()) };
    if found == 0 { pages.iter().filter(|page| **page & 1 == 1).count() } else { 0 }
}

/// Has the kernel put the pages of a frame together to a huge one; false where it does not.
fn make_huge(frame: usize) -> bool {
    let at = std::ptr::without_provenance_mut(frame);
    // SAFETY: this advice moves pages and changes no contents; whatever has come to this address meanwhile stays as
    // it is.
    unsafe { libc::madvise(at, FRAME_BYTES as usize, MADV_COLLAPSE) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn what_is_advised_shared_or_of_a_file_is_no_heap() {
        let smaps = "\
55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac sd
7f0000000000-7f0000a00000 rw-p 00000000 00:00 0 
Rss:               10240 kB
AnonHugePages:      4096 kB
VmFlags: rd wr mr mw me ac sd
7f1000000000-7f1000a00000 rw-p 00000000 00:00 0 
AnonHugePages:     10240 kB
VmFlags: rd wr mr mw me ac sd hg
7f2000000000-7f2000a00000 r--p 00000000 fe:00 3381                       /usr/lib/libc.so.6
VmFlags: rd mr mw me sd
7f3000000000-7f3000a00000 rw-p 00000000 fe:00 3381                       /usr/lib/libc.so.6
VmFlags: rd wr mr mw me ac sd
7f4000000000-7f4000a00000 rw-s 00000000 00:01 0                          /dev/zero (deleted)
VmFlags: rd wr sh mr mw me ms sd
7f5000000000-7f5000a00000 rw-p 00000000 00:00 0 
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac sd nh
";
        let stretch = |start, end, huge_bytes| Stretch { start, end, huge_bytes };
        let expected = [
            stretch(0x55d0_c000_0000, 0x55d0_c002_1000, 0),
            stretch(0x7f00_0000_0000, 0x7f00_00a0_0000, 4 << 20),
        ];
        assert_eq!(stretches(smaps), expected);
    }

    #[test]
    fn frames_are_whole_and_looked_at_again_once_a_part_was_given_back() {
        let stretch = |huge_bytes| Stretch { start: 0x1f_f000, end: 0xa0_1000, huge_bytes };
        let all = [0x20_0000, 0x40_0000, 0x60_0000, 0x80_0000];
        assert_eq!(stretch(0).frames().collect::<Vec<_>>(), all);
        let mut heap = Heap { huge: all[..3].iter().copied().collect(), ..Heap::default() };
        heap.look(&[stretch(6 << 20)]);
        assert_eq!(heap.next, [all[3]]);
        heap.next.clear();
        heap.look(&[stretch(4 << 20)]);
        assert_eq!(heap.next, all);
        assert!(heap.huge.is_empty());
    }

    /// Memory as an allocator has it, of which every so-manieth page is used.
    fn used(every: usize) -> (Memory, usize) {
        const BYTES: usize = 32 << 20;
        let memory = Memory::reserve(BYTES, true).expect("address space is free");
        for page in (0..BYTES).step_by(every * PAGE_BYTES as usize) {
            // SAFETY: it is inside of what was reserved for this test.
            unsafe { memory.start().add(page).write((page >> 12) as u8 | 1) };
        }
        let first = memory.start().addr().get().next_multiple_of(FRAME_BYTES as usize);
        (memory, first)
    }

    #[test]
    fn a_heap_that_stays_as_it_is_is_looked_at_seldom() {
        let mut heap = Heap::default();
        assert!(!heap.is_due(HEAP_CHANGE_BYTES_MIN - 1));
        assert!(heap.is_due(HEAP_CHANGE_BYTES_MIN));
        assert!(!heap.is_due(2 * HEAP_CHANGE_BYTES_MIN - 1));
        assert!(heap.is_due(0), "memory was given back");
        let looks = (0..=HEAP_IDLE.as_secs() / HEAP_PAUSE.as_secs()).map(|_| heap.is_due(0));
        assert_eq!(looks.collect::<Vec<_>>().iter().position(|is_due| *is_due), Some(120));
    }

    fn is_allowed() -> bool {
        std::fs::read_to_string(SETTING).is_ok_and(|text| !text.contains("[never]"))
    }

    #[test]
    fn what_is_in_use_becomes_huge_pages_and_stays_as_it_is() {
        let ((dense, of_dense), (sparse, of_sparse)) = (used(1), used(2));
        let before = pages_in_use(of_sparse);
        let mut heap = Heap { waited: HEAP_IDLE, ..Heap::default() };
        if !is_allowed() || !make_huge(of_dense) {
            assert!(!is_allowed() || heap.step().is_some());
            return;
        }
        while heap.step() != Some(HEAP_PAUSE) || !heap.huge.contains(&of_dense) {}
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("proc is mounted");
        let found =
            stretches(&smaps).into_iter().find(|one| (one.start..one.end).contains(&of_dense));
        let huge_bytes = found.expect("it is mapped").huge_bytes;
        assert!(huge_bytes >= 28 << 20, "{huge_bytes}");
        assert_eq!(pages_in_use(of_sparse), before);
        // Where huge pages are for all, they come at first touch.
        assert_eq!(heap.huge.contains(&of_sparse), before == FRAME_PAGES as usize);
        for memory in [dense, sparse] {
            for page in (0..32 << 20).step_by(2 * PAGE_BYTES as usize) {
                // SAFETY: it is inside of what was reserved for this test, and was written before.
                let byte = unsafe { memory.start().add(page).read() };
                assert_eq!(byte, (page >> 12) as u8 | 1);
            }
        }
    }
}
