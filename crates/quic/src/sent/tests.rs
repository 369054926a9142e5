//! Packets one by one, and runs of them against a list.

use super::*;
use crate::ecn::Counts;
use crate::frame::{Frame, write_ack};
use crate::ranges::Ranges;
use crate::varint::Reader;
use proptest::prelude::*;

fn acknowledge(sent: &mut SentPackets, numbers: &[u64]) -> Result<Vec<u64>, NeverSent> {
    let (mut ranges, mut out) = (Ranges::new(), Vec::new());
    for number in numbers {
        ranges.insert(*number..number + 1);
    }
    write_ack(&ranges, &Counts::default(), 0, 1000, &mut out);
    let Ok(Frame::Ack(ack)) = Frame::read(&mut Reader::new(&out)) else { panic!("an ACK") };
    let mut seen = Vec::new();
    sent.acknowledge(&ack, |gone, carried| {
        assert_eq!(carried.next(), Some(Carried::MaxStreamData { stream: gone.last }));
        assert_eq!((carried.next(), gone.packets), (None, 1));
        seen.push(gone.last);
    })?;
    Ok(seen)
}

fn sent(count: u64, skipped: u64) -> SentPackets {
    let mut sent = SentPackets::default();
    for number in 0..count {
        if number == skipped {
            sent.skip();
            continue;
        }
        sent.carry(Carried::MaxStreamData { stream: number });
        let how = How { is_eliciting: true, ..How::default() };
        sent.push_run(Duration::from_millis(number), 1, 100, how);
    }
    sent
}

#[test]
fn each_packet_is_acknowledged_once_and_forgotten() {
    let mut sent = sent(10, 99);
    assert_eq!(acknowledge(&mut sent, &[1, 2, 5]), Ok(vec![5, 2, 1]));
    assert_eq!(acknowledge(&mut sent, &[0, 1, 2, 5]), Ok(vec![0]));
    assert_eq!((sent.first(), sent.bytes(), sent.eliciting), (3, 600, 6));
    assert_eq!(acknowledge(&mut sent, &[0, 1, 3, 4, 6, 7, 8, 9]), Ok(vec![9, 8, 7, 6, 4, 3]));
    assert_eq!((sent.span(), sent.carried.len(), sent.bytes()), (0, 0, 0));
    assert_eq!(acknowledge(&mut sent, &[10]), Err(NeverSent));
}

/// A packet, as a list of all of them has it.
#[derive(Clone, Copy, Debug)]
struct Known {
    sent: Duration,
    is_flying: bool,
    is_skipped: bool,
    offset: u64,
}

const LEN: u64 = 1000;
const BYTES: u16 = 1100;

/// Takes packets that are gone out of the list, which has to have them.
fn leave(known: &mut [Known], gone: &Gone, carried: &mut dyn Iterator<Item = Carried>) {
    assert_eq!(gone.bytes, gone.packets * u64::from(BYTES));
    let first = gone.last + 1 - gone.packets;
    let stream = carried.next();
    let offset = known[first as usize].offset;
    let len = (gone.packets * LEN) as u32;
    assert_eq!(stream, Some(Carried::Stream { stream: 4, offset, len, ends: false }));
    assert_eq!(carried.next(), None);
    for packet in &mut known[first as usize..=gone.last as usize] {
        assert!(packet.is_flying && packet.sent == gone.sent);
        packet.is_flying = false;
    }
}

proptest! {
    /// Runs against a list of packets: what is acknowledged, lost and in flight.
    #[test]
    fn runs_are_so_many_packets(
        steps in proptest::collection::vec((0..6_u8, 1..=64_u8, any::<u64>()), 1..60),
    ) {
        let (mut sent, mut known, mut now) = (SentPackets::default(), Vec::new(), Duration::ZERO);
        let delay = Duration::from_millis(20);
        let mut largest = None;
        for (step, packets, bits) in steps {
            now += Duration::from_millis(bits % 8);
            let next = known.len() as u64;
            match step {
                0 => {
                    sent.skip();
                    known.push(Known {
                        sent: now,
                        is_flying: false,
                        is_skipped: true,
                        offset: next * LEN,
                    });
                }
                1 | 2 => {
                    let offset = next * LEN;
                    let len = LEN as u32;
                    sent.carry(Carried::Stream { stream: 4, offset, len, ends: false });
                    let how = How { is_eliciting: true, ..How::default() };
                    sent.push_run(now, packets, BYTES, how);
                    known.extend((0..u64::from(packets)).map(|at| Known {
                        sent: now,
                        is_flying: true,
                        is_skipped: false,
                        offset: offset + at * LEN,
                    }));
                }
                3 | 4 => {
                    // Some of the last.
                    let back = u64::from(packets) * 2;
                    let mut ranges = Ranges::new();
                    for number in next.saturating_sub(back)..next {
                        let is_one = bits >> (number % 61) & 3 != 0;
                        if is_one && !known[number as usize].is_skipped {
                            ranges.insert(number..number + 1);
                        }
                    }
                    let mut out = Vec::new();
                    if !write_ack(&ranges, &Counts::default(), 0, 1000, &mut out) {
                        continue;
                    }
                    let Ok(Frame::Ack(ack)) = Frame::read(&mut Reader::new(&out)) else {
                        panic!("an ACK")
                    };
                    let mut above = u64::MAX;
                    sent.acknowledge(&ack, |gone, carried| {
                        assert!(gone.last < above, "from the highest");
                        above = gone.last;
                        leave(&mut known, gone, carried);
                    })
                    .expect("they were sent");
                    largest = largest.max(Some(ack.largest));
                    let mut all = ranges.iter().cloned().flatten();
                    prop_assert!(all.all(|number| !known[number as usize].is_flying));
                }
                _ => {
                    let before = known.clone();
                    let mut below = None;
                    let overtaking = 3 + bits % 16;
                    let next = sent.detect_lost(now, delay, overtaking, |gone, carried| {
                        assert!(Some(gone.last) > below, "from the lowest");
                        below = Some(gone.last);
                        leave(&mut known, gone, carried);
                    });
                    let Some(largest) = largest else { continue };
                    let mut soon = None;
                    for (number, packet) in before.iter().enumerate().take(largest as usize + 1) {
                        let is_late = packet.sent + delay <= now || number as u64 + overtaking <= largest;
                        prop_assert_eq!(known[number].is_flying, packet.is_flying && !is_late);
                        if packet.is_flying && !is_late {
                            soon = soon.or(Some(packet.sent + delay));
                        }
                    }
                    prop_assert_eq!(next, soon);
                }
            }
            let flying = known.iter().filter(|packet| packet.is_flying);
            prop_assert_eq!(sent.eliciting, flying.clone().count());
            prop_assert_eq!(sent.bytes(), flying.count() as u64 * u64::from(BYTES));
            let mut oldest = Vec::new();
            sent.oldest(2, |carried| oldest.push(carried));
            let flying = known.iter().filter(|packet| packet.is_flying).take(2);
            let flying = flying.map(|packet| packet.offset);
            let oldest = oldest.iter().map(|carried| match carried {
                Carried::Stream { offset, len: 1000, .. } => *offset,
                other => panic!("{other:?}"),
            });
            prop_assert!(flying.eq(oldest));
        }
    }
}

#[test]
fn who_acknowledges_what_was_left_out_is_seen() {
    for skipped in [0, 4, 8] {
        let mut all = sent(10, skipped);
        let numbers: Vec<u64> = (0..10).collect();
        assert_eq!(acknowledge(&mut all, &numbers), Err(NeverSent));
        let mut all = sent(10, skipped);
        let below: Vec<u64> = (0..skipped).collect();
        if !below.is_empty() {
            acknowledge(&mut all, &below).expect("they were sent");
        }
        assert_eq!(acknowledge(&mut all, &[skipped]), Err(NeverSent), "{skipped}");
        let above: Vec<u64> = (skipped + 1..10).collect();
        acknowledge(&mut all, &above).expect("they were sent");
        assert_eq!(all.span(), 0);
    }
}

#[test]
fn packets_are_lost_by_number_or_by_time() {
    let mut sent = sent(10, 2);
    acknowledge(&mut sent, &[5]).expect("it was sent");
    let mut lost = Vec::new();
    let (now, delay) = (Duration::from_millis(6), Duration::from_millis(5));
    let next = sent.detect_lost(now, delay, 3, |gone, _| lost.push(gone.last));
    assert_eq!((lost, next), (vec![0, 1], Some(Duration::from_millis(8))));
    let mut lost = Vec::new();
    let later = Duration::from_millis(9);
    let next = sent.detect_lost(later, delay, 3, |gone, _| lost.push(gone.last));
    assert_eq!((lost, next), (vec![3, 4], None));
    assert_eq!(sent.first(), 6);
}
