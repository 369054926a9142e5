//! Imports, access lists, and the names of all that is declared.

use super::uses::SubUses;
use super::{Checker, Symbol, words};
use crate::diagnostic::nearest;
use crate::syntax::{self, Declaration, Name};
use freshet_policy::acl::{self, Acl};
use freshet_policy::modules;
use freshet_policy::program::{Backend, BackendRef, Probe, Sub};
use freshet_policy::types::State;

impl Checker<'_> {
    /// Takes note of all names, so that they can be used before they are declared.
    pub(super) fn declare(&mut self, declarations: &[Declaration], is_builtin: bool) {
        for declaration in declarations {
            match declaration {
                Declaration::Import { module, alias, from } => {
                    self.import(module, alias.as_ref(), from.as_ref());
                }
                Declaration::Acl(acl) => {
                    let index = self.program.acls.len() as u32;
                    self.program.acls.push(Acl::new(acl.name.text.clone(), acl.name.span));
                    self.add(&acl.name, Symbol::Acl(index), "Acl");
                }
                Declaration::Backend(backend) => self.declare_backend(backend),
                Declaration::Probe(probe) => {
                    let index = self.program.probes.len() as u32;
                    self.program.probes.push(new_probe(&probe.name));
                    self.add(&probe.name, Symbol::Probe(index), "Probe");
                }
                Declaration::Sub { name, body } => {
                    self.declare_sub(name, is_builtin);
                    // Most make them in `vcl_init`, some in what that calls.
                    self.declare_objects(body);
                }
            }
        }
    }

    fn declare_backend(&mut self, backend: &syntax::Backend) {
        let index = self.program.backends.len() as u32;
        self.probes_above.push(self.program.probes.len() as u32);
        self.program.backends.push(Backend {
            name: backend.name.text.clone(),
            endpoint: None,
            host_header: None,
            connect_timeout: None,
            first_byte_timeout: None,
            between_bytes_timeout: None,
            connections_max: 0,
            waiters_max: 0,
            wait_timeout: None,
            proxy_header: 0,
            preamble: None,
            probe: None,
            span: backend.name.span,
        });
        let is_default = &*backend.name.text == "default";
        if index == 0 || (is_default && !self.default_backend_named) {
            self.program.default_backend = BackendRef::Backend(index);
            self.default_backend_named = is_default;
        }
        self.add(&backend.name, Symbol::Backend(index), "Backend");
    }

    fn declare_sub(&mut self, name: &Name, is_builtin: bool) {
        let reserved = words::is_of_states(&name.text);
        let is_joined =
            self.builtin_names.iter().any(|known| known.eq_ignore_ascii_case(&name.text));
        if reserved && !is_joined {
            let near = nearest(&name.text, self.builtin_names.iter().map(|name| &**name));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message = "The names 'vcl_*' are reserved for subroutines.".to_owned();
            self.report.error(name.span, message).help = help;
            return;
        }
        if let Some(Symbol::Sub(index)) = self.known(&name.text).map(|entry| entry.symbol) {
            if !is_joined {
                let before = self.program.subs[index as usize].span;
                let message = format!("Subroutine '{}' redefined", name.text);
                let diagnostic = self.report.error(name.span, message);
                diagnostic.related.push((before, "Already defined here".into()));
            } else if !is_builtin {
                self.program.subs[index as usize].is_own = true;
            }
            return;
        }
        let index = self.program.subs.len() as u32;
        let sub = Sub {
            name: name.text.clone(),
            span: name.span,
            pieces: Vec::new(),
            is_own: !is_builtin,
        };
        self.program.subs.push(sub);
        self.uses.push(SubUses::default());
        if let Some(state) = State::of_subroutine(&name.text) {
            self.program.states[state as usize] = Some(index);
        }
        if is_joined {
            self.name(&name.text, Symbol::Sub(index), name.span);
            if let Some(entry) = self.symbols.get_mut(&*name.text.to_ascii_lowercase()) {
                entry.is_builtin = true;
            }
        } else {
            self.add(name, Symbol::Sub(index), "Subroutine");
        }
    }

    fn add(&mut self, name: &Name, symbol: Symbol, what: &str) {
        if words::is_of_states(&name.text) {
            self.error(name.span, "Symbols named 'vcl_*' are reserved.");
            return;
        }
        let may_be_default = matches!(symbol, Symbol::Backend(_) | Symbol::Probe(_));
        let is_default = may_be_default && &*name.text == "default";
        if let Some(kind) = words::kind_of(&name.text).filter(|_| !is_default) {
            let text = &name.text;
            let message = match symbol {
                Symbol::Sub(_) => format!("Symbol '{text}' has wrong type ({kind}), expected sub:"),
                _ => format!("Name {text} must have type '{kind}'."),
            };
            self.error(name.span, message);
            return;
        }
        if name.text.contains('.') {
            // It was said where it is read.
            return;
        }
        if is_default && matches!(symbol, Symbol::Probe(_)) {
            // A backend may be the default one as well, and each default probe is for what is below it.
            self.name("default probe", symbol, name.span);
            return;
        }
        if let Some(before) = self.known(&name.text) {
            let same_kind = before.symbol.kind() == symbol.kind();
            let message = if same_kind && &*name.text == "default" {
                "Only one default director possible.".to_owned()
            } else if same_kind {
                format!("{what} '{}' redefined.", name.text)
            } else {
                let (kind, text) = (before.symbol.kind(), &name.text);
                match symbol {
                    Symbol::Sub(_) => {
                        format!("Symbol '{text}' has wrong type ({kind}), expected sub:")
                    }
                    _ => format!("Name '{text}' already defined."),
                }
            };
            let span = before.span;
            let diagnostic = self.report.error(name.span, message);
            diagnostic.related.push((span, "Already defined here".into()));
            return;
        }
        self.name(&name.text, symbol, name.span);
    }

    fn declare_objects(&mut self, body: &[syntax::Statement]) {
        for statement in body {
            match &statement.kind {
                syntax::StatementKind::New { name, constructor, .. } => {
                    let index = self.program.objects.len() as u32;
                    if let Some(entry) = self.known(&name.text) {
                        let message = match entry.symbol {
                            Symbol::Object(_) => format!("Instance '{}' redefined.", name.text),
                            _ => format!("Name '{}' already defined.", name.text),
                        };
                        let span = entry.span;
                        let diagnostic = self.report.error(name.span, message);
                        diagnostic.related.push((span, "Already defined here".into()));
                        continue;
                    }
                    let Some(kind) = self.constructor(constructor) else { continue };
                    self.program.objects.push(freshet_policy::program::ObjectSlot {
                        name: name.text.clone(),
                        kind,
                    });
                    self.add(name, Symbol::Object(index), "Instance");
                }
                syntax::StatementKind::Block(body) => self.declare_objects(body),
                syntax::StatementKind::If { arms, otherwise } => {
                    arms.iter().for_each(|(_, body)| self.declare_objects(body));
                    otherwise.iter().for_each(|body| self.declare_objects(body));
                }
                _ => {}
            }
        }
    }

    fn import(&mut self, module: &Name, alias: Option<&Name>, from: Option<&Name>) {
        if let Some(from) = from.filter(|from| from.text.contains('/'))
            && !self.settings.unsafe_paths
        {
            self.error_with(
                from.span,
                "'import ... from path ...' is unsafe.\nCompiled modules are not loaded.",
                "leave `from` out: the modules there are come with the program",
            );
        }
        let found =
            modules::find(&module.text).filter(|found| !found.is_test || self.settings.test_module);
        let Some(found) = found else {
            let name = &module.text;
            let help = match nearest(name, modules::MODULES.iter().map(|module| module.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => modules::instead_of(name).map_or_else(
                    || {
                        let names: Vec<_> = modules::MODULES
                            .iter()
                            .filter(|module| !module.is_test)
                            .map(|module| module.name)
                            .collect();
                        format!("compiled modules are not loaded; there are {}", names.join(", "))
                    },
                    str::to_owned,
                ),
            };
            self.error_with(module.span, format!("Could not find VMOD {name}"), help);
            return;
        };
        let name = alias.unwrap_or(module);
        if words::is_of_states(&name.text) {
            self.error(name.span, "Symbols named 'vcl_*' are reserved.");
            return;
        }
        let wrong =
            |kind: &str| format!("Symbol '{}' has wrong type ({kind}), expected vmod:", name.text);
        if let Some(kind) = words::kind_of(&name.text) {
            self.error(name.span, wrong(kind));
            return;
        }
        if let Some(entry) = self.known(&name.text) {
            match entry.symbol {
                Symbol::Module(before) if before.name == found.name => return,
                Symbol::Module(_) => {
                    let message = format!("Another module already imported as {}.", name.text);
                    self.error(name.span, message);
                }
                other => self.error(name.span, wrong(other.kind())),
            }
            return;
        }
        if !self.program.modules.contains(&found.name) {
            self.program.modules.push(found.name);
        }
        self.name(&name.text, Symbol::Module(found), name.span);
    }

    /// Fills in what was declared.
    pub(super) fn define(&mut self, declarations: &[Declaration]) {
        for declaration in declarations {
            match declaration {
                Declaration::Import { module, alias, .. } => {
                    let name = alias.as_ref().unwrap_or(module);
                    self.ready(&name.text);
                }
                Declaration::Acl(acl) => self.define_acl(acl),
                Declaration::Backend(backend) => self.define_backend(backend),
                Declaration::Probe(probe) => {
                    let own = self.program.probes.iter().position(|known| {
                        known.span == probe.name.span && known.name == probe.name.text
                    });
                    let Some(own) = own else { continue };
                    let filled = self.probe(new_probe(&probe.name), &probe.fields);
                    self.program.probes[own] = filled;
                }
                Declaration::Sub { name, body } => self.define_sub(name, body),
            }
        }
    }

    /// What has this name can be used from here on.
    pub(super) fn ready(&mut self, name: &str) {
        if let Some(entry) = self.symbols.get_mut(&*name.to_ascii_lowercase()) {
            entry.is_ready = true;
        }
    }

    fn define_acl(&mut self, acl: &syntax::Acl) {
        let Some(index) = self.program.acls.iter().position(|known| known.span == acl.name.span)
        else {
            return;
        };
        let mut pedantic = true;
        let mut out = Acl::new(acl.name.text.clone(), acl.name.span);
        for (flag, set) in &acl.flags {
            match &*flag.text {
                "log" => out.log = *set,
                "pedantic" => pedantic = *set,
                // How entries are kept is not the policy's business here.
                "table" | "fold" => {}
                _ => self.error_with(
                    flag.span,
                    "Unknown ACL flag:",
                    "there are `log`, `table`, `pedantic` and `fold`",
                ),
            }
        }
        for entry in &acl.entries {
            self.acl_entry(entry, pedantic, &mut out);
        }
        if let Some((one, other)) = out.arrange() {
            let diagnostic = self.report.error(one, "Conflicting ACL entries:");
            diagnostic.related.push((other, "and this one".into()));
        }
        self.program.acls[index] = out;
    }

    fn acl_entry(&mut self, entry: &syntax::AclEntry, pedantic: bool, out: &mut Acl) {
        let at = entry.address.span;
        let (host, mask) = match (entry.address.text.split_once('/'), entry.mask) {
            (Some((_, _)), Some((_, span))) => {
                self.error(span, "/mask only allowed once.");
                return;
            }
            (Some((host, bits)), None) => match bits.parse() {
                Ok(bits) => (host, Some((bits, at))),
                Err(_) => return self.error(at, ".../mask is not numeric."),
            },
            (None, mask) => (&*entry.address.text, mask),
        };
        let (addresses, usual_bits) = match acl::short_network(host) {
            Some((network, bits)) => (vec![network.into()], Some(bits)),
            None => match self.sources.resolve(host, 0) {
                Ok(found) => (found.iter().map(std::net::SocketAddr::ip).collect(), None),
                Err(_) if entry.optional => return,
                Err(why) => {
                    let help = "write `(\"name\")` to ignore a name without an address";
                    return self.error_with(at, format!("DNS lookup({host}): {why}"), help);
                }
            },
        };
        let families = |v4: bool| addresses.iter().any(|address| address.is_ipv4() == v4);
        if let (Some((bits, span)), true, true) = (mask, families(true), families(false)) {
            let message = format!(
                "Mask (/{bits}) specified, but string resolves to both IPv4 and IPv6 addresses."
            );
            return self.error(span, message);
        }
        for address in addresses {
            let width = acl::width(address);
            let wanted = mask.map(|(bits, _)| bits);
            let bits = wanted.unwrap_or_else(|| usual_bits.unwrap_or(width).into());
            let Some(bits) = u8::try_from(bits).ok().filter(|bits| *bits <= width) else {
                let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                let span = mask.map_or(at, |(_, span)| span);
                return self.error(span, format!("Too wide mask (/{bits}) for {family} address"));
            };
            let behind = entry.mask.map_or_else(String::new, |(bits, _)| format!("/{bits}"));
            let mut made = acl::Entry {
                address,
                bits,
                negated: entry.negated,
                text: format!("\"{}\"{behind}", entry.address.text).into(),
                span: entry.span,
            };
            if made.has_bits_behind_mask() {
                made.address = acl::masked(address, bits);
                let meant = format!("{}/{bits}", made.address);
                if pedantic {
                    let message = format!("Non-zero bits in masked part, (maybe use {meant} ?)");
                    return self.error(at, message);
                }
                made.text = format!("{} fixed: {meant}", made.text).into();
            }
            out.entries.push(made);
        }
    }

    pub(super) fn names_of(&self, fits: impl Fn(Symbol) -> bool) -> Vec<String> {
        let entries = self.symbols.iter().filter(|(_, entry)| fits(entry.symbol));
        entries.map(|(name, _)| name.to_string()).collect()
    }
}

pub(super) fn new_probe(name: &Name) -> Probe {
    Probe {
        name: name.text.clone(),
        url: "/".into(),
        request: None,
        expected_response: 200,
        timeout: 2.0,
        interval: 5.0,
        window: 8,
        threshold: 3,
        initial: 2,
        span: name.span,
    }
}
