//! Tests of the report crate on a made-up campaign: store, console, pages.

mod console;
mod pages;
mod sample;
mod store;
