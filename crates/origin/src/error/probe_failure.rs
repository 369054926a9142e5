//! Why a probe was not good.

use super::OriginError;
use std::ops::RangeInclusive;
use std::time::Duration;
use thiserror::Error;

/// Why a probe was not good.
#[derive(Clone, Debug, Eq, PartialEq, Error)]
#[non_exhaustive]
pub enum ProbeFailure {
    /// No response.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// Another status than expected.
    #[error("the origin answered the probe with {got}, expected {} to {}", expected.start(), expected.end())]
    OriginStatus {
        /// The status.
        got: u16,
        /// The good ones.
        expected: RangeInclusive<u16>,
    },
    /// Not done in time.
    #[error("the origin did not answer the probe within {limit:?}")]
    OriginTimeout {
        /// The probe's timeout.
        limit: Duration,
    },
}
