//! Words of the language: nothing else is called by one of them.

use freshet_policy::variables;

/// Words that statements begin with.
pub(super) const ACTIONS: [&str; 9] =
    ["ban", "call", "hash_data", "if", "new", "return", "set", "synthetic", "unset"];
/// Words that declarations begin with.
const RESERVED: [&str; 6] = ["acl", "backend", "import", "probe", "sub", "vcl"];
/// Words that are values, or are called for one.
const FUNCTIONS: [&str; 5] = ["default", "false", "regsub", "regsuball", "true"];

/// What a name is in the language itself, however it is spelt; `None` where it is free.
pub(super) fn kind_of(name: &str) -> Option<&'static str> {
    let is_in = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_in(&ACTIONS) {
        Some("action")
    } else if is_in(&RESERVED) {
        Some("reserved")
    } else if is_in(&FUNCTIONS) {
        Some("func")
    } else {
        variables::find(&name.to_ascii_lowercase()).map(|_| "var")
    }
}

/// Whether only the states of a request are called like this.
pub(super) fn is_of_states(name: &str) -> bool {
    name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("vcl_"))
}
