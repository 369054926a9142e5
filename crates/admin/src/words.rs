//! What operators have said on the command line, and the process that takes over is to know, from a file of the node's
//! directory: a process of another version, which knows no such file, starts as it always has.

use freshet_base::clock::UnixMillis;
use freshet_base::private;
use freshet_limits::{Block, Cause};
use freshet_node::node::Node;
use freshet_node::sites::Sites;
use freshet_origin::health::Override;
use rustix::process::getppid;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::{fs, io, process};

/// The file.
const FILE: &str = "said.json";

/// Words in force: which sites serve nobody, or do although their configuration says otherwise, which origins are out
/// or in whatever their probes say, and whom nobody serves.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Words {
    maintenance: Vec<SiteWord>,
    origins: Vec<OriginWord>,
    blocks: Vec<BlockWord>,
}

/// What is in the file.
#[derive(Deserialize, Serialize)]
struct Left {
    /// Whose words they are: its child is meant, and nobody who finds them later.
    process: u32,
    words: Words,
}

/// Of a site that was spoken of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct SiteWord {
    site: String,
    /// What its configuration said then: where that changes, the configuration has the last word.
    configured: bool,
    on: bool,
}

/// Of an origin that was spoken of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct OriginWord {
    name: String,
    /// Another one of its name is not meant.
    address: String,
    up: bool,
}

/// Of a network that is blocked.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct BlockWord {
    network: String,
    site: Option<String>,
    until_ms: u64,
    /// Who blocked it: a limit of this name, or else somebody who said why.
    is_by_limit: bool,
    why: String,
}

impl Words {
    /// What holds now.
    pub fn of(node: &Node) -> Self {
        let snapshot = node.snapshot();
        let maintenance = snapshot.sites.all().iter().filter_map(|site| {
            let (configured, on) = (site.settings.maintenance.enabled, site.maintenance.is_on());
            (configured != on).then(|| SiteWord {
                site: site.name.as_str().to_owned(),
                configured,
                on,
            })
        });
        let origins = snapshot.sites.origins().filter_map(|(name, origin)| {
            let up = match origin.health.spoken() {
                Override::Auto => return None,
                Override::Up => true,
                Override::Down => false,
            };
            let address = origin.settings.address.to_string();
            Some(OriginWord { name: name.into_owned(), address, up })
        });
        let blocks = node.shared.limiter.blocks.list(UnixMillis::now().0).into_iter();
        Self {
            maintenance: maintenance.collect(),
            origins: origins.collect(),
            blocks: blocks.map(BlockWord::of).collect(),
        }
    }

    /// Leaves them for the process that this one is about to start.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn leave(self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(&Left { process: process::id(), words: self })?;
        private::replace(&directory.join(FILE), &text)
    }

    /// What was said to the process that started this one, to take over from it; nothing where this one begins.
    pub fn hear(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let Ok(text) = fs::read(&path) else { return Self::default() };
        // Said once.
        let _ = fs::remove_file(&path);
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
        match serde_json::from_slice::<Left>(&text) {
            Ok(left) if Some(left.process) == parent => left.words,
            Ok(_) => Self::default(),
            Err(error) => {
                tracing::warn!(%error, "what was said to the process before is not understood");
                Self::default()
            }
        }
    }

    /// Has sites and their origins be as was said, before anybody is served by them.
    pub fn tell_sites(&self, sites: &Sites) {
        for word in &self.maintenance {
            let site = sites.named(&word.site);
            if let Some(site) =
                site.filter(|site| site.settings.maintenance.enabled == word.configured)
            {
                site.maintenance.set(word.on);
            }
        }
        let words: HashMap<&str, &OriginWord> =
            self.origins.iter().map(|word| (word.name.as_str(), word)).collect();
        let now = UnixMillis::now();
        for (name, origin) in sites.origins().filter(|_| !words.is_empty()) {
            let word = words.get(&*name);
            if let Some(word) =
                word.filter(|word| word.address == origin.settings.address.to_string())
            {
                let word = if word.up { Override::Up } else { Override::Down };
                origin.health.set_override(word, now);
            }
        }
    }

    /// Blocks whom the node is not to serve.
    pub fn tell_node(&self, node: &Node) {
        let now = UnixMillis::now().0;
        for block in self.blocks.iter().filter_map(BlockWord::block) {
            if let Err(error) = node.shared.limiter.blocks.add(block, now) {
                return tracing::warn!(%error, "not all blocks were taken over");
            }
        }
    }
}

impl BlockWord {
    fn of(block: Block) -> Self {
        let Block { network, site, until_ms, cause } = block;
        let (is_by_limit, why) = match cause {
            Cause::Limit(name) => (true, name),
            Cause::Asked(why) => (false, why),
        };
        let site = site.map(|site| site.as_ref().to_owned());
        Self { network: network.to_string(), site, until_ms, is_by_limit, why: (*why).to_owned() }
    }

    fn block(&self) -> Option<Block> {
        let why = self.why.as_str().into();
        Some(Block {
            network: self.network.parse().ok()?,
            site: self.site.as_deref().map(Into::into),
            until_ms: self.until_ms,
            cause: if self.is_by_limit { Cause::Limit(why) } else { Cause::Asked(why) },
        })
    }
}
