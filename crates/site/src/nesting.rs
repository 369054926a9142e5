//! Where an include of a page is, and what the page has come to so far.

use crate::sites::SiteRef;
use freshet_access::identity::Identity;
use freshet_base::clock::UnixMillis;
use freshet_http::message::RequestHead;
use std::cell::Cell;
use std::rc::Rc;

/// Where an include is: within which page, and for whom.
#[derive(Debug)]
pub struct Nesting {
    /// How deep; 1 is an include of the page a client asked for.
    pub level: u32,
    /// The outermost request as its policy left it.
    pub top: RequestHead,
    /// When that came.
    pub top_received: UnixMillis,
    /// The request of the page as it came.
    pub original: RequestHead,
    /// Whether the page is sent under gzip, so that includes under gzip are welcome.
    pub is_packed: bool,
    /// Whether includes are asked for under gzip: where the page is sent like that, and by a policy where it is
    /// kept like that.
    pub asks_for_gzip: bool,
    /// What the outermost page and all within it have come to so far.
    pub spent: Rc<Spent>,
    /// The site the page is of.
    pub site: SiteRef,
    /// Whom the page is for, where its request had to say.
    pub identity: Option<Rc<Identity>>,
}

/// What putting one page together costs, over the page a client asked for and all within it.
#[derive(Debug, Default)]
pub struct Spent {
    includes: Cell<u32>,
    bytes: Cell<u64>,
}

impl Spent {
    /// Counts an include; how many came before it.
    pub fn include(&self) -> u32 {
        let before = self.includes.get();
        self.includes.set(before.saturating_add(1));
        before
    }

    /// Counts bytes for the client; how many there are now.
    pub fn add(&self, bytes: usize) -> u64 {
        let sum = self.bytes.get().saturating_add(bytes as u64);
        self.bytes.set(sum);
        sum
    }
}
