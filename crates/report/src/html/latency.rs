//! The operations of a trial as a scatter: when each began, how long it took, how it ended.

use temblor_model::event::Stage;

use super::plot::{Plot, Scale, Shape, shape_key};
use crate::timeline::{Band, BandKind, Bar, OpEnd, Timeline};
use crate::timeline_svg::{GUTTER, RIGHT, WIDTH, nice_step};
use crate::view::{BugView, seconds};

const HEIGHT: f64 = 320.0;
/// Operations drawn; of more that ended well each n-th is left.
const OK_MOST: usize = 3000;
/// Operations that took less are drawn as if they took this long, in milliseconds.
const LEAST_MS: f64 = 0.1;

/// The section; nothing where no operation was made.
pub(super) fn section(view: &BugView, timeline: &Timeline) -> String {
    let clients = timeline.lanes.iter().filter(|l| !l.is_node);
    let bars: Vec<&Bar> = clients.flat_map(|l| &l.bars).collect();
    if bars.is_empty() {
        return String::new();
    }
    let ok = bars.iter().filter(|b| b.end == OpEnd::Ok).count();
    let every = ok.div_ceil(OK_MOST).max(1);
    let left_out = match every {
        1 => String::new(),
        n => format!(" Of the operations that ended well, one in {n} is drawn."),
    };
    format!(
        "<section><h2>Latency of operations</h2>\n<div class=\"scroll\">{}</div>\n\
         <p class=\"legend\">{}</p>\n\
         <p class=\"dim\">Each mark stands where its operation began; real time, as above, on a \
         logarithmic scale. An arrow is an operation that never ended: it took at least this \
         long.{left_out}</p></section>\n",
        draw(view, timeline, &bars, every),
        keys()
    )
}

fn form(end: OpEnd) -> (Shape, &'static str) {
    match end {
        OpEnd::Ok => (Shape::Circle, "ok"),
        OpEnd::Fail => (Shape::Square, "failed"),
        OpEnd::Timeout => (Shape::Triangle, "timeout"),
        OpEnd::Wrong => (Shape::Cross, "wrong"),
        OpEnd::Never => (Shape::Arrow, "never ended"),
    }
}

const ENDS: [OpEnd; 5] = [
    OpEnd::Ok,
    OpEnd::Fail,
    OpEnd::Timeout,
    OpEnd::Wrong,
    OpEnd::Never,
];

fn keys() -> String {
    let key = |end: OpEnd| {
        let (shape, name) = form(end);
        shape_key(shape, end.name(), name)
    };
    let bands = "<span><i class=\"key band-delay\"></i>delayed</span>\n\
                 <span><i class=\"key band-pause\"></i>paused</span>\n\
                 <span><i class=\"key band-down\"></i>down</span>\n\
                 <span><i class=\"key band-partition\"></i>cut off</span>\n";
    ENDS.map(key).concat() + bands
}

fn took_ms(bar: &Bar) -> f64 {
    (bar.to_us.saturating_sub(bar.from_us) as f64 / 1000.0).max(LEAST_MS)
}

fn draw(view: &BugView, timeline: &Timeline, bars: &[&Bar], every: usize) -> String {
    let usual = view.usual_op_ms.map(|ms| ms as f64);
    let all = || bars.iter().map(|b| took_ms(b)).chain(usual);
    let (least, most) = (
        all().fold(f64::MAX, f64::min),
        all().fold(LEAST_MS, f64::max),
    );
    let y = Scale::Log {
        from: least * 0.7,
        to: (most * 1.6).max(least * 10.0),
    };
    let x = Scale::Linear {
        from: timeline.from_us as f64,
        to: timeline.to_us as f64,
    };
    // The same left and right ends as the timeline above it: what happened at one time stands
    // at one place.
    let mut plot = Plot::wide(HEIGHT, x, y);
    (plot.width, plot.left, plot.right) = (WIDTH, GUTTER, RIGHT);
    (plot.top, plot.bottom) = (26.0, 26.0);
    bands(&mut plot, timeline);
    plot.y_axis(|ms| {
        seconds((ms * 1000.0) as u64)
            .replace(".0 ", " ")
            .replace(".00 ", " ")
    });
    time_axis(&mut plot, timeline);
    stages(&mut plot, timeline);
    if let Some(ms) = usual {
        plot.level("usual", ms, "clean runs: nearly all within this");
    }
    faults(&mut plot, timeline);
    for end in ENDS {
        let (shape, _) = form(end);
        let (r, every) = match end {
            OpEnd::Ok => (2.2, every),
            _ => (4.0, 1),
        };
        for bar in bars.iter().filter(|b| b.end == end).step_by(every) {
            let title = format!("{}, {}", bar.text, seconds(bar.to_us - bar.from_us));
            let at = (bar.from_us as f64, took_ms(bar));
            plot.mark(shape, end.name(), at, r, &title);
        }
    }
    plot.svg("Latency of operations over time")
}

/// The times of faults that last, once each: a partition holds for every node.
fn bands(plot: &mut Plot, timeline: &Timeline) {
    let mut bands: Vec<&Band> = timeline.lanes.iter().flat_map(|l| &l.bands).collect();
    bands.sort_by_key(|b| (b.from_us, b.to_us));
    bands.dedup_by_key(|b| (b.from_us, b.to_us, b.kind));
    for band in bands {
        let class = match band.kind {
            BandKind::Starting => continue,
            BandKind::Delay => "delay",
            BandKind::Pause => "pause",
            BandKind::Down => "down",
            BandKind::Partition => "partition",
        };
        let (x, to) = (plot.px(band.from_us as f64), plot.px(band.to_us as f64));
        let (top, tall) = (plot.top, plot.ground() - plot.top);
        plot.piece(format_args!(
            "<g class=\"span {class}\"><title>{}, {}</title><rect x=\"{x:.1}\" y=\"{top}\" \
             width=\"{:.1}\" height=\"{tall:.1}\"/></g>",
            crate::escape::html(&band.text),
            seconds(band.to_us.saturating_sub(band.from_us)),
            (to - x).max(1.0)
        ));
    }
}

fn stages(plot: &mut Plot, timeline: &Timeline) {
    let ground = plot.ground();
    for (i, (at, stage)) in timeline.stages.iter().enumerate() {
        let end = timeline.stages.get(i + 1).map_or(timeline.to_us, |s| s.0);
        if end < timeline.from_us || *stage == Stage::Start && *at < timeline.from_us {
            continue;
        }
        let (x, to) = (plot.px(*at as f64), plot.px(end as f64));
        plot.piece(format_args!(
            "<line class=\"stage-line\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{ground:.1}\"/>"
        ));
        let name = stage.name();
        if to - x > name.len() as f64 * 7.0 + 8.0 {
            plot.piece(format_args!(
                "<text x=\"{:.1}\" y=\"13\">{name}</text>",
                x + 5.0
            ));
        }
    }
}

fn faults(plot: &mut Plot, timeline: &Timeline) {
    let ground = plot.ground();
    let top = plot.top;
    for (i, fault) in timeline.faults.iter().enumerate() {
        let x = plot.px(fault.at_us as f64);
        plot.piece(format_args!(
            "<g class=\"fault\"><title>{}</title><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" \
             y2=\"{ground:.1}\"/></g><g class=\"dot\"><title>{0}</title><circle cx=\"{x:.1}\" \
             cy=\"{:.1}\" r=\"7.5\"/><text x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
            crate::escape::html(&fault.text),
            top - 9.0,
            top - 5.2,
            i + 1
        ));
    }
}

fn time_axis(plot: &mut Plot, timeline: &Timeline) {
    let step = nice_step(timeline.to_us.saturating_sub(timeline.from_us) as f64 / 12.0);
    let ground = plot.ground();
    let mut at = timeline.from_us.div_ceil(step) * step;
    while at <= timeline.to_us {
        let x = plot.px(at as f64);
        let digits = match step {
            0..100_000 => 2,
            100_000..1_000_000 => 1,
            _ => 0,
        };
        plot.piece(format_args!(
            "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{ground:.1}\" y2=\"{:.1}\"/>\
             <text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{:.digits$} s</text>",
            ground + 4.0,
            ground + 17.0,
            at as f64 / 1e6
        ));
        at += step;
    }
}
