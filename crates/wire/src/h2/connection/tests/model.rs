//! A connection against a list of streams that is searched.

use super::*;
use proptest::prelude::*;

/// Something that happens to a connection.
#[derive(Clone, Debug)]
enum Step {
    Ask(u8, bool),
    Queue(u8, usize),
    Finish(u8),
    Widen(u8, u32),
    FirstWindow(u32),
    Prioritize(u8, u8, bool),
    TakeBack(u8),
    Reset(u8),
    Send(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_u8..8, any::<bool>()).prop_map(|(urgency, incremental)| Step::Ask(urgency, incremental)),
        6 => (any::<u8>(), 1_usize..50_000).prop_map(|(at, bytes)| Step::Queue(at, bytes)),
        2 => any::<u8>().prop_map(Step::Finish),
        3 => (any::<u8>(), 1_u32..60_000).prop_map(|(at, bytes)| Step::Widen(at, bytes)),
        1 => (0_u32..100_000).prop_map(Step::FirstWindow),
        1 => (any::<u8>(), 0_u8..8, any::<bool>())
            .prop_map(|(at, urgency, incremental)| Step::Prioritize(at, urgency, incremental)),
        1 => any::<u8>().prop_map(Step::TakeBack),
        1 => any::<u8>().prop_map(Step::Reset),
        6 => (1_usize..8).prop_map(Step::Send),
    ];
    proptest::collection::vec(step, 1..120)
}

/// What a stream of the model is about.
#[derive(Debug)]
struct Model {
    priority: Priority,
    queued: usize,
    window: i64,
    finished: bool,
}

impl Model {
    fn can_send(&self) -> bool {
        self.queued > 0 && self.window > 0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Against a list of streams that is searched: windows are kept, nobody who can send waits for
    /// somebody less urgent, and whenever anybody can send, somebody does.
    #[test]
    fn windows_and_priorities_are_kept(steps in steps()) {
        let mut peer = Peer::new(Local { streams_max: 100, ..local() });
        let mut model: BTreeMap<u32, Model> = BTreeMap::new();
        let (mut next, mut first_window, mut window) = (1_u32, 65_535_i64, 65_535_i64);
        for step in steps {
            let pick = |at: u8, model: &BTreeMap<u32, Model>| {
                model.keys().nth(usize::from(at) % model.len().max(1)).copied()
            };
            match step {
                Step::Ask(urgency, incremental) if model.len() < 20 => {
                    let value = format!("u={urgency}, i=?{}", u8::from(incremental));
                    peer.get(next, &[("priority", &value)]);
                    peer.connection.respond(next, &ResponseHead::new(200), None, false);
                    let priority = Priority { urgency, incremental };
                    model.insert(next, Model { priority, queued: 0, window: first_window, finished: false });
                    next += 2;
                }
                Step::Queue(at, bytes) => if let Some(stream) = pick(at, &model) {
                    let one = model.get_mut(&stream).expect("it was picked");
                    if !one.finished {
                        one.queued += bytes;
                        prop_assert!(peer.connection.queue(stream, bytes));
                    }
                },
                Step::Finish(at) => if let Some(stream) = pick(at, &model) {
                    let one = model.get_mut(&stream).expect("it was picked");
                    if !one.finished {
                        one.finished = true;
                        peer.connection.finish(stream, None);
                        if one.queued == 0 {
                            model.remove(&stream);
                        }
                    }
                },
                Step::Widen(at, bytes) => {
                    if at % 3 == 0 {
                        window += i64::from(bytes);
                        peer.widen(0, bytes);
                    } else if let Some(stream) = pick(at, &model) {
                        model.get_mut(&stream).expect("it was picked").window += i64::from(bytes);
                        peer.widen(stream, bytes);
                    }
                }
                Step::FirstWindow(bytes) => {
                    for one in model.values_mut() {
                        one.window += i64::from(bytes) - first_window;
                    }
                    first_window = bytes.into();
                    let payload = [&[0, 4][..], &bytes.to_be_bytes()].concat();
                    prop_assert!(peer.send(kind::SETTINGS, 0, 0, &payload).is_ok());
                }
                Step::Prioritize(at, urgency, incremental) => if let Some(stream) = pick(at, &model) {
                    let value = format!("u={urgency}, i=?{}", u8::from(incremental));
                    let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
                    prop_assert!(peer.send(kind::PRIORITY_UPDATE, 0, 0, &payload).is_ok());
                    model.get_mut(&stream).expect("it was picked").priority = Priority { urgency, incremental };
                },
                Step::TakeBack(at) => if let Some(stream) = pick(at, &model) {
                    let one = model.get_mut(&stream).expect("it was picked");
                    one.finished &= one.queued == 0;
                    let bytes = std::mem::take(&mut one.queued);
                    prop_assert_eq!(peer.connection.unqueue(stream), bytes);
                },
                Step::Reset(at) => if let Some(stream) = pick(at, &model) {
                    model.remove(&stream);
                    prop_assert!(peer.send(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]).is_ok());
                    prop_assert!(!peer.connection.queue(stream, 1));
                },
                Step::Send(count) => for _ in 0..count {
                    let able = model.values().filter(|one| one.can_send());
                    let most_urgent = able.map(|one| one.priority.urgency).min();
                    let frame = peer.connection.next_data(10_000);
                    let Some(urgency) = most_urgent.filter(|_| window > 0) else {
                        prop_assert_eq!(frame, None);
                        break;
                    };
                    let frame = frame.expect("somebody can send");
                    let whole = model
                        .iter()
                        .find(|(_, one)| one.can_send() && one.priority == Priority { urgency, incremental: false })
                        .map(|(stream, _)| *stream);
                    let one = model.get_mut(&frame.stream).expect("it is open");
                    prop_assert_eq!(one.priority.urgency, urgency);
                    prop_assert!(one.priority.incremental || whole == Some(frame.stream));
                    let room = (one.window.min(window) as usize).min(10_000).min(one.queued);
                    prop_assert_eq!(frame.bytes, room);
                    one.queued -= room;
                    one.window -= room as i64;
                    window -= room as i64;
                    prop_assert_eq!(frame.left, one.queued);
                    prop_assert_eq!(frame.ends, one.finished && one.queued == 0);
                    if frame.ends {
                        model.remove(&frame.stream);
                    }
                },
                Step::Ask(..) => {}
            }
            peer.connection.control().clear();
            prop_assert_eq!(peer.connection.streams(), model.len());
            let queued = model.values().map(|one| one.queued).sum::<usize>();
            prop_assert_eq!(peer.connection.queued_of_all(), queued);
            for (stream, one) in &model {
                prop_assert_eq!(peer.connection.queued(*stream), one.queued);
            }
        }
    }
}
