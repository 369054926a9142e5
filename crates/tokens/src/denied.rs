//! Why a request is not let in.

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// There is no token.
    #[error("the request has no token")]
    Missing,
    /// There are two, and which counts would be anybody's guess.
    #[error("the request has more than one token")]
    Ambiguous,
    /// It is no token of this kind.
    #[error("the token is not well-formed")]
    Malformed,
    /// It is signed with a key that is not there, or in another way than the key is for.
    #[error("the token is signed with a key, or in a way, that is not known here")]
    Key,
    /// Its signature is not that of what it says.
    #[error("the signature of the token is wrong")]
    Signature,
    /// It was good.
    #[error("the token has expired")]
    Expired,
    /// It will be good.
    #[error("the token is not valid yet")]
    NotYet,
    /// It says for how long it is good in no way, and has to.
    #[error("the token does not expire, and has to")]
    Endless,
    /// It is of somebody else.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is for somebody else.
    #[error("the token is for an audience (aud) that token.audiences does not name")]
    Audience,
    /// It is for another URL.
    #[error("the token is not for this URL")]
    Url,
    /// The path can be read in several ways, and a token for one of them must not be one for all.
    #[error("the path of the request is not in its plain form, so no token can be for it")]
    Path,
    /// It is for another method.
    #[error("the token is not for this method")]
    Method,
    /// It is for another client.
    #[error("the token is not for this client's address")]
    Client,
    /// It is for connections of another protocol.
    #[error("the token is not for this connection's protocol")]
    Protocol,
    /// It is for requests with other fields.
    #[error("the token is for requests with other fields")]
    Fields,
    /// It says something that is not understood here, so nobody can know whether it is met.
    #[error("the token has a claim that is not supported here")]
    Claim,
    /// It is for one use, and had it; or nobody would know whether it had.
    #[error("the token may be used once, and was")]
    Used,
    /// It asks to be refused now and then.
    #[error("the token was refused by chance, as it asks for")]
    Chance,
    /// It is on the list of those that are not good any more.
    #[error("the token has been revoked")]
    Revoked,
}

impl Denied {
    /// Whether another token may help, so that a client is to be asked for one; otherwise this client
    /// may not have this at all.
    pub fn asks_for_token(self) -> bool {
        !matches!(
            self,
            Self::Url | Self::Path | Self::Method | Self::Client | Self::Protocol | Self::Fields
        )
    }
}
