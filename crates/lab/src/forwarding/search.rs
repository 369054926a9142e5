//! The highest rate without loss, by halving (RFC 2544, section 26.1).

/// What came of a trial.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// All arrived.
    Whole,
    /// Some did not.
    Lost,
    /// The generator did not keep to its plan: the trial says nothing.
    Void,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The highest rate at which all arrived; none where no trial was without loss.
    pub rate: Option<f64>,
    /// Whether the generator could not go higher, so that the device may.
    pub is_generators: bool,
}

/// Below this share of the highest rate nothing is searched any more.
const LEAST: f64 = 1e-4;
/// How often a rate is tried again when the trial was void.
const VOID_MAX: u32 = 4;

/// Halves between nothing and `most` until the rest is less than `resolution` of the rate; `trial` is
/// called with a rate.
///
/// # Errors
/// Those of a trial.
pub fn highest<E>(
    most: f64,
    resolution: f64,
    mut trial: impl FnMut(f64) -> Result<Verdict, E>,
) -> Result<Found, E> {
    let (mut whole, mut lost) = (0.0_f64, most);
    let mut is_generators = false;
    let mut rate = most;
    while lost - whole > resolution * lost && lost > LEAST * most {
        let mut verdict = Verdict::Void;
        for _ in 0..VOID_MAX {
            verdict = trial(rate)?;
            if verdict != Verdict::Void {
                break;
            }
        }
        if verdict == Verdict::Whole {
            whole = rate;
        } else {
            lost = rate;
            is_generators = verdict == Verdict::Void;
        }
        rate = (whole + lost) / 2.0;
    }
    // What was asked for at the most is no limit of anybody.
    let is_most = whole >= most;
    Ok(Found { rate: (whole > 0.0).then_some(whole), is_generators: is_generators || is_most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(most: f64, device: f64, generator: f64) -> (Found, u32) {
        let mut trials = 0;
        let found = highest(most, 0.01, |rate| {
            trials += 1;
            Ok::<_, ()>(if rate > generator {
                Verdict::Void
            } else if rate > device {
                Verdict::Lost
            } else {
                Verdict::Whole
            })
        });
        (found.unwrap(), trials)
    }

    #[test]
    fn the_devices_limit_is_found_within_the_resolution() {
        for device in [0.01, 0.5, 1.3, 3.9] {
            let (found, trials) = found(4.0, device, 9.0);
            let rate = found.rate.unwrap();
            assert!(rate <= device && rate > device * 0.98, "{device}: {rate}");
            assert!(!found.is_generators && trials < 20, "{trials}");
        }
    }

    #[test]
    fn a_generator_that_is_late_is_no_limit_of_the_device() {
        let (found, _) = found(4.0, 9.0, 1.5);
        assert!(found.is_generators);
        assert!(found.rate.unwrap() > 1.47);
        let (found, trials) = self::found(4.0, 9.0, 9.0);
        assert_eq!((found, trials), (Found { rate: Some(4.0), is_generators: true }, 1));
    }

    #[test]
    fn a_device_that_always_loses_has_no_rate() {
        let found = highest(4.0, 0.01, |_| Ok::<_, ()>(Verdict::Lost)).unwrap();
        assert_eq!(found, Found { rate: None, is_generators: false });
    }
}
