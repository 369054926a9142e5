//! Files a person can read in one go.

use std::io::Write as _;

use freshet_tidy::{SourceFile, expect_none, files};

/// Worth a look: most good files have 100 to 300 lines.
const LINES_REMINDER: usize = 600;

/// Not readable in one go any more.
const LINES_MAX: usize = 900;

/// What people write and read. Lock files, fixtures and recorded data may be as long as they are.
const WRITTEN: [&str; 11] =
    ["rs", "md", "toml", "sh", "mjs", "js", "ts", "css", "html", "vcl", "py"];

fn longer_than(files: &[SourceFile], lines: usize) -> Vec<String> {
    files
        .iter()
        .filter(|file| WRITTEN.iter().any(|extension| file.has_extension(extension)))
        .map(|file| (file.text.lines().count(), &file.path))
        .filter(|(count, _)| *count > lines)
        .map(|(count, path)| format!("{path}: {count} lines"))
        .collect()
}

#[test]
fn no_file_is_longer_than_a_person_reads() {
    let files = files();
    let long = longer_than(&files, LINES_REMINDER);
    if !long.is_empty() {
        // Written past the harness, which hides what a passing test prints.
        let reminder = format!("reminder, over {LINES_REMINDER} lines: {}\n", long.join(", "));
        let _ = std::io::stderr().write_all(reminder.as_bytes());
    }
    expect_none(
        &longer_than(&files, LINES_MAX),
        &format!("a file of more than {LINES_MAX} lines"),
        "Split it by mechanism: a module per noun, state machines by group of states, long tests \
         into a file beside the code.",
    );
}

#[test]
fn scripts_can_be_started() {
    use std::os::unix::fs::PermissionsExt as _;

    let places: Vec<String> = files()
        .iter()
        .filter(|file| file.text.starts_with("#!/"))
        .filter(|file| {
            let data = std::fs::metadata(freshet_tidy::root().join(&file.path));
            data.is_ok_and(|data| data.permissions().mode() & 0o111 == 0)
        })
        .map(|file| file.path.clone())
        .collect();
    expect_none(
        &places,
        "a script that is not executable",
        "`chmod +x` it, or drop the first line when it is only read by other scripts.",
    );
}
