//! Who watches what: few channels have most of the viewers, as in life.

use clap::ValueEnum;
use freshet_lab::origin;
use freshet_lab::programme::{Kind, Programme};
use freshet_lab::viewers::{self, Format, Viewing};

/// Of how many viewers one watches a title on demand; the others watch live.
const ON_DEMAND_ONE_IN: u32 = 10;

/// Entries of an audience, about: enough to tell the popularity of some hundred programmes apart.
const ENTRIES: f64 = 4000.0;

/// The quality that viewers choose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(super) enum Quality {
    /// Each viewer another one: all eleven objects of a channel are asked for.
    Any,
    /// The lowest, to have many viewers on a small machine.
    Lowest,
    /// The highest, as players on a fast network do.
    #[default]
    Highest,
}

impl From<Quality> for viewers::Quality {
    fn from(quality: Quality) -> Self {
        match quality {
            Quality::Any => Self::Any,
            Quality::Lowest => Self::Lowest,
            Quality::Highest => Self::Highest,
        }
    }
}

/// The audience of what an origin offers: live and on demand in a fixed proportion, within each the
/// popularity of the n-th programme 1/n of the first one's (Zipf), and both formats alike.
pub(super) fn of(offer: &origin::Settings) -> Vec<Viewing> {
    let on_demand = if offer.channels == 0 { 1.0 } else { 1.0 / f64::from(ON_DEMAND_ONE_IN) };
    let mut audience = Vec::new();
    for (kind, count, share) in
        [(Kind::Live, offer.channels, 1.0 - on_demand), (Kind::OnDemand, offer.titles, on_demand)]
    {
        let harmonic: f64 = (1..=count).map(|rank| 1.0 / f64::from(rank)).sum();
        for number in 1..=count {
            let programme = Programme { kind, number };
            let copies = (ENTRIES / 2.0 * share / (f64::from(number) * harmonic)).round();
            for _ in 0..(copies as usize).max(1) {
                audience.extend([Format::Hls, Format::Dash].map(|f| Viewing::of(programme, f)));
            }
        }
    }
    audience
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(audience: &[Viewing], part: &str) -> f64 {
        let matching = audience.iter().filter(|viewing| viewing.path.contains(part)).count();
        matching as f64 / audience.len() as f64
    }

    #[test]
    fn nine_in_ten_watch_live_and_the_first_channel_has_most() {
        let audience = of(&origin::Settings::default());
        assert!((share(&audience, "channel-") - 0.9).abs() < 0.01);
        assert!(
            (share(&audience, "channel-1/") / share(&audience, "channel-2/") - 2.0).abs() < 0.05
        );
        assert!((share(&audience, ".mpd") - 0.5).abs() < 0.001);
        assert!(share(&audience, "vod-12/") > 0.0);
    }

    #[test]
    fn without_channels_all_watch_titles() {
        let audience = of(&origin::Settings { channels: 0, ..origin::Settings::default() });
        assert!((share(&audience, "vod-") - 1.0).abs() < f64::EPSILON);
    }
}
