//! A picture of a run: goodput, windows, queues and the use of planes or paths over virtual time, as SVG.

use super::run::Run;
use super::sample::Sample;
use dataplane::fabric::Node;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Lines of one panel at most: more are not told apart.
const LINES_MAX: usize = 8;
const WIDTH: u32 = 1_200;
const PANEL: u32 = 300;
/// Room right of a panel for what its lines are, in pixels.
const LEGEND: u32 = 230;
const TEXT: (&str, u32) = ("sans-serif", 14);

/// What drawing comes to.
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
/// A line: the numbers of samples, and values.
type Line = Vec<(usize, f64)>;

/// What samples showed, as far as it is drawn.
pub struct Plot {
    times_us: Vec<f64>,
    /// The flows that have a line, and their names.
    flows: Vec<(usize, String)>,
    goodput: BTreeMap<usize, Line>,
    total: Line,
    windows: BTreeMap<usize, Line>,
    queues: BTreeMap<usize, Line>,
    use_of: BTreeMap<usize, Line>,
    link_names: BTreeMap<usize, String>,
    /// For each link: the plane whose use it is, or itself; links that do not count have none.
    uses: Vec<Option<usize>>,
    planes: usize,
}

impl Plot {
    /// An empty picture of a run that begins.
    #[must_use]
    pub fn new(run: &Run) -> Plot {
        let planes = usize::from(run.scenario().planes());
        let uses = run.world().fabric().links().enumerate().map(|(number, (from, to, _))| match (from, to) {
            (Node::Nic(_, port), _) if planes > 1 => Some(usize::from(port)),
            (Node::Switch(a), Node::Switch(b)) if planes == 1 && a.tier == 0 && b.tier == 1 => Some(number),
            _ => None,
        });
        Plot {
            times_us: Vec::new(),
            flows: shown_flows(run),
            goodput: BTreeMap::new(),
            total: Vec::new(),
            windows: BTreeMap::new(),
            queues: BTreeMap::new(),
            use_of: BTreeMap::new(),
            link_names: BTreeMap::new(),
            uses: uses.collect(),
            planes,
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample) {
        let at = self.times_us.len();
        let last = self.times_us.last().copied().unwrap_or(0.0);
        let now = sample.at.0 as f64 / 1_000.0;
        self.times_us.push(now);
        for flow in &sample.flows {
            if self.flows.iter().any(|(n, _)| *n == flow.flow) {
                self.goodput.entry(flow.flow).or_default().push((at, flow.goodput_gbps));
                if let Some(window) = flow.cwnd_bytes {
                    self.windows.entry(flow.flow).or_default().push((at, window as f64 / 1e3));
                }
            }
        }
        self.total.push((at, sample.flows.iter().map(|flow| flow.goodput_gbps).sum()));
        let mut uses: BTreeMap<usize, f64> = BTreeMap::new();
        for link in &sample.links {
            if link.queue_bytes > 0 {
                self.queues.entry(link.number).or_default().push((at, f64::from(link.queue_bytes) / 1e3));
            }
            self.link_names.entry(link.number).or_insert_with(|| link.link.clone());
            if let Some(of) = self.uses.get(link.number).copied().flatten() {
                *uses.entry(of).or_default() += link.bytes as f64 * 8.0 / ((now - last).max(1e-3) * 1e3);
            }
        }
        for (of, gbps) in uses {
            self.use_of.entry(of).or_default().push((at, gbps));
        }
    }

    /// Draws everything.
    ///
    /// # Errors
    /// Why the file can't be written.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        let mut picture = String::new();
        self.draw(&mut picture).map_err(|error| error.to_string())?;
        std::fs::write(file, picture).map_err(|error| error.to_string())
    }

    fn draw(&self, picture: &mut String) -> Drawn {
        let root = SVGBackend::with_string(picture, (WIDTH, 4 * PANEL)).into_drawing_area();
        root.fill(&WHITE)?;
        let panels = root.split_evenly((4, 1));
        let flow_name = |n: &usize| self.flows.iter().find(|(flow, _)| flow == n).map(|(_, name)| name.clone());
        let of_flows = |lines: &BTreeMap<usize, Line>| -> Vec<(String, Line)> {
            lines.iter().filter_map(|(n, line)| Some((flow_name(n)?, line.clone()))).collect()
        };
        let mut goodput = of_flows(&self.goodput);
        if self.flows.len() != 1 {
            goodput.push(("all flows".into(), self.total.clone()));
        }
        self.panel(&panels[0], "Goodput", "Gbit/s", &goodput)?;
        self.panel(&panels[1], "Congestion window", "KB", &of_flows(&self.windows))?;
        self.panel(&panels[2], "Queues of switches and ports (the deepest)", "KB", &self.highest(&self.queues))?;
        if self.planes > 1 {
            let lines = self.use_of.iter().map(|(plane, line)| (format!("plane {plane}"), line.clone()));
            self.panel(&panels[3], "Use of planes, all NICs", "Gbit/s", &lines.collect::<Vec<_>>())?;
        } else {
            self.panel(&panels[3], "Use of links from T0 to T1 (the busiest)", "Gbit/s", &self.highest(&self.use_of))?;
        }
        root.present()?;
        Ok(())
    }

    /// The lines with the highest peaks, in the order of links.
    fn highest(&self, lines: &BTreeMap<usize, Line>) -> Vec<(String, Line)> {
        let peak = |line: &Line| line.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let mut all: Vec<(usize, &Line)> = lines.iter().map(|(n, line)| (*n, line)).collect();
        all.sort_by(|a, b| peak(b.1).total_cmp(&peak(a.1)).then(a.0.cmp(&b.0)));
        all.truncate(LINES_MAX);
        all.sort_by_key(|(n, _)| *n);
        all.into_iter().map(|(n, line)| (self.link_names.get(&n).cloned().unwrap_or_default(), line.clone())).collect()
    }

    fn panel(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        title: &str,
        unit: &str,
        lines: &[(String, Line)],
    ) -> Drawn {
        let in_ms = self.times_us.last().is_some_and(|&last| last >= 1_000.0);
        let (scale, x_unit) = if in_ms { (1e-3, "ms") } else { (1.0, "us") };
        let end = self.times_us.last().map_or(1.0, |&last| last * scale);
        let top = lines.iter().flat_map(|(_, line)| line).map(|(_, value)| *value).fold(0.0, f64::max);
        let (plot, legend) = area.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&plot)
            .caption(format!("{title}, {unit}"), ("sans-serif", 18))
            .margin(8)
            .x_label_area_size(42)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..end, 0.0..(top * 1.08).max(1e-3))?;
        chart
            .configure_mesh()
            .x_desc(format!("virtual time, {x_unit}"))
            .y_desc(unit)
            .label_style(TEXT)
            .axis_desc_style(TEXT)
            .light_line_style(WHITE.mix(0.0))
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .draw()?;
        for (n, (name, line)) in lines.iter().enumerate() {
            let color = Palette99::pick(n).to_rgba();
            for piece in self.pieces(line, scale) {
                chart.draw_series(LineSeries::new(piece, color.stroke_width(2)))?;
            }
            let y = 40 + 24 * n as i32;
            legend.draw(&PathElement::new([(4, y + 7), (28, y + 7)], color.stroke_width(3)))?;
            legend.draw(&Text::new(name.clone(), (34, y), TEXT.into_font()))?;
        }
        Ok(())
    }

    /// A line in pieces: where samples are missing between two points, it is 0.
    fn pieces(&self, line: &Line, scale: f64) -> Vec<Vec<(f64, f64)>> {
        let time = |n: usize| self.times_us.get(n).copied().unwrap_or(0.0) * scale;
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut next = 0;
        for &(n, value) in line {
            if n > next {
                points.extend([(time(next), 0.0), (time(n - 1), 0.0)]);
            }
            points.push((time(n), value));
            next = n + 1;
        }
        if next < self.times_us.len() {
            points.extend([(time(next), 0.0), (time(self.times_us.len() - 1), 0.0)]);
        }
        vec![points]
    }
}

/// A number on an axis, without digits that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The flows that have lines: the first ones of each pattern in turn.
fn shown_flows(run: &Run) -> Vec<(usize, String)> {
    let patterns = &run.scenario().patterns;
    let starts = core::iter::once(0).chain(patterns.iter().map(|(_, end)| *end));
    let ranges: Vec<(usize, usize, &str)> =
        starts.zip(patterns).map(|(start, (name, end))| (start, *end, name.as_str())).collect();
    let longest = ranges.iter().map(|(start, end, _)| end - start).max().unwrap_or(0);
    let mut shown = Vec::new();
    for nth in 0..longest {
        for (start, end, name) in &ranges {
            let n = start + nth;
            if shown.len() == LINES_MAX {
                return shown;
            }
            if let Some((flow, _)) = run.traffic().flow(run.world(), n).filter(|_| n < *end) {
                shown.push((n, format!("{name} {} to {}", flow.src.0, flow.dst.0)));
            }
        }
    }
    shown
}
