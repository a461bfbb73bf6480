//! Wires the campaign's one event stream to its consumers.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use temblor_model::campaign::{CampaignEvent, EventSink};
use temblor_report::console::{Console, Look};
use temblor_report::{JsonSink, Store, StoreFailure, StoreSink};

/// Store first, so that what is announced is safe on disk; then people; then machines.
pub struct Stream {
    sinks: Vec<Box<dyn EventSink>>,
    store_failure: StoreFailure,
    stop: &'static AtomicBool,
    ticking: Arc<AtomicBool>,
}

impl Stream {
    pub fn open(store: Store, json: bool, stop: &'static AtomicBool) -> Stream {
        let store_sink = StoreSink::new(store);
        let store_failure = store_sink.failure();
        let mut sinks: Vec<Box<dyn EventSink>> = vec![Box::new(store_sink)];
        let ticking = Arc::new(AtomicBool::new(true));
        if json {
            sinks.push(people(std::io::stderr(), Look::of_stderr(), &ticking));
            sinks.push(Box::new(JsonSink::new(std::io::stdout())));
        } else {
            sinks.push(people(std::io::stdout(), Look::of_stdout(), &ticking));
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
    out: W,
    look: Look,
    ticking: &Arc<AtomicBool>,
) -> Box<dyn EventSink> {
    let console = Console::new(out, look).shared();
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
