//! `--json`: the campaign ends with one object on one line.

use std::io::Write;

use temblor_model::campaign::{CampaignEvent, EventSink, Summary};

/// The summary as one line of JSON.
pub fn summary_line(summary: &Summary) -> String {
    // Strings, numbers and lists always serialise; an empty object would only hide a bug of ours.
    serde_json::to_string(summary).expect("a summary is plain data")
}

/// Writes the summary when the campaign has finished, and nothing else.
pub struct JsonSink<W> {
    out: W,
}

impl<W: Write + Send> JsonSink<W> {
    pub fn new(out: W) -> JsonSink<W> {
        JsonSink { out }
    }
}

impl<W: Write + Send> EventSink for JsonSink<W> {
    fn event(&mut self, event: &CampaignEvent) {
        if let CampaignEvent::Finished { summary } = event {
            // Whoever reads the pipe may have gone; the store has the same facts.
            let _ = writeln!(self.out, "{}", summary_line(summary));
            let _ = self.out.flush();
        }
    }
}
