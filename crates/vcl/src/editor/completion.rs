//! What can be written at a place of a policy.

use super::meanings::{self, Kind, Words, modules};
use super::scan::{Declared, Place, Wanted};
use freshet_policy::types::{State, States};
use freshet_policy::variables::{Definition, Message, VARIABLES};

/// Names that begin as the word that ends at this byte of a text, in their order.
pub fn completed(text: &str, at: usize) -> Vec<Item> {
    let place = Place::at_end(&text[..at]);
    let begun = place.begun.to_ascii_lowercase();
    let mut items = offered(place.wanted, &Declared::of(text));
    items.retain(|item| item.label.to_ascii_lowercase().starts_with(&begun));
    items.sort_by(|one, other| one.label.cmp(&other.label));
    items.dedup_by(|one, other| one.label == other.label);
    items
}

/// Something that can be written.
#[derive(Clone, Debug)]
pub struct Item {
    /// As it is written.
    pub label: String,
    /// What it is, as the Language Server Protocol numbers such things (`CompletionItemKind`).
    pub kind: u32,
    /// A type, a signature or a sentence.
    pub detail: String,
}

impl Item {
    const METHOD: u32 = 2;
    const FUNCTION: u32 = 3;
    const CONSTRUCTOR: u32 = 4;
    const FIELD: u32 = 5;
    const VARIABLE: u32 = 6;
    const MODULE: u32 = 9;
    const KEYWORD: u32 = 14;

    fn new(label: impl Into<String>, kind: u32, detail: impl Into<String>) -> Self {
        Self { label: label.into(), kind, detail: detail.into() }
    }

    fn words(words: &'static Words) -> impl Iterator<Item = Self> {
        words.iter().map(|(word, text)| Self::new(*word, Self::KEYWORD, *text))
    }
}

/// All that can stand where this is wanted.
fn offered(wanted: Wanted, declared: &Declared<'_>) -> Vec<Item> {
    let declared_as = |wanted: &'static str| {
        let names =
            declared.names.iter().filter(move |(kind, _)| wanted.is_empty() || *kind == wanted);
        names.map(|(kind, name)| Item::new(*name, Item::VARIABLE, kind.to_ascii_uppercase()))
    };
    match wanted {
        Wanted::Declaration => Item::words(meanings::DECLARATIONS).collect(),
        Wanted::Module => {
            modules().map(|module| Item::new(module.name, Item::MODULE, "module")).collect()
        }
        Wanted::State => State::ALL
            .into_iter()
            .map(|state| Item::new(state.subroutine(), Item::FUNCTION, meanings::of_state(state)))
            .collect(),
        Wanted::AclFlag => Item::words(meanings::ACL_FLAGS).collect(),
        Wanted::Field(names) => meanings::FIELDS
            .iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(name, text)| Item::new(format!(".{name}"), Item::FIELD, *text))
            .collect(),
        Wanted::Probe => declared_as("probe").collect(),
        Wanted::Statement(states) => {
            let functions =
                functions(states, declared, |kind| !matches!(kind, Kind::Constructor(_)));
            Item::words(meanings::STATEMENTS)
                .filter(|item| item.label != "new" || states.has(State::Init))
                .chain(functions)
                .collect()
        }
        Wanted::Settable(states) => changed(states, declared, |one| one.write.and(one.write_40)),
        Wanted::Unsettable(states) => changed(states, declared, |one| one.unset),
        Wanted::Action(states) => Item::words(meanings::ACTIONS)
            .filter(|item| {
                let can = |state: &State| {
                    states.has(*state)
                        && state.actions().iter().any(|action| action.name() == item.label)
                };
                State::ALL.iter().any(can)
            })
            .collect(),
        Wanted::Subroutine => declared_as("sub").collect(),
        Wanted::Constructor => {
            functions(States::ALL, declared, |kind| matches!(kind, Kind::Constructor(_))).collect()
        }
        Wanted::Value(states) => {
            let variables = VARIABLES.iter().filter(|one| one.read.meets(states));
            let functions =
                functions(states, declared, |kind| !matches!(kind, Kind::Constructor(_)));
            let objects = declared.objects.iter();
            variables
                .map(|one| Item::new(one.name, Item::VARIABLE, one.of.to_string()))
                .chain(fields(declared, |message| message.read().meets(states)))
                .chain(functions)
                .chain(objects.map(|(name, class)| Item::new(*name, Item::VARIABLE, class)))
                .chain(declared_as(""))
                .chain(Item::words(meanings::VALUES))
                .collect()
        }
        Wanted::Nothing => Vec::new(),
    }
}

/// Variables and header fields that can be changed in one of these states.
fn changed(
    states: States,
    declared: &Declared<'_>,
    where_it_can: impl Fn(&Definition) -> States,
) -> Vec<Item> {
    let variables = VARIABLES.iter().filter(|one| where_it_can(one).meets(states));
    variables
        .map(|one| Item::new(one.name, Item::VARIABLE, one.of.to_string()))
        .chain(fields(declared, |message| message.write().meets(states)))
        .collect()
}

/// Fields of messages: those of the text, and those that are often named.
fn fields<'d>(
    declared: &'d Declared<'_>,
    has: impl Fn(Message) -> bool + 'd,
) -> impl Iterator<Item = Item> + 'd {
    let messages = Message::ALL.into_iter().filter(move |message| has(*message));
    messages.flat_map(|message| {
        let start = format!("{}.http.", message.name());
        let known = meanings::HEADERS.iter().map(|name| format!("{start}{name}"));
        let used = declared.fields.iter().filter(|field| field.starts_with(&start));
        let used: Vec<String> = used.map(|field| (*field).to_owned()).collect();
        let all: Vec<String> = known.chain(used).collect();
        all.into_iter().map(|name| Item::new(name, Item::VARIABLE, "HEADER"))
    })
}

/// What can be called in one of these states.
fn functions<'d>(
    states: States,
    declared: &'d Declared<'_>,
    fits: impl Fn(&Kind<'_>) -> bool + 'd,
) -> impl Iterator<Item = Item> + 'd {
    let callable = meanings::callable(declared).into_iter();
    callable.filter_map(move |(name, function)| {
        let kind = meanings::kind_of(function);
        let number = match kind {
            Kind::Function => Item::FUNCTION,
            Kind::Constructor(_) => Item::CONSTRUCTOR,
            Kind::Method(..) => Item::METHOD,
        };
        let can = function.states.meets(states) && fits(&kind);
        can.then(|| Item::new(name, number, function.signature))
    })
}
