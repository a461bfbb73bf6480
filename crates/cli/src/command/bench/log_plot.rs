//! Points on logarithmic axes, as text, and the power of one quantity that another grows as.

use serde::Serialize;

const WIDTH: usize = 72;
const HEIGHT: usize = 16;

/// A measured pair; what is not positive is left out.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub mark: char,
    pub x: f64,
    pub y: f64,
}

/// `y = scale * x^exponent`, by least squares of the logarithms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fit {
    pub exponent: f64,
    pub scale: f64,
    pub points: usize,
}

/// The logarithms of the points that have them.
fn logs(points: &[Point]) -> Vec<(char, f64, f64)> {
    let positive = points.iter().filter(|p| p.x > 0.0 && p.y > 0.0);
    positive.map(|p| (p.mark, p.x.ln(), p.y.ln())).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// Nothing where there are not two different x.
pub fn fit(points: &[Point]) -> Option<Fit> {
    let logs = logs(points);
    let mean_x = mean(logs.iter().map(|l| l.1));
    let mean_y = mean(logs.iter().map(|l| l.2));
    let spread: f64 = logs.iter().map(|l| (l.1 - mean_x).powi(2)).sum();
    let shared: f64 = logs.iter().map(|l| (l.1 - mean_x) * (l.2 - mean_y)).sum();
    (spread > 1e-9).then(|| {
        let exponent = shared / spread;
        Fit {
            exponent,
            scale: (mean_y - exponent * mean_x).exp(),
            points: logs.len(),
        }
    })
}

/// One axis: where a value lies among so many cells.
struct Axis {
    low: f64,
    high: f64,
    cells: usize,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, cells: usize) -> Axis {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| {
            (low.min(v), high.max(v))
        });
        Axis { low, high, cells }
    }

    fn cell(&self, value: f64) -> Option<usize> {
        let share = (value - self.low) / (self.high - self.low).max(1e-9);
        let cell = (share * (self.cells - 1) as f64).round();
        (0.0..self.cells as f64)
            .contains(&cell)
            .then_some(cell as usize)
    }
}

/// The points by their marks; the dots are the line of linear growth through their middle.
pub fn draw(points: &[Point], y_name: &str, x_name: &str) -> String {
    let logs = logs(points);
    let x = Axis::over(logs.iter().map(|l| l.1), WIDTH);
    let y = Axis::over(logs.iter().map(|l| l.2), HEIGHT);
    let mut cells = vec![[' '; WIDTH]; HEIGHT];
    let middle = mean(logs.iter().map(|l| l.2 - l.1));
    let dots = (0..WIDTH).filter_map(|column| {
        let at = x.low + (x.high - x.low) * column as f64 / (WIDTH - 1) as f64;
        Some((column, y.cell(at + middle)?, '.'))
    });
    let place =
        |(mark, at_x, at_y): &(char, f64, f64)| Some((x.cell(*at_x)?, y.cell(*at_y)?, *mark));
    for (column, row, mark) in dots.chain(logs.iter().filter_map(place)) {
        cells[row][column] = mark;
    }
    let mut out = format!("{y_name:>9}\n");
    for (row, line) in cells.iter().enumerate().rev() {
        let label = match row {
            0 => format!("{:.2}", y.low.exp()),
            row if row == HEIGHT - 1 => format!("{:.2}", y.high.exp()),
            _ => String::new(),
        };
        let line: String = line.iter().collect();
        out += &format!("{label:>9} |{}\n", line.trim_end());
    }
    out += &format!("{:>9} +{}\n", "", "-".repeat(WIDTH));
    let (low, high) = (
        format!("{:.2}", x.low.exp()),
        format!("{:.2}", x.high.exp()),
    );
    let room = WIDTH - low.len() - high.len();
    out += &format!("{:>11}{low}{x_name:^room$}{high}\n", "");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: impl Fn(f64) -> f64) -> Vec<Point> {
        let point = |(mark, x): (char, f64)| Point { mark, x, y: law(x) };
        [('a', 0.01), ('b', 0.2), ('c', 3.0), ('d', 40.0)]
            .map(point)
            .into()
    }

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        for exponent in [0.5, 1.0, 2.0] {
            let fit = fit(&points(|x| 0.3 * x.powf(exponent))).unwrap();
            assert!((fit.exponent - exponent).abs() < 1e-9, "{fit:?}");
            assert!((fit.scale - 0.3).abs() < 1e-9 && fit.points == 4, "{fit:?}");
        }
    }

    #[test]
    fn too_little_to_tell_gives_no_fit() {
        assert!(fit(&[]).is_none());
        assert!(fit(&points(|x| x)[..1]).is_none());
        let same = Point {
            mark: 'a',
            x: 2.0,
            y: 3.0,
        };
        assert!(fit(&[same, Point { y: 4.0, ..same }]).is_none());
        assert!(
            fit(&[same, Point { x: 0.0, ..same }]).is_none(),
            "no logarithm of 0"
        );
    }

    #[test]
    fn linear_growth_lies_on_the_dots() {
        let text = draw(&points(|x| 0.5 * x), "seconds", "MB");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  seconds");
        assert!(
            lines[1].starts_with("    20.00 |") && lines[1].ends_with(".d"),
            "{text}"
        );
        assert!(lines[HEIGHT].starts_with("     0.01 |a."), "{text}");
        assert!(
            lines[HEIGHT + 2].trim_start().starts_with("0.01 "),
            "{text}"
        );
        assert!(lines[HEIGHT + 2].ends_with(" 40.00"), "{text}");
        assert!(lines.iter().all(|l| l.len() <= 100), "{text}");
        for mark in ['a', 'b', 'c', 'd'] {
            let marked = lines[1..=HEIGHT].iter().filter(|l| l[11..].contains(mark));
            assert_eq!(marked.count(), 1, "{mark}: {text}");
        }
    }

    #[test]
    fn growth_that_is_steeper_leaves_the_dots() {
        let dotted = |law: fn(f64) -> f64| -> Vec<usize> {
            let text = draw(&points(law), "seconds", "MB");
            let lines = text.lines().skip(1).take(HEIGHT).enumerate();
            let dotted = lines.filter(|(_, l)| l[11..].contains('.'));
            dotted.map(|(row, _)| row).collect()
        };
        let all: Vec<usize> = (0..HEIGHT).collect();
        assert_eq!(dotted(|x| x), all);
        let steep = dotted(|x| x * x);
        assert!(
            !steep.contains(&0) && !steep.contains(&(HEIGHT - 1)),
            "{steep:?}"
        );
        assert!((HEIGHT / 3..HEIGHT).contains(&steep.len()), "{steep:?}");
    }
}
