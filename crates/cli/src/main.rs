//! The `freshet` program: parses arguments and starts things.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a program talks to its user")]

#[macro_use]
mod text;

mod acme;
mod admin;
mod ban;
mod block;
mod certificate;
mod check;
mod client;
mod control;
#[cfg(feature = "lab")]
mod demo;
mod descriptors;
mod fleet;
mod form;
#[cfg(feature = "lab")]
mod lab;
mod maintenance;
mod manual;
mod mec;
mod nodes;
#[cfg(feature = "lab")]
mod plan;
mod reload;
mod route;
#[cfg(feature = "router")]
mod router;
#[cfg(not(feature = "router"))]
#[path = "router/absent.rs"]
mod router;
mod runtime;
mod self_signed;
mod serve;
mod settings;
mod sites;
mod stop;
mod store;
mod tail;
mod top;
mod traces;
mod upgrade;
mod vcl;

use clap::{CommandFactory, Parser, Subcommand};
use freshet_net::readiness;
use settings::Wrong;
use std::process::ExitCode;

// The allocator of the whole process. glibc's malloc keeps what a burst of connections took; over
// days that is memory above the configured limit, which operators notice. jemalloc gives it back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An edge content-delivery node.
#[derive(Parser)]
#[command(name = "freshet", version, about, max_term_width = 80)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "lab")]
    /// Show the whole thing: an origin, a node, viewers, live figures.
    Demo(demo::Arguments),
    /// Cache what an origin serves.
    Serve(serve::Arguments),
    /// Check configuration files; errors are shown in place.
    Check(check::Arguments),
    /// Lay policies out, test them, and serve them to editors.
    Vcl(vcl::Arguments),
    /// List every key of freshet.toml with its default.
    Keys(check::KeysArguments),
    /// Say why a URL is a hit or a miss.
    Explain(control::ExplainArguments),
    /// Forget stored responses, by URL, by tag or all.
    Purge(control::PurgeArguments),
    /// Forget stored responses by conditions, or list those that are in force.
    Ban(ban::Arguments),
    /// Block clients for a while, or list those that are.
    Block(block::Arguments),
    /// Have a site serve nobody for a while.
    Maintenance(maintenance::Arguments),
    /// List the certificates of a node, or renew those it got by itself.
    Certificate(certificate::Arguments),
    /// Show what a node does right now.
    Top(top::Arguments),
    /// Show the figures of a node since its start.
    Stat(control::StatArguments),
    /// Show the last requests.
    Log(tail::Arguments),
    /// Make a fleet of nodes, list it, and purge all of it.
    Fleet(fleet::Arguments),
    /// List sites, what they were asked for and what they keep.
    Sites(sites::Arguments),
    /// List origins, or take one out and put it in.
    Origins(control::OriginsArguments),
    #[cfg(feature = "lab")]
    /// Measure a server by the methods of published studies.
    Lab(lab::Arguments),
    #[cfg(feature = "lab")]
    /// Plan capacity, cost, energy and endurance.
    Plan(plan::Arguments),
    /// Send clients to the nodes that are best for them, over HTTP and DNS.
    Route(route::Arguments),
    /// Break out a mobile network's traffic at its edge.
    Router(router::Arguments),
    /// Serve apps at the edge of a mobile network (ETSI MEC).
    Mec(mec::Arguments),
    /// Disks that keep what is cached: format, list, check, bench.
    Store(store::Arguments),
    /// Have the configuration read again.
    Reload(reload::Arguments),
    /// Have the program that is installed now take over.
    Upgrade(upgrade::Arguments),
    /// Have a node end when its open requests have.
    Stop(stop::Arguments),
    /// Print what a shell needs to complete commands and flags.
    Completions(manual::CompletionsArguments),
    /// Write man pages to a folder.
    Man(manual::ManArguments),
    /// Print the version, as `--version` does.
    #[command(hide = true)]
    Version,
}

/// Says what is wrong with the command line, or what was asked about it. The status is clap's 2, but for what
/// means something else by it.
fn refuse(error: &clap::Error) -> ExitCode {
    // There is nobody left to tell where this cannot be written.
    let _ = error.print();
    match std::env::args_os().nth(1) {
        _ if !error.use_stderr() => ExitCode::SUCCESS,
        Some(command) if command == "lab" => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    }
}

fn main() -> ExitCode {
    // Reading the arguments takes a while already.
    let serves = std::env::args_os().nth(1).is_some_and(|command| command == "serve");
    let listening = serves.then(serve::Listening::begin);
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let result = match arguments.command {
        #[cfg(feature = "lab")]
        Command::Demo(arguments) => demo::run(arguments),
        Command::Serve(arguments) => {
            serve::run(arguments, listening.unwrap_or_else(serve::Listening::begin))
        }
        Command::Check(arguments) => check::run(arguments),
        Command::Vcl(arguments) => vcl::run(arguments),
        Command::Keys(arguments) => check::keys(&arguments),
        #[cfg(feature = "lab")]
        Command::Lab(arguments) => lab::run(arguments),
        Command::Explain(arguments) => control::explain(arguments),
        Command::Purge(arguments) => control::purge(arguments),
        Command::Fleet(arguments) => fleet::run(arguments),
        Command::Ban(arguments) => ban::run(arguments),
        Command::Block(arguments) => block::run(arguments),
        Command::Maintenance(arguments) => maintenance::run(arguments),
        Command::Certificate(arguments) => certificate::run(&arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Stat(arguments) => control::stat(arguments),
        Command::Log(arguments) => tail::run(arguments),
        Command::Sites(arguments) => sites::run(&arguments),
        Command::Origins(arguments) => control::origins(arguments),
        #[cfg(feature = "lab")]
        Command::Plan(arguments) => plan::run(arguments),
        Command::Route(arguments) => route::run(arguments),
        Command::Router(arguments) => router::run(arguments),
        Command::Mec(arguments) => mec::run(arguments),
        Command::Store(arguments) => store::run(arguments),
        Command::Reload(arguments) => reload::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Stop(arguments) => stop::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => manual::man(&arguments, Arguments::command()),
        Command::Version => {
            text::print(&Arguments::command().render_version()).map(|()| ExitCode::SUCCESS)
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let (who, why) = match error.downcast_ref::<Wrong>() {
                // Its first line is for who shows one line only.
                Some(wrong) => ("", wrong.shown()),
                None => ("freshet: ", format!("{error:#}\n")),
            };
            tell!("{who}{why}");
            if serves {
                readiness::give_up(&why);
            }
            ExitCode::FAILURE
        }
    }
}
