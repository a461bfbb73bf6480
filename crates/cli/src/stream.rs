//! Wires the campaign's one event stream to its consumers.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use temblor_model::campaign::{CampaignEvent, EventSink};
use temblor_report::console::{Console, Look};
use temblor_report::{JsonSink, Store, StoreFailure, StoreSink};

/// What a campaign tells while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// All of it to people, on standard output.
    People,
    /// All of it to people on standard error, and one JSON object on standard output.
    Json,
    /// Progress and bugs on standard error: beginning and end are the caller's to tell.
    Aside,
}

impl From<bool> for Show {
    fn from(json: bool) -> Show {
        match json {
            true => Show::Json,
            false => Show::People,
        }
    }
}

/// Store first, so that what is announced is safe on disk; then people; then machines.
pub struct Stream {
    sinks: Vec<Box<dyn EventSink>>,
    store_failure: StoreFailure,
    stop: &'static AtomicBool,
    ticking: Arc<AtomicBool>,
}

impl Stream {
    pub fn open(store: Store, show: Show, stop: &'static AtomicBool) -> Stream {
        let store_sink = StoreSink::new(store);
        let store_failure = store_sink.failure();
        let mut sinks: Vec<Box<dyn EventSink>> = vec![Box::new(store_sink)];
        let ticking = Arc::new(AtomicBool::new(true));
        let (out, err) = (std::io::stdout(), std::io::stderr());
        match show {
            Show::People => {
                let console = Console::new(out, Look::of_stdout());
                sinks.push(people(console, &ticking));
            }
            Show::Json => {
                let console = Console::new(err, Look::of_stderr());
                sinks.push(people(console, &ticking));
                sinks.push(Box::new(JsonSink::new(out)));
            }
            Show::Aside => {
                let console = Console::new(err, Look::of_stderr()).in_passing();
                sinks.push(people(console, &ticking));
            }
        }
        Stream {
            sinks,
            store_failure,
            stop,
            ticking,
        }
    }

    /// Adds a consumer of the caller's own.
    pub fn also(&mut self, sink: Box<dyn EventSink>) {
        self.sinks.push(sink);
    }

    /// What went wrong with the store, if anything did.
    pub fn store_failure(&self) -> &StoreFailure {
        &self.store_failure
    }
}

/// A console that is redrawn between events too.
fn people<W: Write + Send + 'static>(
    console: Console<W>,
    ticking: &Arc<AtomicBool>,
) -> Box<dyn EventSink> {
    let console = console.shared();
    let (ticked, on) = (console.clone(), ticking.clone());
    std::thread::spawn(move || {
        while on.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(200));
            ticked.tick();
        }
    });
    Box::new(console)
}

impl EventSink for Stream {
    fn event(&mut self, event: &CampaignEvent) {
        for sink in &mut self.sinks {
            sink.event(event);
        }
        // What cannot be stored must not go on: it would be lost.
        if self.store_failure.first().is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.ticking.store(false, Ordering::Relaxed);
    }
}
