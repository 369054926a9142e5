//! The pages of all commands in docs, and the width of their help.

use crate::text::COLUMNS;
use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write as _;

/// Commands that only a program with the feature `lab` has: the second page.
const OF_LAB: [&str; 3] = ["demo", "lab", "plan"];

/// The program's commands as they are read, with all that is inherited put in.
fn program() -> Command {
    let mut program = crate::Arguments::command();
    program.build();
    program
}

/// Every command below this one, with the words that call it.
fn below(command: &Command, called: &str, each: &mut impl FnMut(&Command, &str)) {
    for one in command.get_subcommands() {
        if one.get_name() == "help" || one.is_hide_set() {
            continue;
        }
        let called = format!("{called} {}", one.get_name());
        each(one, &called);
        below(one, &called, each);
    }
}

/// A page with a section for each of these commands, and what else its head says.
fn markdown(title: &str, more: &str, is_of_page: fn(&str) -> bool) -> String {
    let program = program();
    let mut out = format!(
        "# {title}\n\n`freshet COMMAND --help` says the same, with examples; `man freshet-COMMAND` does \
         where it is installed from a\npackage.{more}\n"
    );
    for command in program.get_subcommands().filter(|one| is_of_page(one.get_name())) {
        if command.get_name() == "help" || command.is_hide_set() {
            continue;
        }
        let called = format!("freshet {}", command.get_name());
        let _ = write!(out, "\n## {called}\n\n{}\n", about(command));
        let mut rows = rows(command);
        below(command, &called, &mut |command, called| {
            let arguments = command.get_positionals().map(|argument| format!(" {argument}"));
            let arguments: String = arguments.collect();
            let _ = writeln!(rows, "| **`{called}{arguments}`** | {} |", about(command));
            rows.push_str(&self::rows(command));
        });
        if !rows.is_empty() {
            let _ = write!(out, "\n| | |\n|---|---|\n{rows}");
        }
    }
    out
}

/// What a command is for, as a sentence in a table.
fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    cell(&sentence(about))
}

/// A row for each argument.
fn rows(command: &Command) -> String {
    let mut out = String::new();
    let is_shown = |argument: &&Arg| {
        !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    for argument in command.get_arguments().filter(is_shown) {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let mut help = sentence(help);
        let values = argument.get_possible_values();
        let takes = argument.get_action().takes_values();
        let shown: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
        if takes && !shown.is_empty() {
            let names: Vec<_> = shown.iter().map(|value| code(value)).collect();
            let _ = write!(help, " One of {}.", names.join(", "));
        }
        let defaults = argument.get_default_values();
        if takes && !defaults.is_empty() {
            let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
            let _ = write!(help, " Default `{}`.", defaults.join(" "));
        }
        let _ = writeln!(out, "| `{}` | {} |", spelt(argument), cell(&help));
    }
    out
}

fn code(value: &PossibleValue) -> String {
    format!("`{}`", value.get_name())
}

/// An argument as it is typed, its short form first.
fn spelt(argument: &Arg) -> String {
    let shown = argument.to_string();
    match (argument.get_short(), argument.is_positional()) {
        (Some(short), false) => format!("-{short}, {shown}"),
        _ => shown,
    }
}

/// With the full stop of its last sentence, which clap takes away.
fn sentence(text: String) -> String {
    if text.ends_with('.') { text } else { text + "." }
}

/// Help in a cell: one line.
fn cell(help: &str) -> String {
    help.replace('\n', " ").replace('|', "\\|")
}

/// The pages in the repository are those this code writes; `UPDATE_DOCS=1` writes them anew.
#[test]
#[cfg(all(feature = "lab", feature = "router"))]
fn the_pages_in_docs_are_up_to_date() {
    let beside = " What shows, measures and plans nodes is in [commands-lab.md](commands-lab.md).";
    let title = "Commands that show, measure and plan";
    let pages = [
        ("commands.md", markdown("Commands", beside, |name| !OF_LAB.contains(&name))),
        ("commands-lab.md", markdown(title, "", |name| OF_LAB.contains(&name))),
    ];
    for (page, want) in pages {
        let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &want).unwrap();
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(have == want, "docs/{page} is old: run the tests with UPDATE_DOCS=1");
    }
}

#[test]
fn help_of_every_command_fits_the_terminal() {
    let mut count = 0;
    below(&program(), "freshet", &mut |command, called| {
        count += 1;
        for help in [command.clone().render_help(), command.clone().render_long_help()] {
            for line in help.to_string().lines() {
                assert!(line.chars().count() <= COLUMNS, "{called}: {line}");
            }
        }
    });
    assert!(count > 60, "{count}");
}

/// Whatever prints facts takes `--format json`, and `--json` as its short form.
#[test]
fn who_answers_in_json_takes_the_format_as_well() {
    let mut lacking = Vec::new();
    below(&program(), "freshet", &mut |command, called| {
        let has = |name: &str| command.get_arguments().any(|one| one.get_long() == Some(name));
        if has("json") != has("format") {
            lacking.push(called.to_owned());
        }
    });
    assert!(lacking.is_empty(), "{lacking:?}");
}
