//! The store on simulated drives: the same seed gives the same calls and the same faults.

mod campaign;
mod checkpoint;
mod discard;
mod engine;
mod erase;
mod fuzz;
mod growth;
mod health;
mod month;
mod renewal;
mod variants;
mod world;
