//! One table per error enum: variant, status and sentence stand on one line.

/// Declares an error enum whose variants carry nothing: a peer's bytes are not repeated in logs and
/// `Proxy-Status`, and comparing and copying an error costs nothing.
macro_rules! error_table {
    ($(#[$attribute:meta])* $name:ident { $($variant:ident = $status:literal, $sentence:literal;)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
        #[non_exhaustive]
        pub enum $name {
            $(
                #[doc = concat!($sentence, ".")]
                #[error($sentence)]
                $variant,
            )+
        }

        impl $name {
            /// Every error of this table, for documentation and counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// What was wrong, as a phrase in ASCII: fit for the `detail` of `Proxy-Status` (RFC
            /// 9209 §2.1.5) and for a log.
            pub fn reason(self) -> &'static str {
                match self {
                    $(Self::$variant => $sentence,)+
                }
            }

            /// The status code to answer the client with.
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)+
                }
            }
        }
    };
}

pub(crate) use error_table;
