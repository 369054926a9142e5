//! The commands: names, words they take, and who carries them out.

use super::State;
use crate::cli::{Reply, Status};
use crate::manager::{backends, bans, discard, misc, policies, serving};
use serde_json::json;

/// Carries out a command whose words, itself included, have the right number.
type Run = fn(&mut State, &[String]) -> Reply;

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    /// Its name.
    pub(crate) name: &'static str,
    /// How it is written.
    pub(crate) syntax: &'static str,
    /// What it does.
    pub(crate) about: &'static str,
    /// Words after the name: least and most.
    arguments: (usize, usize),
    /// Whether it needs that requests are served.
    serving: bool,
    run: Run,
}

const ANY: usize = usize::MAX;

#[allow(clippy::too_many_arguments, reason = "a row of a table")]
const fn c(
    name: &'static str,
    syntax: &'static str,
    about: &'static str,
    least: usize,
    most: usize,
    serving: bool,
    run: Run,
) -> Command {
    Command { name, syntax, about, arguments: (least, most), serving, run }
}

/// All commands, by name. `debug.` ones are not listed by `help`.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    c("auth", "auth <response>", "Prove that you know the secret.", 1, 1, false, misc::done),
    c("backend.list", "backend.list [-j] [-p] [<backend_pattern>]",
        "List backends; -p with their last probes.", 0, 3, true, backends::list),
    c("backend.set_health", "backend.set_health <backend_pattern> [auto|healthy|sick]",
        "Say how backends are, or let their probes say.", 2, 2, true, backends::set_health),
    c("ban", "ban <field> <operator> <arg> [&& <field> <oper> <arg> ...]",
        "Stop to serve what these conditions are true of.", 3, ANY, true, bans::add),
    c("ban.list", "ban.list [-j]", "List the bans in force.", 0, 1, true, bans::list),
    c("banner", "banner", "Print the greeting.", 0, 0, false, misc::banner),
    c("debug.fragfetch", "debug.fragfetch [<bytes>]",
        "Taken and not used: bodies of origins are read as they come.",
        0, 1, true, misc::done),
    c("debug.listen_address", "debug.listen_address", "Print where clients connect.",
        0, 0, true, serving::listen_address),
    c("debug.srandom", "debug.srandom [<seed>]", "Draw a fixed sequence of random numbers.",
        0, 1, true, serving::srandom),
    c("debug.xid", "debug.xid [<xid>]", "Print or set the number of the last transaction.",
        0, 2, true, serving::xid),
    c("help", "help [-j|-a|-d|<command>]", "List commands, or explain one.", 0, 1, false, help),
    c("panic.clear", "panic.clear [-z]", "Forget the last panic.", 0, 1, false, misc::panic_clear),
    c("panic.show", "panic.show [-j]", "Print the last panic.", 0, 0, false, misc::panic_show),
    c("param.reset", "param.reset <param>", "Set a parameter to its default.",
        1, 1, false, misc::param_reset),
    c("param.set", "param.set [-j] <param> <value>", "Set a parameter.",
        2, 2, false, misc::param_set),
    c("param.show", "param.show [-l|-j] [<param>|changed]", "Print parameters and their values.",
        0, 2, false, misc::param_show),
    c("pid", "pid [-j]", "Print the numbers of the processes.", 0, 0, false, serving::pid),
    c("ping", "ping [-j] [<timestamp>]", "Answer.", 0, 1, false, misc::ping),
    c("quit", "quit", "Close this connection.", 0, 0, false, misc::done),
    c("start", "start", "Begin to serve.", 0, 0, false, serving::start),
    c("status", "status [-j]", "Say whether requests are served.", 0, 0, false, serving::status),
    c("stop", "stop", "End to serve.", 0, 0, false, serving::stop),
    c("storage.list", "storage.list [-j]", "List storages.", 0, 0, false, misc::storage_list),
    c("vcl.deps", "vcl.deps [-j]", "List policies and what they depend on.",
        0, 0, false, policies::deps),
    c("vcl.discard", "vcl.discard <name_pattern>...", "Forget policies.",
        1, ANY, false, discard::discard),
    c("vcl.inline", "vcl.inline <configname> <quoted_VCLstring> [auto|cold|warm]",
        "Compile a policy and give it a name.", 2, 3, false, policies::inline),
    c("vcl.label", "vcl.label <label> <configname>", "Give a policy another name.",
        2, 2, false, policies::label),
    c("vcl.list", "vcl.list [-j]", "List policies.", 0, 0, false, policies::list),
    c("vcl.load", "vcl.load <configname> <filename> [auto|cold|warm]",
        "Compile a policy from a file and give it a name.", 2, 3, false, policies::load),
    c("vcl.show", "vcl.show [-v] [<configname>]", "Print a policy.", 0, 2, false, policies::show),
    c("vcl.state", "vcl.state <configname> [auto|cold|warm]", "Keep a policy ready, or not.",
        2, 2, false, policies::state),
    c("vcl.symtab", "vcl.symtab", "List policies as the compiler knows them.",
        0, 0, false, policies::symtab),
    c("vcl.use", "vcl.use <configname|label>", "Use a policy from now on.",
        1, 1, false, policies::use_),
];

/// Carries out a command line's words.
pub(crate) fn run(state: &mut State, words: &[String]) -> Reply {
    if let Some(words) = bans::taken_apart(words) {
        return run(state, &words);
    }
    let Some((name, arguments)) = words.split_first() else { return Reply::ok() };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return unknown();
    };
    if command.serving && state.child.is_none() {
        return Reply::error(
            Status::Unknown,
            "Unknown request in manager process (child not running).\n\
             Type 'help' for more info.\n",
        );
    }
    let (least, most) = command.arguments;
    // JSON is a form of a command, not an argument of it.
    let is_json = arguments.first().is_some_and(|word| word == "-j");
    if is_json && !command.syntax.contains("-j") {
        return Reply::error(Status::Unimplemented, "JSON unimplemented\n");
    }
    let count = arguments.len() - usize::from(is_json);
    if count < least {
        return super::too_few();
    }
    if count > most {
        return super::too_many();
    }
    (command.run)(state, words)
}

fn unknown() -> Reply {
    Reply::error(Status::Unknown, "Unknown request.\nType 'help' for more info.\n")
}

fn help(state: &mut State, words: &[String]) -> Reply {
    let is_serving = state.child.is_some();
    let is_there = move |command: &&Command| is_serving || !command.serving;
    let is_debug = |command: &&Command| command.name.starts_with("debug.");
    let listed = || COMMANDS.iter().filter(is_there).filter(move |command| !is_debug(command));
    let lines = |commands: &mut dyn Iterator<Item = &Command>| {
        let lines: Vec<_> = commands.map(|command| command.syntax).collect();
        Reply::text(lines.join("\n") + "\n")
    };
    match words.get(1).map(String::as_str) {
        None => lines(&mut listed()),
        Some("-a") => lines(&mut COMMANDS.iter().filter(is_there)),
        Some("-d") => lines(&mut COMMANDS.iter().filter(is_there).filter(is_debug)),
        Some("-j") => {
            // `varnishadm` completes names by this, and wants the name first.
            let all = listed().map(|command| {
                let (least, most) = command.arguments;
                let most = if most == ANY { -1 } else { i64::try_from(most).unwrap_or(-1) };
                format!(
                    "{{\n    \"request\": {},\n    \"syntax\": {},\n    \"help\": {},\n    \
                     \"minarg\": {least},\n    \"maxarg\": {most},\n    \"flags\": \"\",\n    \
                     \"json\": {}\n  }}",
                    json!(command.name),
                    json!(command.syntax),
                    json!(command.about),
                    command.syntax.contains("-j"),
                )
            });
            Reply::json_of_texts(2, words, all)
        }
        Some(name) => match COMMANDS.iter().filter(is_there).find(|command| command.name == name) {
            Some(command) => Reply::text(format!("{}\n{}\n", command.syntax, command.about)),
            None if name.starts_with('-') => Reply::error(Status::Unknown, "Unknown flag\n"),
            None => unknown(),
        },
    }
}

/// The reference `-x cli` prints.
pub(crate) fn reference() -> String {
    let mut out = String::new();
    for command in COMMANDS {
        out.push_str(&format!("{}\n\t{}\n\n", command.syntax, command.about));
    }
    out
}
