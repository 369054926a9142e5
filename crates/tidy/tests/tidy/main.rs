//! The project's style tests. Each one prints the offending places and what to do about them.

mod dependencies;
mod layers;
mod ledgers;
mod links;
mod rooms;
mod safety;
mod seams;
mod sentences;
mod size;
mod time;
mod words;
