//! What can be wrong with a limit as it is written.

use crate::limits;

/// Why a limit, a network or a block was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Not a number of requests and a time.
    #[error("`{text}` is no rate: write it as `100/s`, `600/m` or `20/10s`")]
    ConfigRate {
        /// What was written.
        text: String,
    },
    /// A rate whose time is nothing, or whose number is.
    #[error("`{text}` lets nothing through, or all: both numbers have to be above 0")]
    ConfigRateEmpty {
        /// What was written.
        text: String,
    },
    /// More than can be told apart.
    #[error("`{text}` is more than 8 million requests a second, which is no limit")]
    ConfigRateTooHigh {
        /// What was written.
        text: String,
    },
    /// A burst that takes too long to come back.
    #[error("with {burst} at once at `{text}`, what is used up takes more than a day to come back")]
    ConfigBurst {
        /// The rate.
        text: String,
        /// The burst.
        burst: u64,
    },
    /// Not an address or a network.
    #[error("`{text}` is no address or network: write it as `192.0.2.7` or `2001:db8::/32`")]
    Network {
        /// What was written.
        text: String,
    },
    /// The list of blocks is full.
    #[error("{} networks are blocked already, which is the most", limits::BLOCKS_MAX)]
    BlocksFull,
}
