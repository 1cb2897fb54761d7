//! Plots as SVG, drawn with plotters. Colours are names of a palette that the page sets, so that a plot is readable on light and dark ground.

use super::panel::{Line, Plot, Unit, number};
use super::summary::Span;
use maud::{Markup, html};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A colour of the palette: on light ground, on dark ground, and whether its lines are dashed. They can be told apart by who sees no red
/// or no green.
pub(super) const PALETTE: [(RGBColor, RGBColor, bool); 8] = [
    (RGBColor(0, 114, 178), RGBColor(86, 180, 233), false),
    (RGBColor(213, 94, 0), RGBColor(255, 146, 72), false),
    (RGBColor(0, 158, 115), RGBColor(60, 208, 164), false),
    (RGBColor(170, 68, 153), RGBColor(230, 150, 210), false),
    (RGBColor(140, 109, 0), RGBColor(236, 208, 90), true),
    (RGBColor(90, 90, 96), RGBColor(186, 186, 194), true),
    (RGBColor(17, 119, 51), RGBColor(120, 214, 150), true),
    (RGBColor(136, 34, 85), RGBColor(240, 120, 170), true),
];

const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 300;
const TEXT: (&str, u32) = ("sans-serif", 17);
/// Half the width of a bar, of one from each to the next.
const BAR: f64 = 0.42;
/// Characters of a bar's name on the axis; its tooltip has all.
const BAR_NAME: usize = 14;
/// Strips with a tooltip at most.
const STRIPS_MAX: usize = 160;

/// A plot that is drawn.
pub(super) struct Drawing {
    /// The picture, an `svg` element.
    pub(super) svg: String,
    /// Names of what has a colour, in the order of the palette, with their marks.
    pub(super) legend: Vec<(Mark, String)>,
}

/// How something is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Line,
    Circle,
    Ring,
    Triangle,
    Cross,
}

/// Marks of points, in the order of their lines.
const POINT_MARKS: [Mark; 4] = [Mark::Circle, Mark::Ring, Mark::Triangle, Mark::Cross];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn<T> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// A colour as plotters writes it into an attribute, which is where the page's style finds it.
pub(super) fn attribute(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// The colour of a line.
pub(super) const fn colour(line: usize) -> RGBColor {
    PALETTE[line % PALETTE.len()].0
}

/// An axis: what a value is multiplied by, and what it counts then.
pub(super) fn scale(unit: Unit, highest: f64) -> (f64, &'static str) {
    match unit {
        Unit::GbitPerSecond if highest >= 1e3 => (1e-3, "Tbit/s"),
        Unit::GbitPerSecond if highest < 0.1 && highest > 0.0 => (1e3, "Mbit/s"),
        Unit::GbitPerSecond => (1.0, "Gbit/s"),
        Unit::Bytes if highest >= 2e6 => (1e-6, "MB"),
        Unit::Bytes if highest >= 2e3 => (1e-3, "KB"),
        Unit::Bytes => (1.0, "bytes"),
        Unit::Nanoseconds if highest >= 2e6 => (1e-6, "ms"),
        Unit::Nanoseconds if highest >= 2e3 => (1e-3, "us"),
        Unit::Nanoseconds => (1.0, "ns"),
        Unit::Microseconds if highest >= 2e6 => (1e-6, "s"),
        Unit::Microseconds if highest >= 2e3 => (1e-3, "ms"),
        Unit::Microseconds => (1.0, "us"),
        Unit::Share => (100.0, "%"),
        Unit::Of(what) => (1.0, what),
    }
}

/// What a chart's axes are.
struct Axes<'a> {
    x: (f64, f64),
    y: (f64, f64),
    x_name: String,
    y_name: &'a str,
    x_label: &'a dyn Fn(&f64) -> String,
    x_labels: usize,
}

/// Draws a plot; times are from `span`.
///
/// # Errors
/// What plotters says: never, of a picture in memory.
pub(super) fn draw(plot: &Plot, span: Span) -> Result<Drawing, String> {
    let legend = |lines: &[Line], mark: &dyn Fn(usize) -> Mark| {
        lines.iter().enumerate().map(|(n, line)| (mark(n), line.name.clone())).collect()
    };
    let (svg, legend) = match plot {
        Plot::Lines { y, lines } => (over_time(lines, *y, span), legend(lines, &|_| Mark::Line)),
        Plot::Points { y, lines } => (points(lines, y, span), legend(lines, &|n| POINT_MARKS[n % POINT_MARKS.len()])),
        Plot::Bars { x, y, bars } => (self::bars(bars, x, y), Vec::new()),
        Plot::Percentiles { y, lines } => (percentiles(lines, y), legend(lines, &|_| Mark::Line)),
    };
    Ok(Drawing { svg: svg.map_err(|error| error.to_string())?, legend })
}

/// Makes a picture: `fill` draws it, and returns its tooltips.
fn picture(fill: impl FnOnce(&Area<'_>) -> Drawn<Markup>) -> Drawn<String> {
    let mut svg = String::new();
    let tips = {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let tips = fill(&area)?;
        area.present()?;
        tips
    };
    // Within a page an svg element needs no name space, and nobody is to take it for an address. Its size is the page's matter.
    let mut svg = svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
    if let Some(end) = svg.rfind("</svg>") {
        svg.insert_str(end, &tips.into_string());
    }
    Ok(svg)
}

fn chart<'a, 'b>(area: &'a Area<'b>, axes: &Axes<'_>) -> Drawn<Chart<'a, 'b>> {
    let (low, high) = axes.y;
    let digits = digits(high - low);
    // The widest label, and beside it the axis' name.
    let widest = number(high, 0).len() + if digits > 0 && high - low < 30.0 { digits + 1 } else { 0 };
    let room = 40 + 9 * widest as u32;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(28)
        .x_label_area_size(50)
        .y_label_area_size(room)
        .build_cartesian_2d(axes.x.0..axes.x.1, low..high)?;
    chart
        .configure_mesh()
        .x_desc(&axes.x_name)
        .y_desc(axes.y_name)
        .label_style(TEXT)
        .axis_desc_style(TEXT)
        .x_labels(axes.x_labels)
        .y_labels(6)
        .bold_line_style(BLACK.mix(0.13))
        .light_line_style(BLACK.mix(0.0))
        .x_label_formatter(axes.x_label)
        .y_label_formatter(&|y| number(*y, digits))
        .draw()?;
    Ok(chart)
}

/// Digits that tell labels apart on an axis of this length.
fn digits(length: f64) -> usize {
    (2.0 - length.max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize
}

/// The axis of time: from where it counts, and what makes its numbers short.
fn time_axis(span: Span) -> (f64, f64, f64, &'static str) {
    let (from, to) = span.ends().unwrap_or((0.0, 1.0));
    // A clock that began long before shows the time since the first row.
    let origin = if from > 10.0 * (to - from) { from } else { 0.0 };
    let (factor, unit) = scale(Unit::Microseconds, to - origin);
    (origin, factor, (to - origin).max(1e-3) * factor, unit)
}

fn time_name(origin: f64, unit: &str) -> String {
    if origin > 0.0 { format!("time since the first row, {unit}") } else { format!("time, {unit}") }
}

fn highest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| line.pieces.iter().flatten()).map(|(_, y)| *y).fold(0.0, f64::max)
}

fn over_time(lines: &[Line], unit: Unit, span: Span) -> Drawn<String> {
    let (origin, factor, end, x_unit) = time_axis(span);
    let start = span.ends().map_or(0.0, |(from, _)| (from - origin).max(0.0) * factor);
    let top = highest(lines);
    let (y_factor, y_unit) = scale(unit, top);
    let top = (top * y_factor * 1.08).max(1e-6);
    let top = if matches!(unit, Unit::Of(_)) { top.max(1.0) } else { top };
    let x_digits = digits(end - start);
    picture(|area| {
        let axes = Axes {
            x: (start.min(end - end / 1e3), end),
            y: (0.0, top),
            x_name: time_name(origin, x_unit),
            y_name: y_unit,
            x_label: &|x| number(*x, x_digits),
            x_labels: 10,
        };
        let mut chart = chart(area, &axes)?;
        let place = |(x, y): (f64, f64)| ((x - origin) * factor, y * y_factor);
        let mut tips = Tips::default();
        for (n, line) in lines.iter().enumerate() {
            for piece in &line.pieces {
                let piece: Vec<(f64, f64)> = piece.iter().map(|point| place(*point)).collect();
                for &(x, y) in &piece {
                    tips.add(x, &number(x, x_digits + 2), x_unit, &line.name, &format!("{} {y_unit}", number(y, 3)));
                }
                if let &[(x, y)] = piece.as_slice() {
                    chart.draw_series([Circle::new((x, y), 3, colour(n).filled())])?;
                } else {
                    chart.draw_series(LineSeries::new(piece, colour(n).stroke_width(2)))?;
                }
            }
        }
        Ok(tips.strips(&chart, top))
    })
}

fn points(lines: &[Line], y_name: &str, span: Span) -> Drawn<String> {
    let (origin, ..) = time_axis(span);
    let all = || lines.iter().flat_map(|line| line.pieces.iter().flatten());
    let (first, last) = all().fold((f64::INFINITY, 0.0), |(first, last), (x, _)| (x.min(first), x.max(last)));
    let (factor, x_unit) = scale(Unit::Microseconds, last - origin);
    let (from, to) = ((first - origin) * factor, (last - origin) * factor);
    let lowest = all().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let top = all().map(|(_, y)| *y).fold(lowest, f64::max);
    let x_digits = digits(to - from);
    picture(|area| {
        let axes = Axes {
            x: (from, if to > from { to } else { from + 1e-3 }),
            y: (lowest, if top > lowest { top + (top - lowest) * 0.04 } else { lowest + 1.0 }),
            x_name: time_name(origin, x_unit),
            y_name,
            x_label: &|x| number(*x, x_digits),
            x_labels: 10,
        };
        let mut chart = chart(area, &axes)?;
        // Rings first: they would hide what is within them.
        let is_ring = |n: &usize| POINT_MARKS[n % POINT_MARKS.len()] == Mark::Ring;
        let (rings, others): (Vec<usize>, Vec<usize>) = (0..lines.len()).partition(is_ring);
        for n in rings.into_iter().chain(others) {
            let line = &lines[n];
            let places = line.pieces.iter().flatten().map(|(x, y)| ((x - origin) * factor, *y));
            let colour = colour(n);
            match POINT_MARKS[n % POINT_MARKS.len()] {
                Mark::Ring => chart.draw_series(places.map(|at| Circle::new(at, 3, colour.stroke_width(1))))?,
                Mark::Triangle => chart.draw_series(places.map(|at| TriangleMarker::new(at, 5, colour.filled())))?,
                Mark::Cross => chart.draw_series(places.map(|at| Cross::new(at, 4, colour.stroke_width(2))))?,
                Mark::Circle | Mark::Line => chart.draw_series(places.map(|at| Circle::new(at, 2, colour.filled())))?,
            };
        }
        Ok(html! {})
    })
}

fn bars(bars: &[(String, f64)], x_name: &str, y_name: &str) -> Drawn<String> {
    let top = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let count = bars.len() as f64;
    let name = |x: &f64| {
        let at = x.round();
        let is_bar = (x - at).abs() < 1e-6 && at >= 0.0;
        let bar = if is_bar { bars.get(at as usize) } else { None };
        bar.map(|(name, _)| name.chars().take(BAR_NAME).collect()).unwrap_or_default()
    };
    picture(|area| {
        let axes = Axes {
            x: (-0.6, count - 0.4),
            y: (0.0, (top * 1.08).max(1.0)),
            x_name: x_name.to_owned(),
            y_name,
            x_label: &name,
            x_labels: bars.len().min(10),
        };
        let mut chart = chart(area, &axes)?;
        let mut tips = Tips::default();
        for (at, (name, value)) in bars.iter().enumerate() {
            let x = at as f64;
            chart.draw_series([Rectangle::new([(x - BAR, 0.0), (x + BAR, *value)], colour(0).filled())])?;
            tips.add(x, name, "", y_name, &number(*value, 2));
        }
        Ok(tips.strips(&chart, axes.y.1))
    })
}

fn percentiles(lines: &[Line], y_name: &str) -> Drawn<String> {
    let nines = |share: f64| -(1.0 - share).max(1e-12).log10();
    let longest = highest(lines);
    let (factor, unit) = scale(Unit::Microseconds, longest);
    let end =
        lines.iter().flat_map(|line| line.pieces.iter().flatten()).map(|(share, _)| nines(*share)).fold(1.0, f64::max);
    let percent = |x: f64| number(100.0 * (1.0 - 10f64.powf(-x)), (x.ceil() as usize).max(2));
    picture(|area| {
        let y_name = format!("{y_name}, {unit}");
        let label = |x: &f64| if (x - x.round()).abs() < 1e-6 { format!("{} %", percent(*x)) } else { String::new() };
        let axes = Axes {
            x: (0.0, end),
            y: (0.0, (longest * factor * 1.08).max(1e-6)),
            x_name: "percentile: share of work requests that took no longer".into(),
            y_name: &y_name,
            x_label: &label,
            x_labels: 10,
        };
        let mut chart = chart(area, &axes)?;
        let mut tips = Tips::default();
        for (n, line) in lines.iter().enumerate() {
            for piece in &line.pieces {
                let piece: Vec<(f64, f64)> = piece.iter().map(|(share, y)| (nines(*share), y * factor)).collect();
                for &(x, y) in &piece {
                    tips.add(x, &percent(x), "%", &line.name, &format!("{} {unit}", number(y, 3)));
                }
                chart.draw_series(LineSeries::new(piece, colour(n).stroke_width(2)))?;
            }
        }
        Ok(tips.strips(&chart, axes.y.1))
    })
}

/// Tooltips of what is at one place of the x axis.
#[derive(Default)]
struct Tips {
    /// By place, in a form that sorts, with its text.
    at: BTreeMap<i64, (f64, String)>,
}

/// Places of the x axis that are one are within this of each other.
const FINE: f64 = 1e6;

impl Tips {
    fn add(&mut self, x: f64, at: &str, unit: &str, name: &str, value: &str) {
        let (_, text) =
            self.at.entry((x * FINE).round() as i64).or_insert_with(|| (x, format!("{at} {unit}").trim().to_owned()));
        let _ = write!(text, "\n{name}: {value}");
    }

    /// A strip of the chart's height for each place, or for each k-th where there are too many.
    fn strips(self, chart: &Chart<'_, '_>, top: f64) -> Markup {
        let every = self.at.len().div_ceil(STRIPS_MAX).max(1);
        let kept: Vec<(i32, String)> =
            self.at.into_values().step_by(every).map(|(x, text)| (chart.backend_coord(&(x, 0.0)).0, text)).collect();
        let high = chart.backend_coord(&(0.0, top)).1;
        let low = chart.backend_coord(&(0.0, 0.0)).1;
        let middle = |a: usize, b: usize| match (kept.get(a), kept.get(b)) {
            (Some((a, _)), Some((b, _))) => i32::midpoint(*a, *b),
            (Some((a, _)), None) => a + 8,
            (None, Some((b, _))) => b - 8,
            (None, None) => 0,
        };
        html! {
            g class="tips" {
                @for (n, (_, text)) in kept.iter().enumerate() {
                    @let from = middle(n.wrapping_sub(1), n);
                    rect x=(from) y=(high) width=((middle(n, n + 1) - from).max(1)) height=(low - high) { title { (text) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: f64, to: f64) -> Span {
        let mut span = Span::default();
        span.add(from);
        span.add(to);
        span
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.into(), pieces: vec![points.to_vec()] }
    }

    #[test]
    fn axes_have_the_multiple_that_makes_numbers_short() {
        assert_eq!(scale(Unit::Bytes, 450_000.0), (1e-3, "KB"));
        assert_eq!(scale(Unit::Bytes, 900.0), (1.0, "bytes"));
        assert_eq!(scale(Unit::Nanoseconds, 12_500.0), (1e-3, "us"));
        assert_eq!(scale(Unit::GbitPerSecond, 0.05), (1e3, "Mbit/s"));
        assert_eq!(scale(Unit::GbitPerSecond, 0.0), (1.0, "Gbit/s"));
        assert_eq!(scale(Unit::Share, 1.0), (100.0, "%"));
    }

    #[test]
    fn a_plot_is_well_formed_with_units_names_and_tooltips_and_no_address() {
        let lines = vec![line("a<b>&c", &[(0.0, 1.0), (5_000.0, 4.0)]), line("one", &[(5_000.0, 2.0)])];
        let plot = Plot::Lines { y: Unit::GbitPerSecond, lines };
        let drawing = draw(&plot, span(0.0, 5_000.0)).unwrap();
        let svg = roxmltree::Document::parse(&drawing.svg).unwrap();
        assert!(!drawing.svg.contains("http"), "{}", drawing.svg);
        let texts: Vec<&str> =
            svg.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();
        assert!(texts.iter().any(|text| text.trim() == "time, ms"), "{texts:?}");
        assert!(texts.iter().any(|text| text.trim() == "Gbit/s"), "{texts:?}");
        let tips: Vec<&str> =
            svg.descendants().filter(|node| node.has_tag_name("title")).filter_map(|node| node.text()).collect();
        assert_eq!(tips, ["0 ms\na<b>&c: 1 Gbit/s", "5 ms\na<b>&c: 4 Gbit/s\none: 2 Gbit/s"]);
        assert_eq!(drawing.legend[0], (Mark::Line, "a<b>&c".to_owned()));
    }

    #[test]
    fn plots_of_one_value_or_of_zeros_are_drawn() {
        let zero = line("zero", &[(7.0, 0.0)]);
        let plots = [
            Plot::Lines { y: Unit::Bytes, lines: vec![zero.clone()] },
            Plot::Points { y: "PSN", lines: vec![zero] },
            Plot::Bars { x: "value".into(), y: "packets".into(), bars: vec![("1".into(), 0.0)] },
            Plot::Percentiles { y: "latency", lines: vec![line("write", &[(0.0, 0.0)])] },
        ];
        for plot in &plots {
            for span in [span(7.0, 7.0), span(0.0, 7.0), Span::default()] {
                let drawing = draw(plot, span).unwrap();
                assert!(roxmltree::Document::parse(&drawing.svg).is_ok(), "{plot:?}");
                assert!(!drawing.svg.contains("NaN"), "{plot:?}");
            }
        }
    }
}
