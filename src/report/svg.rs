//! Distributions of latency as a picture: percentiles on a scale that gives each further nine the same room, milliseconds
//! on a logarithmic one. One file without a script; readable in light and dark.

use std::fmt::Write as _;

use super::escaped;
use super::hgrm::Distribution;

/// One line of the picture.
#[derive(Clone, Debug)]
pub struct Curve {
    /// For the legend.
    pub label: String,
    /// Curves of one run have one colour.
    pub colour: usize,
    /// Drawn with gaps: the second curve of a run.
    pub dashed: bool,
    /// Milliseconds.
    pub distribution: Distribution,
}

const WIDTH: f64 = 800.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const LEGEND_ROW: f64 = 20.0;
const PLOT: f64 = 320.0;
const BELOW: f64 = 56.0;
const COLOURS: usize = 6;

// Okabe and Ito's colours, which people who see fewer of them can tell apart; lighter ones on dark ground. No CSS variables:
// many viewers of pictures do not know them.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}.soft{fill:#59636e}\
.ground{fill:#fff}.grid{stroke:#d8dee4;stroke-width:1}.curve{fill:none;stroke-width:2.2;stroke-linejoin:round}\
.dashed{stroke-dasharray:7 5}\
.c0{stroke:#0072b2}.c1{stroke:#d55e00}.c2{stroke:#009e73}.c3{stroke:#cc79a7}.c4{stroke:#8a6d00}.c5{stroke:#4b4b9b}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.ground{fill:#0d1117}.grid{stroke:#30363d}\
.c0{stroke:#56b4e9}.c1{stroke:#ff9d57}.c2{stroke:#3fd0a4}.c3{stroke:#eaa6cb}.c4{stroke:#f0e442}.c5{stroke:#a9a9ff}}";

/// Draws curves under a title and a line that says what was measured.
pub fn percentiles(title: &str, subtitle: &str, curves: &[Curve]) -> String {
    let axes = Axes::fit(curves);
    let mut svg = String::new();
    let height = axes.bottom() + BELOW;
    // Writing to a String does not fail.
    let mut put = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).unwrap_or_default();
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"28\">{}</text>\n\
         <text class=\"soft\" x=\"{LEFT}\" y=\"48\">{}</text>\n",
        escaped(title),
        escaped(title),
        escaped(subtitle)
    ));
    for (row, curve) in curves.iter().enumerate() {
        let y = TOP + (row as f64 + 0.5) * LEGEND_ROW;
        let d = &curve.distribution;
        put(format_args!(
            "<line class=\"curve {}\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\">{} <tspan class=\"soft\">p50 {}, p99 {}, max {}</tspan></text>\n",
            class(curve),
            LEFT + 34.0,
            LEFT + 44.0,
            y + 4.5,
            escaped(&curve.label),
            milliseconds(d.at(0.5)),
            milliseconds(d.at(0.99)),
            milliseconds(d.at(1.0)),
        ));
    }
    let (left, right, top, bottom) = (LEFT, WIDTH - RIGHT, axes.top, axes.bottom());
    for decade in axes.low..=axes.high {
        let y = axes.y(10f64.powi(decade));
        put(format_args!(
            "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
             <text text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>\n",
            left - 8.0,
            y + 4.5,
            milliseconds(10f64.powi(decade))
        ));
    }
    for share in axes.marks() {
        let x = axes.x(share);
        let label = format!("{} %", (share * 1e7).round() / 1e5);
        put(format_args!(
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\
             <text text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>\n",
            bottom + 20.0
        ));
    }
    put(format_args!(
        "<text class=\"soft\" text-anchor=\"middle\" x=\"{}\" y=\"{:.1}\">share of packets that waited no longer</text>\n",
        (left + right) / 2.0,
        bottom + 42.0
    ));
    for curve in curves {
        let points: Vec<String> = axes.points(&curve.distribution).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        put(format_args!("<polyline class=\"curve {}\" points=\"{}\"/>\n", class(curve), points.join(" ")));
    }
    svg + "</svg>\n"
}

fn class(curve: &Curve) -> String {
    format!("c{}{}", curve.colour % COLOURS, if curve.dashed { " dashed" } else { "" })
}

/// Where a share and a value lie in the picture.
struct Axes {
    top: f64,
    /// Powers of ten of milliseconds at the bottom and the top.
    low: i32,
    high: i32,
    /// Nines of the share at the right edge.
    nines: f64,
}

/// Nobody waits for less time than this; zero has no place on a logarithmic scale. Milliseconds.
const SHORTEST: f64 = 0.001;

impl Axes {
    fn fit(curves: &[Curve]) -> Self {
        let values = || curves.iter().flat_map(|c| &c.distribution.points).map(|(_, v)| v.max(SHORTEST).log10());
        let low = values().fold(f64::INFINITY, f64::min).min(0.0).floor() as i32;
        let high = values().fold(f64::NEG_INFINITY, f64::max).max(0.0).ceil() as i32;
        let most = curves.iter().map(|c| c.distribution.count).max().unwrap_or(0).max(10);
        let nines = (most as f64).log10().clamp(2.0, 6.0);
        Axes { top: TOP + curves.len() as f64 * LEGEND_ROW + 12.0, low, high: high.max(low + 1), nines }
    }

    fn bottom(&self) -> f64 {
        self.top + PLOT
    }

    fn x(&self, share: f64) -> f64 {
        let nines = -(1.0 - share).max(1e-12).log10();
        LEFT + nines.min(self.nines) / self.nines * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let decades = f64::from(self.high - self.low);
        self.bottom() - (value.max(SHORTEST).log10() - f64::from(self.low)) / decades * PLOT
    }

    /// The shares that are named below.
    fn marks(&self) -> impl Iterator<Item = f64> {
        let nines = self.nines;
        let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
        shares.into_iter().filter(move |share: &f64| -(1.0 - share).log10() <= nines)
    }

    fn points<'a>(&'a self, distribution: &'a Distribution) -> impl Iterator<Item = (f64, f64)> + 'a {
        distribution.points.iter().map(|(share, value)| (self.x(*share), self.y(*value)))
    }
}

fn milliseconds(value: f64) -> String {
    let digits = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.01 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let short = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(label: &str, points: &[(f64, f64)]) -> Curve {
        let distribution = Distribution { points: points.to_vec(), count: 1000 };
        Curve { label: label.into(), colour: 0, dashed: false, distribution }
    }

    #[test]
    fn each_further_nine_has_the_same_room() {
        let axes = Axes::fit(&[curve("a", &[(0.5, 1.0), (1.0, 100.0)])]);
        let step = axes.x(0.9) - axes.x(0.0);
        assert!((axes.x(0.99) - axes.x(0.9) - step).abs() < 1e-6 && (axes.x(0.999) - axes.x(0.99) - step).abs() < 1e-6);
        assert_eq!(axes.x(1.0), WIDTH - RIGHT, "the largest value is at the edge and not beyond");
    }

    #[test]
    fn each_power_of_ten_has_the_same_room_and_longer_is_higher() {
        let axes = Axes::fit(&[curve("a", &[(0.5, 0.5), (1.0, 600.0)])]);
        assert_eq!((axes.low, axes.high), (-1, 3));
        assert!(axes.y(1.0) > axes.y(10.0));
        assert!((axes.y(1.0) - axes.y(10.0) - (axes.y(10.0) - axes.y(100.0))).abs() < 1e-6);
        assert_eq!(axes.y(0.0), axes.y(SHORTEST));
    }

    #[test]
    fn words_of_a_specification_do_not_break_the_picture() {
        let svg = percentiles("a < b & c", "", &[curve("\"codel\" | tbf", &[(1.0, 1.0)])]);
        assert!(svg.contains("a &lt; b &amp; c") && svg.contains("&quot;codel&quot; | tbf"));
        assert_eq!(svg.matches("<polyline").count(), 1);
    }

    #[test]
    fn milliseconds_have_the_digits_that_say_something() {
        let texts = [0.001, 0.01, 0.1, 1.0, 4.75, 10.0, 33.3, 612.4].map(milliseconds);
        assert_eq!(texts, ["0.001 ms", "0.01 ms", "0.1 ms", "1 ms", "4.75 ms", "10 ms", "33.3 ms", "612 ms"]);
    }
}
