//! What an authority says (RFC 8555 §7.1, RFC 7807, RFC 9773 §4.2). Unknown members are passed over.

use serde::Deserialize;

/// RFC 8555 §7.1.1, with `renewalInfo` of RFC 9773 §4.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Directory {
    pub(crate) new_nonce: String,
    pub(crate) new_account: String,
    pub(crate) new_order: String,
    pub(crate) renewal_info: Option<String>,
    pub(crate) meta: Option<Meta>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    #[serde(default)]
    pub(crate) external_account_required: bool,
}

/// RFC 8555 §7.1.3.
#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) authorizations: Vec<String>,
    pub(crate) finalize: String,
    pub(crate) certificate: Option<String>,
    pub(crate) error: Option<Problem>,
}

/// RFC 8555 §7.1.4.
#[derive(Debug, Deserialize)]
pub(crate) struct Authorization {
    pub(crate) status: String,
    pub(crate) identifier: Identifier,
    #[serde(default)]
    pub(crate) challenges: Vec<Challenge>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Identifier {
    pub(crate) value: String,
}

/// RFC 8555 §8.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Challenge {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) token: String,
    #[serde(default)]
    pub(crate) status: String,
    pub(crate) error: Option<Problem>,
}

/// RFC 8555 §6.7.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Problem {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) detail: String,
}

impl Problem {
    /// Its type without what is the same for all.
    pub(crate) fn word(&self) -> &str {
        self.kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(&self.kind)
    }
}

/// RFC 9773 §4.2.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenewalInfo {
    pub(crate) suggested_window: Window,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Window {
    pub(crate) start: String,
    pub(crate) end: String,
}
