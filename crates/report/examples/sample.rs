//! Writes the made-up campaign of the tests as a store, to look at the pages it gives:
//! `cargo run -p temblor-report --example sample -- <folder>`.

#[path = "../tests/report/sample/mod.rs"]
mod sample;

use std::path::PathBuf;

use temblor_model::campaign::EventSink;
use temblor_report::console::{Console, Look, Paint};
use temblor_report::{Store, StoreSink, publish, terminal_svg};

fn main() {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: sample <folder>: say where the store should be made");
        std::process::exit(254);
    };
    let store = Store::create(&root, &sample::spec(), "20260101T120000").expect("a new store");
    let path = store.path().to_owned();
    let mut sink = StoreSink::new(store);
    let mut text = Vec::new();
    let look = Look {
        live: false,
        colour: true,
        width: Some(100),
    };
    let mut console = Console::new(&mut text, look);
    for event in sample::campaign(&path.display().to_string()) {
        sink.event(&event);
        console.event(&event);
    }
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    let text = String::from_utf8_lossy(&text);
    print!("{text}");
    let store = Store::open(&path).expect("the store");
    store
        .write_catalog(&sample::tasks::catalog())
        .expect("its catalog");
    let mut baseline = sample::baseline();
    baseline.moves = sample::tasks::moves();
    store.write_baseline(&baseline).expect("its baseline");
    publish::campaign(&store).expect("its pages");
    let contest = sample::tasks::contest();
    let folder = contest
        .create_folder(&root, "20260101-130000")
        .expect("a folder");
    publish::contest(&contest, &folder).expect("the comparison");
    for line in contest.lines(Paint(false)) {
        println!("{line}");
    }
    let picture = terminal_svg(&text, "temblor demo");
    std::fs::write(root.join("terminal.svg"), picture).expect("the picture is written");
}
