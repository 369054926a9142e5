//! Our own records on the server's side, one file per duty: what a record layer has to keep to.

mod alerts;
mod closing;
mod differential;
mod handing_over;
mod keys;
mod puppet;
