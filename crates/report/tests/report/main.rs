//! Tests of the report crate on a made-up campaign: store, console, pages, comparisons, CI files.

mod ci;
mod compare;
mod console;
mod explain;
mod folded;
mod index;
mod keep;
mod pages;
mod sample;
mod store;
