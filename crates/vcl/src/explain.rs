//! What a policy does, state by state, in words.

use freshet_policy::program::{Block, Endpoint, Program, StatementKind};
use freshet_policy::source::Span;
use freshet_policy::types::{Action, State};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Columns of a terminal that everything fits.
const COLUMNS: usize = 79;

/// Lists a program's backends, and for each state the lines of the policy that act there: what they
/// return, set and call, in order. States the policy says nothing about are left out.
pub fn explain(program: &Program) -> String {
    let mut out = String::new();
    for backend in &program.backends {
        let place = match &backend.endpoint {
            None => "none".to_owned(),
            Some(Endpoint::Unix(path)) => format!("unix:{path}"),
            Some(Endpoint::Tcp { host, port, .. }) => format!("{host}:{port}"),
        };
        let checked = if backend.probe.is_some() { ", checked" } else { "" };
        line(&mut out, &format!("backend {}: {place}{checked}", backend.name));
    }
    for object in &program.objects {
        line(&mut out, &format!("object {}: {}", object.name, object.kind));
    }
    for acl in &program.acls {
        line(&mut out, &format!("acl {}: {} entries", acl.name, acl.entries.len()));
    }
    for state in State::ALL {
        let Some(index) = program.states[state as usize] else { continue };
        let mut steps = Vec::new();
        walk(program, index, 0, &mut HashSet::new(), &mut steps);
        if steps.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{}", state.subroutine());
        for step in steps {
            line(&mut out, &step);
        }
    }
    out
}

fn line(out: &mut String, text: &str) {
    let shown: String = text.chars().take(COLUMNS).collect();
    let _ = writeln!(out, "{}", shown.trim_end());
}

fn walk(
    program: &Program,
    sub: u32,
    depth: usize,
    seen: &mut HashSet<u32>,
    steps: &mut Vec<String>,
) {
    let Some(found) = program.subs.get(sub as usize) else { return };
    if !found.is_own && !found.name.starts_with("vcl_") || !seen.insert(sub) {
        return;
    }
    for piece in &found.pieces {
        block(program, piece, depth, seen, steps);
    }
}

fn block(
    program: &Program,
    statements: &Block,
    depth: usize,
    seen: &mut HashSet<u32>,
    steps: &mut Vec<String>,
) {
    for statement in statements {
        match &statement.kind {
            StatementKind::If { arms, otherwise } => {
                for (at, (_, body)) in arms.iter().enumerate() {
                    let word = if at == 0 { "if" } else { "else if" };
                    let mut inner = Vec::new();
                    block(program, body, depth + 1, seen, &mut inner);
                    if !inner.is_empty() {
                        let shown = condition(program, statement.span, at);
                        note(program, statement.span, depth, &format!("{word} {shown}"), steps);
                        steps.append(&mut inner);
                    }
                }
                let mut inner = Vec::new();
                block(program, otherwise, depth + 1, seen, &mut inner);
                if !inner.is_empty() {
                    note(program, statement.span, depth, "else", steps);
                    steps.append(&mut inner);
                }
            }
            StatementKind::Block(body) => block(program, body, depth, seen, steps),
            StatementKind::Call(sub) => {
                if program.subs.get(*sub as usize).is_some_and(|sub| sub.is_own) {
                    let text = program.sources.text(statement.span).to_owned();
                    note(program, statement.span, depth, &text, steps);
                    walk(program, *sub, depth + 1, seen, steps);
                }
            }
            StatementKind::Leave => {}
            StatementKind::Return { action: Action::Ok, .. } => {}
            _ => {
                let text = program.sources.text(statement.span).to_owned();
                note(program, statement.span, depth, &text, steps);
            }
        }
    }
}

/// The text of an arm's condition: what stands in the brackets behind the arm's `if`.
fn condition(program: &Program, span: Span, arm: usize) -> String {
    let text = program.sources.text(span);
    let mut depth = 0_i32;
    let (mut start, mut found) = (None, 0);
    let mut blocks = 0_i32;
    for (at, sign) in text.char_indices() {
        match sign {
            '{' => blocks += 1,
            '}' => blocks -= 1,
            '(' if blocks == 0 => {
                if depth == 0 {
                    start = Some(at);
                }
                depth += 1;
            }
            ')' if blocks == 0 => {
                depth -= 1;
                if depth == 0 {
                    if found == arm {
                        let from = start.unwrap_or(at);
                        let shown = text.get(from..=at).unwrap_or("");
                        return shown.split_whitespace().collect::<Vec<_>>().join(" ");
                    }
                    found += 1;
                }
            }
            _ => {}
        }
    }
    String::new()
}

fn note(program: &Program, span: Span, depth: usize, text: &str, steps: &mut Vec<String>) {
    let (file, number, _) = program.sources.place(span);
    if file == crate::BUILTIN_NAME {
        return;
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    steps.push(format!("{number:>5}  {}{text}", "  ".repeat(depth)));
}
