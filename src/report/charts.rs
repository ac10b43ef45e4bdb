//! Pictures of a run as SVG without a script: series over time, and distributions with a log tail.
//! Colours come from the page (`page.rs`), so that they fit light and dark.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::escaped;

/// Size of a picture, and the room for its axes.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;
/// Lines that have a colour and a name in the legend; more would not be told apart and stay grey.
pub const NAMED: usize = 8;

/// A line of a picture.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points; `x` must not fall.
    pub points: Vec<(f64, f64)>,
}

/// What an axis says.
pub struct Axes<'a> {
    /// Under the picture.
    pub x: &'a str,
    /// At its side.
    pub y: &'a str,
    /// Whether `y` is logarithmic.
    pub log: bool,
}

/// A round step that makes about five of `span`.
fn step(span: f64) -> f64 {
    let raw = (span / 5.0).max(1e-12);
    let power = 10f64.powf(raw.log10().floor());
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|n| n * power >= raw).unwrap_or(10.0);
    nice * power
}

/// The nearest of 1, 2, 5 × 10ⁿ that are not above and not below.
fn rounds(x: f64) -> (f64, f64) {
    let power = 10f64.powf(x.log10().floor());
    let at = |wanted: &dyn Fn(f64) -> bool| {
        [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().filter(|y| wanted(*y)).collect::<Vec<_>>()
    };
    let below = at(&|y| y <= x * 1.000_001).last().copied().unwrap_or(power);
    let above = at(&|y| y >= x * 0.999_999).first().copied().unwrap_or(10.0 * power);
    (below, above)
}

fn number(x: f64) -> String {
    let text = if x.abs() >= 100.0 || x == x.trunc() { format!("{x:.0}") } else { format!("{x:.3}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// The scale of the vertical axis.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    fn of(lines: &[Line], log: bool) -> Scale {
        let values = || lines.iter().flat_map(|l| l.points.iter().map(|p| p.1)).filter(|y| !log || *y > 0.0);
        let high = values().fold(0.0, f64::max);
        if log {
            let low = values().fold(f64::MAX, f64::min).min(high);
            let low = rounds(low.max(1e-6)).0;
            Scale { low, high: rounds(high.max(low * 1.5)).1, log }
        } else {
            let tick = step(high.max(1e-9));
            Scale { low: 0.0, high: (high.max(1e-9) / tick).ceil() * tick, log }
        }
    }

    /// The share of the height, from below.
    fn share(&self, y: f64) -> f64 {
        if self.log {
            (y.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (y - self.low) / (self.high - self.low)
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            // Within two decades there is room for more than powers of ten.
            let few = self.high / self.low <= 100.0;
            let steps: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let all = (first..=last).flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
            return all.filter(|y| (self.low * 0.999..=self.high * 1.001).contains(y)).collect();
        }
        let tick = step(self.high);
        (0..).map(|i| f64::from(i) * tick).take_while(|y| *y <= self.high * 1.0001).collect()
    }
}

/// Lines over a common `x` axis.
pub fn lines(axes: &Axes<'_>, lines: &[Line]) -> String {
    let last = lines.iter().flat_map(|l| l.points.last()).map(|p| p.0).fold(1e-9, f64::max);
    let tick = step(last);
    let ticks: Vec<(f64, String)> =
        (0..).map(|i| f64::from(i) * tick).take_while(|x| *x <= last * 1.0001).map(|x| (x / last, number(x))).collect();
    picture(axes, lines, &ticks, |x| x / last)
}

/// Distributions of ns as percentiles in ms; each further nine has the same room.
pub fn percentiles(y: &str, histograms: &[(String, Histogram<u64>)]) -> String {
    let nines = 5.0;
    let share = |q: f64| (-(1.0 - q).max(10f64.powf(-nines)).log10() / nines).clamp(0.0, 1.0);
    let curve = |(name, h): &(String, Histogram<u64>)| Line {
        name: name.clone(),
        points: h.iter_quantiles(4).map(|v| (v.quantile_iterated_to(), v.value_iterated_to() as f64 / 1e6)).collect(),
    };
    let curves: Vec<Line> = histograms.iter().filter(|(_, h)| !h.is_empty()).map(curve).collect();
    let ticks = [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")];
    let ticks: Vec<(f64, String)> = ticks.iter().map(|(q, t)| (share(*q), t.to_string())).collect();
    picture(&Axes { x: "percentile", y, log: true }, &curves, &ticks, share)
}

fn picture(axes: &Axes<'_>, lines: &[Line], ticks: &[(f64, String)], share: impl Fn(f64) -> f64) -> String {
    let scale = Scale::of(lines, axes.log);
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let x_at = |x: f64| LEFT + share(x) * width;
    let y_at = |y: f64| TOP + (1.0 - scale.share(y)) * height;
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escaped(axes.y));
    for y in scale.ticks() {
        let at = y_at(y);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            number(y)
        );
    }
    for (x, text) in ticks {
        let at = LEFT + x * width;
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            HEIGHT - BOTTOM + 16.0
        );
    }
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text class=\"axis\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        LEFT + width / 2.0,
        HEIGHT - 6.0,
        escaped(axes.x),
        TOP + height / 2.0,
        escaped(axes.y)
    );
    // The grey ones first, so that they lie below.
    let grey = lines.iter().skip(NAMED).map(|line| ("many".to_string(), line));
    let coloured = lines.iter().take(NAMED).enumerate().map(|(i, line)| (format!("c{i}"), line));
    for (class, line) in grey.chain(coloured) {
        let points: Vec<String> = line
            .points
            .iter()
            .filter(|(_, y)| !axes.log || *y > 0.0)
            .map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y)))
            .collect();
        let _ = write!(
            out,
            "<polyline class=\"{class}\" points=\"{}\"><title>{}</title></polyline>",
            points.join(" "),
            escaped(&line.name)
        );
    }
    out.push_str("</svg>");
    legend(&mut out, lines);
    out
}

/// States over time: a row for each name, a colour for each state. The state of a moment is that at
/// the end of the step before it.
pub fn bands(x: &str, states: &[&str], rows: &[(String, Vec<(f64, usize)>)]) -> String {
    const ROW: f64 = 18.0;
    let last = rows.iter().flat_map(|r| r.1.last()).map(|p| p.0).fold(1e-9, f64::max);
    let (width, height) = (WIDTH - LEFT - RIGHT, TOP + BOTTOM + ROW * rows.len() as f64);
    let at = |x: f64| LEFT + x / last * width;
    let mut out =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", escaped(&states.join(", ")));
    for (i, (name, points)) in rows.iter().enumerate() {
        let y = TOP + i as f64 * ROW;
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 12.0,
            escaped(name)
        );
        let mut from = 0.0;
        for (j, (to, state)) in points.iter().enumerate() {
            if points.get(j + 1).is_some_and(|next| next.1 == *state) {
                continue;
            }
            let _ = write!(
                out,
                "<rect class=\"c{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                state % 8,
                at(from),
                at(*to) - at(from),
                ROW - 4.0,
                escaped(states.get(*state).copied().unwrap_or(""))
            );
            from = *to;
        }
    }
    let tick = step(last);
    for x in (0..).map(|i| f64::from(i) * tick).take_while(|x| *x <= last * 1.0001) {
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            at(x),
            height - BOTTOM + 16.0,
            number(x)
        );
    }
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></svg>",
        LEFT + width / 2.0,
        height - 6.0,
        escaped(x)
    );
    let names: Vec<Line> = states.iter().map(|s| Line { name: s.to_string(), points: Vec::new() }).collect();
    legend(&mut out, &names);
    out
}

fn legend(out: &mut String, lines: &[Line]) {
    out.push_str("<p class=\"legend\">");
    for (i, line) in lines.iter().take(NAMED).enumerate() {
        let _ = write!(out, "<span><i class=\"c{i}\"></i>{}</span>", escaped(&line.name));
    }
    if lines.len() > NAMED {
        let _ = write!(out, "<span><i class=\"many\"></i>and {} more</span>", lines.len() - NAMED);
    }
    out.push_str("</p>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        Line { name: "a<b".into(), points: points.to_vec() }
    }

    #[test]
    fn steps_are_round_numbers() {
        assert_eq!([7.0, 48.0, 100.0, 0.3].map(step), [2.0, 10.0, 20.0, 0.1]);
    }

    #[test]
    fn a_logarithmic_axis_has_no_more_room_than_its_values_need() {
        let scale = Scale::of(&[line(&[(0.0, 1005.0), (1.0, 1030.0)])], true);
        assert_eq!((scale.low, scale.high, scale.ticks()), (1000.0, 2000.0, vec![1000.0, 2000.0]));
        let scale = Scale::of(&[line(&[(0.0, 0.03), (1.0, 120.0)])], true);
        let ticks: Vec<String> = scale.ticks().into_iter().map(number).collect();
        assert_eq!((scale.low, scale.high, ticks), (0.02, 200.0, ["0.1", "1", "10", "100"].map(String::from).to_vec()));
    }

    #[test]
    fn more_lines_than_colours_stay_grey_below_the_others() {
        let many: Vec<Line> = (0..10).map(|_| line(&[(0.0, 1.0), (1.0, 2.0)])).collect();
        let svg = lines(&Axes { x: "s", y: "ms", log: false }, &many);
        assert_eq!(svg.matches("<polyline class=\"many\"").count(), 2);
        assert!(svg.rfind("class=\"many\" points").unwrap() < svg.find("class=\"c0\" points").unwrap());
        assert!(svg.contains("and 2 more"));
    }

    #[test]
    fn a_line_from_corner_to_corner_ends_in_the_corners() {
        let svg = lines(&Axes { x: "s", y: "Mbit/s", log: false }, &[line(&[(0.0, 0.0), (10.0, 100.0)])]);
        assert!(svg.contains("points=\"64.0,240.0 846.0,14.0\""), "{svg}");
        assert!(svg.contains("a&lt;b"));
    }

    #[test]
    fn a_state_that_lasts_is_one_band() {
        let rows = [("a".to_string(), vec![(1.0, 0), (2.0, 0), (4.0, 2)])];
        let svg = bands("s", &["up", "idle", "down"], &rows);
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert!(svg.contains("<rect class=\"c2\" x=\"455.0\" y=\"14.0\" width=\"391.0\""), "{svg}");
        assert!(bands("s", &[], &[]).starts_with("<svg"));
    }

    #[test]
    fn nothing_at_all_is_a_picture_too() {
        let svg = lines(&Axes { x: "s", y: "ms", log: true }, &[line(&[])]);
        assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{svg}");
    }
}
