//! Tests of the report crate on a made-up campaign: store, console, pages, comparisons, CI files.

mod ci;
mod compare;
mod console;
mod contest;
mod explain;
mod folded;
mod index;
mod keep;
mod lengths;
mod machines;
mod pages;
mod sample;
mod store;
