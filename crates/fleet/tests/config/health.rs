//! What counts as worse.

use freshet_fleet::config::{Band, Counts};

#[test]
fn what_becomes_worse_is_told_and_little_tells_nothing() {
    let counts = |requests, errors, hits| Counts { requests, errors, hits };
    let band = Band::default();
    let before = counts(1000, 10, 900);
    assert_eq!(band.judge(before, counts(99, 99, 0)), Ok(()));
    assert_eq!(band.judge(before, counts(100, 3, 90)), Ok(()));
    let why = band.judge(before, counts(100, 4, 90)).unwrap_err();
    assert_eq!(why, "4.0 % of 100 responses were errors (5xx), 1.0 % before");
    let why = band.judge(before, counts(200, 2, 100)).unwrap_err();
    assert_eq!(why, "50.0 % of 200 requests were hits, 90.0 % before");
    let none = Counts::default();
    assert_eq!(band.judge(none, counts(200, 2, 0)), Ok(()), "there was nothing to be hit");
    assert!(band.judge(none, counts(200, 9, 0)).is_err());
    assert_eq!(counts(5, 1, 1).since(counts(9, 0, 1)), counts(0, 1, 0));
}
