use super::*;
use crate::entry::Digest;

type Node = Member<&'static str>;

/// The place of an entry of the usual log.
fn at(sequence: u64) -> Place {
    Place { sequence, digest: Digest(sequence) }
}

fn entry(sequence: u64) -> Entry<&'static str> {
    Entry { place: at(sequence), before: Some(at(sequence - 1).digest), changes: "x" }
}

/// The answer of a log that has all entries up to `last`.
fn has(last: u64) -> Answer {
    Answer { first: 1, last: at(last), heard_ms: 0 }
}

fn actions(member: &mut Node) -> Vec<Action<&'static str>> {
    std::iter::from_fn(|| member.next_action()).collect()
}

/// Asks, and is answered at the same time; what else came of it.
fn ask(member: &mut Node, answer: Answer, now_ms: u64) -> Vec<Action<&'static str>> {
    member.tick(now_ms);
    let mut all = actions(member);
    let at = all.iter().rposition(|action| matches!(action, Action::Ask { .. }));
    let Action::Ask { question } = all.remove(at.expect("it is due")) else { unreachable!() };
    member.answered(question, answer, now_ms);
    all.extend(actions(member));
    all
}

/// Carries out all that is to be; the sequences of it.
fn apply(member: &mut Node, all: &[Action<&'static str>], now_ms: u64) -> Vec<u64> {
    let turns = all.iter().filter_map(|action| match action {
        Action::Apply { entry, turn } => Some((entry.place.sequence, *turn)),
        Action::Distrust { at, turn, .. } => Some((at.sequence, *turn)),
        _ => None,
    });
    turns.inspect(|(_, turn)| member.applied(*turn, now_ms)).map(|(sequence, _)| sequence).collect()
}

/// A member that has carried out all up to `sequence` and serves, at 0.
fn serving(sequence: u64) -> Node {
    let mut member = Node::new(Settings::default(), Some(at(sequence)), 0);
    let all = ask(&mut member, has(sequence), 0);
    assert_eq!(all, [Action::Fence(Fence::Raised), Action::Fence(Fence::Lifted)]);
    member
}

#[test]
fn a_lease_is_counted_from_the_question_and_ends_without_another() {
    let mut member = Node::new(Settings::default(), Some(at(3)), 0);
    member.tick(0);
    assert_eq!(member.next_action(), Some(Action::Fence(Fence::Raised)));
    assert_eq!(member.next_action(), Some(Action::Ask { question: 0 }));
    // The answer was under way for four seconds.
    member.answered(0, has(3), 4_000);
    assert_eq!(actions(&mut member), [Action::Fence(Fence::Lifted)]);
    member.tick(4_499);
    assert_eq!((member.fence(), member.lease_left_ms(4_499)), (Fence::Lifted, 1));
    member.tick(4_500);
    assert_eq!((member.fence(), member.lease_left_ms(4_500)), (Fence::Raised, 0));
    // Entries that arrive renew nothing: they may be old.
    member.pushed(entry(4), 4_600);
    let all = actions(&mut member);
    assert_eq!(apply(&mut member, &all, 4_600), [4]);
    assert_eq!(member.fence(), Fence::Raised);
}

#[test]
fn a_leader_that_is_cut_off_from_the_other_servers_renews_nothing() {
    let mut member = serving(3);
    let heard = |heard_ms| Answer { heard_ms, ..has(3) };
    ask(&mut member, heard(700), 1_000);
    assert_eq!(member.lease_left_ms(1_000), 3_800);
    for ago_ms in 1..=3 {
        ask(&mut member, heard(700 + ago_ms * 1_000), 1_000 + ago_ms * 1_000);
    }
    member.tick(4_799);
    assert_eq!(member.fence(), Fence::Lifted);
    member.tick(4_800);
    assert_eq!(member.fence(), Fence::Raised);
    // Nor does one that begins meanwhile believe it.
    let mut young = Node::new(Settings::default(), Some(at(3)), 0);
    ask(&mut young, heard(700), 0);
    assert_eq!(young.lease_left_ms(0), 3_800);
}

#[test]
fn an_answer_that_is_too_late_or_unknown_renews_nothing() {
    let mut member = Node::new(Settings::default(), Some(at(3)), 0);
    member.tick(0);
    member.answered(0, has(3), 5_000);
    assert_eq!(member.fence(), Fence::Raised);
    member.answered(0, has(3), 5_000);
    member.answered(77, has(3), 5_000);
    assert_eq!(member.fence(), Fence::Raised);
}

#[test]
fn there_is_no_lease_before_all_that_the_log_had_is_carried_out() {
    let mut member = serving(3);
    let all = ask(&mut member, has(5), 4_000);
    assert!(all.is_empty(), "{all:?}");
    member.pushed(entry(4), 4_050);
    member.pushed(entry(5), 4_050);
    let all = actions(&mut member);
    let [Action::Apply { turn: first, .. }, Action::Apply { turn: second, .. }] = all[..] else {
        panic!("{all:?}");
    };
    member.applied(first, 4_499);
    member.tick(4_500);
    assert_eq!(member.fence(), Fence::Raised);
    member.applied(second, 4_600);
    assert_eq!(member.fence(), Fence::Lifted);
    assert_eq!(member.place(), Some(at(5)));
}

#[test]
fn entries_are_given_in_order_and_once() {
    let mut member = serving(0);
    for sequence in [2, 3, 1, 1, 2, 4] {
        member.pushed(entry(sequence), 10);
    }
    let all = actions(&mut member);
    assert_eq!(apply(&mut member, &all, 20), [1, 2, 3, 4]);
    let confirmed = actions(&mut member);
    assert_eq!(confirmed.last(), Some(&Action::Confirm(at(4))));
}

#[test]
fn what_does_not_come_is_read_after_a_moment_and_again_if_need_be() {
    let mut member = serving(0);
    member.pushed(entry(3), 10);
    assert_eq!(actions(&mut member), []);
    assert_eq!(member.deadline_ms(), 110);
    member.tick(110);
    assert_eq!(actions(&mut member), [Action::Read { from: 1, reading: 0 }]);
    // Nothing comes of it for two seconds, while it asks as always.
    member.tick(2_110);
    let all = actions(&mut member);
    assert!(all.contains(&Action::Read { from: 1, reading: 1 }), "{all:?}");
    member.read(0, vec![entry(1)], 2_120);
    assert_eq!(actions(&mut member), []);
    member.read(1, vec![entry(1), entry(2)], 2_130);
    let all = actions(&mut member);
    assert_eq!(apply(&mut member, &all, 2_140), [1, 2, 3]);
}

#[test]
fn a_node_that_was_away_reads_what_it_missed_before_it_serves() {
    let mut member = Node::new(Settings::default(), Some(at(3)), 0);
    let all = ask(&mut member, has(2_000), 0);
    assert_eq!(all, [Action::Fence(Fence::Raised)]);
    let (mut now_ms, mut done) = (100, 3);
    while member.fence() == Fence::Raised {
        member.tick(now_ms);
        for action in actions(&mut member) {
            match action {
                Action::Read { from, reading } => {
                    assert_eq!(from, done + 1);
                    let entries = (from..from + 500).map(entry).collect();
                    member.read(reading, entries, now_ms);
                }
                Action::Apply { entry, turn } => {
                    done = entry.place.sequence;
                    member.applied(turn, now_ms);
                }
                _ => {}
            }
        }
        now_ms += 1;
        assert!(now_ms < 2_000, "it is at {done}");
    }
    assert!(done >= 2_000);
}

#[test]
fn a_log_that_forgot_what_a_node_lacks_makes_it_distrust_all_it_has() {
    let mut member = Node::new(Settings::default(), Some(at(3)), 0);
    let answer = Answer { first: 5, last: at(9), heard_ms: 0 };
    let all = ask(&mut member, answer, 0);
    let place = Action::Distrust { at: at(9), has_lost: false, turn: 0 };
    assert_eq!(all, [Action::Fence(Fence::Raised), place]);
    // Nothing is answered with, and nobody told, before it is done.
    assert_eq!((member.fence(), member.place()), (Fence::Raised, None));
    member.applied(0, 10);
    assert_eq!(actions(&mut member), [Action::Confirm(at(9)), Action::Fence(Fence::Lifted)]);
    // One that lacks nothing does not care.
    let mut member = serving(9);
    let answer = Answer { first: 10, last: at(9), heard_ms: 0 };
    assert_eq!(ask(&mut member, answer, 1_000), []);
}

#[test]
fn a_node_that_knows_no_place_distrusts_and_goes_on() {
    let mut member = Node::new(Settings::default(), None, 0);
    assert_eq!(member.place(), None);
    let all = ask(&mut member, has(4), 0);
    assert!(all.contains(&Action::Distrust { at: at(4), has_lost: false, turn: 0 }), "{all:?}");
    assert_eq!(apply(&mut member, &all, 10), [4]);
    assert_eq!((member.fence(), member.place()), (Fence::Lifted, Some(at(4))));
}

#[test]
fn a_log_that_lost_its_end_is_found_out() {
    let mut member = serving(5);
    let all = ask(&mut member, has(4), 1_000);
    let distrust = |at| Action::Distrust { at, has_lost: true, turn: 0 };
    // The fence is up until it is done.
    assert_eq!(all, [Action::Fence(Fence::Raised), distrust(at(4))]);
    // As long as before, and another.
    let mut member = serving(5);
    let other = Place { sequence: 5, digest: Digest(99) };
    let all = ask(&mut member, Answer { first: 1, last: other, heard_ms: 0 }, 1_000);
    assert!(all.contains(&distrust(other)), "{all:?}");
    // Longer than before by now, and another.
    let mut member = serving(5);
    let next = Entry { place: at(6), before: Some(Digest(99)), changes: "x" };
    member.pushed(next, 1_000);
    assert_eq!(actions(&mut member), [Action::Fence(Fence::Raised)]);
    assert_eq!(member.place(), None);
    let all = ask(&mut member, has(6), 1_000);
    assert!(all.contains(&distrust(at(6))), "{all:?}");
    assert_eq!(apply(&mut member, &all, 1_010), [6]);
    assert_eq!(member.fence(), Fence::Lifted);
}

#[test]
fn a_loss_of_what_the_node_never_got_does_not_hold_it_up() {
    let mut member = serving(5);
    assert_eq!(ask(&mut member, has(9), 1_000), []);
    // The log loses two, and the node gets the others.
    assert_eq!(ask(&mut member, has(7), 2_000), [Action::Read { from: 6, reading: 0 }]);
    member.read(0, vec![entry(6), entry(7)], 2_100);
    let all = actions(&mut member);
    assert_eq!(apply(&mut member, &all, 2_110), [6, 7]);
    member.tick(6_499);
    assert_eq!((member.fence(), member.place()), (Fence::Lifted, Some(at(7))));
    assert!(!actions(&mut member).iter().any(|action| matches!(action, Action::Read { .. })));
}

#[test]
fn an_answer_from_before_an_entry_is_no_loss() {
    let mut member = serving(5);
    member.tick(1_000);
    let Some(Action::Ask { question }) = member.next_action() else { panic!("it is due") };
    // The log answers, then gets an entry, which arrives first.
    member.pushed(entry(6), 1_010);
    member.answered(question, has(5), 1_020);
    let all = actions(&mut member);
    assert_eq!(apply(&mut member, &all, 1_030), [6]);
    assert!(!all.iter().any(|action| matches!(action, Action::Distrust { .. })), "{all:?}");
}

#[test]
fn what_was_under_way_when_the_history_changed_counts_no_more() {
    let mut member = serving(5);
    member.pushed(entry(6), 900);
    let all = actions(&mut member);
    let [Action::Apply { turn, .. }] = all[..] else { panic!("{all:?}") };
    let other = Place { sequence: 6, digest: Digest(99) };
    let all = ask(&mut member, Answer { first: 1, last: other, heard_ms: 0 }, 1_000);
    member.applied(turn, 1_010);
    assert_eq!((member.fence(), member.place()), (Fence::Raised, None));
    apply(&mut member, &all, 1_020);
    assert_eq!((member.fence(), member.place()), (Fence::Lifted, Some(other)));
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut member = serving(0);
    for sequence in 2..10_000 {
        member.pushed(entry(sequence), 10);
    }
    assert_eq!(member.ahead.len(), AHEAD_MAX);
    for sequence in 1..10_000 {
        member.pushed(entry(sequence), 10);
    }
    assert_eq!(member.applying.len(), APPLYING_MAX);
    for second in 1..100 {
        member.tick(second * 1_000);
    }
    assert!(member.asked.len() <= ASKED_MAX && member.ends.len() <= ASKED_MAX);
    // And it goes on from there.
    let all = actions(&mut member);
    let given = apply(&mut member, &all, 100_000);
    assert_eq!(given, (1..=APPLYING_MAX as u64).collect::<Vec<_>>());
    let all = actions(&mut member);
    assert!(all.iter().any(|action| matches!(action, Action::Apply { .. } | Action::Read { .. })));
}
