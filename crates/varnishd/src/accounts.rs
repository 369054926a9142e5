//! Users and groups of this machine, by name or number.

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct User {
    /// Its number.
    pub(crate) id: u32,
    /// The group it logs in with, where that is known.
    pub(crate) group: Option<u32>,
}

/// The user of this name or number, if there is one.
pub(crate) fn user(name: &str) -> Option<User> {
    let fields = line(USERS, name);
    let number = |at: usize| fields.as_ref()?.get(at)?.parse().ok();
    Some(User { id: name.parse().ok().or_else(|| number(2))?, group: number(3) })
}

/// The number of the group of this name or number, if there is one.
pub(crate) fn group(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| line(GROUPS, name)?.get(2)?.parse().ok())
}

/// The fields of the line a name begins.
fn line(file: &str, name: &str) -> Option<Vec<String>> {
    if name.is_empty() {
        return None;
    }
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
    lines.find(|fields| fields.first().is_some_and(|first| first == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_found() {
        assert_eq!(user("root"), Some(User { id: 0, group: Some(0) }));
        assert_eq!((group("root"), group("12")), (Some(0), Some(12)));
        assert_eq!((user(""), user("///"), group("")), (None, None, None));
    }
}
