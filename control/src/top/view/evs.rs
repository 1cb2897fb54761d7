//! Entropy values as a heat map: a cell each, a row or more for each port.

use super::super::model::{Model, Panel};
use super::super::numbers::{count, per_second};
use super::{BAD, GOOD, LABEL, VALUE, WARN, framed, nothing};
use crate::controller::EvView;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Characters before the cells of a port.
const LABELS: usize = 4;

/// What a cell says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Good,
    PortOut,
    Skip,
    Bad,
    Denied,
}

impl Cell {
    fn of(ev: &EvView) -> Cell {
        match ev.state.as_str() {
            "denied" => Cell::Denied,
            "assumed_bad" => Cell::Bad,
            // A value whose port is out is used no more, whatever else is known of it.
            _ if ev.port_out => Cell::PortOut,
            "skip" => Cell::Skip,
            _ => Cell::Good,
        }
    }

    const fn letter(self) -> char {
        match self {
            Cell::Good => 'g',
            Cell::PortOut => 'o',
            Cell::Skip => 'S',
            Cell::Bad => 'B',
            Cell::Denied => 'D',
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Cell::Good => "good",
            Cell::PortOut => "port out",
            Cell::Skip => "skip",
            Cell::Bad => "bad",
            Cell::Denied => "denied",
        }
    }

    /// Its colours by use, from 0 (none) to 4.
    fn style(self, level: usize) -> Style {
        let (dark, light) = (Color::Black, Color::Indexed(255));
        let (fg, bg) = match self {
            Cell::Good => [(light, 236), (light, 22), (light, 28), (dark, 34), (dark, 77)][level],
            Cell::PortOut => (Color::Indexed(250), 240),
            Cell::Skip => [(light, 94), (dark, 136), (dark, 178), (dark, 220), (dark, 226)][level],
            Cell::Bad => [(light, 88), (light, 124), (light, 160), (light, 196), (light, 196)][level],
            Cell::Denied => (light, 55),
        };
        let style = Style::new().fg(fg).bg(Color::Indexed(bg));
        if self == Cell::Good { style } else { style.add_modifier(Modifier::BOLD) }
    }
}

/// Packets, against the most that one took: 0 for none, else 1 to 4.
fn level(rate: f64, most: f64) -> usize {
    if rate <= 0.0 || most <= 0.0 {
        return 0;
    }
    ((rate / most * 4.0).ceil() as usize).clamp(1, 4)
}

/// Rows of cells: the port where one begins, and the values by their number.
fn layout(evs: &[(&EvView, Option<f64>)], columns: usize) -> Rows {
    let mut rows: Rows = Vec::new();
    let mut port = None;
    for (n, (ev, _)) in evs.iter().enumerate() {
        match rows.last_mut() {
            Some((_, row)) if port == Some(ev.port) && row.len() < columns => row.push(n),
            _ => rows.push(((port != Some(ev.port)).then_some(ev.port), vec![n])),
        }
        port = Some(ev.port);
    }
    rows
}

/// Rows of cells, as [`layout`] has them.
type Rows = Vec<(Option<u8>, Vec<usize>)>;

/// Characters of a cell, and rows, in so much room: a row for each port, of wide cells if they fit; else several of equal length; else narrow
/// cells.
fn fit(evs: &[(&EvView, Option<f64>)], width: usize, height: usize) -> (usize, Rows) {
    let room = width.saturating_sub(LABELS).max(1);
    let longest = evs.chunk_by(|a, b| a.0.port == b.0.port).map(<[_]>::len).max().unwrap_or(0).max(1);
    let folded = |cell: usize| {
        let folds = longest.div_ceil((room / cell).max(1));
        (folds, layout(evs, longest.div_ceil(folds)))
    };
    for cell in [3, 2] {
        let (folds, rows) = folded(cell);
        if folds == 1 && rows.len() <= height {
            return (cell, rows);
        }
    }
    for cell in [3, 2] {
        let (_, rows) = folded(cell);
        if rows.len() <= height {
            return (cell, rows);
        }
    }
    (1, folded(1).1)
}

/// Rows of cells in a panel of so many columns, where there is room for any number of them.
pub(super) fn rows(model: &Model, width: u16) -> usize {
    fit(&model.evs(), usize::from(width).saturating_sub(2), usize::MAX).1.len()
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let evs = model.evs();
    let (width, height) = (usize::from(area.width).saturating_sub(2), usize::from(area.height).saturating_sub(3));
    let cursor = model.cursor(Panel::Evs, evs.len());
    let (cell, rows) = fit(&evs, width, height);
    let at = rows.iter().position(|(_, row)| row.contains(&cursor)).unwrap_or(0);
    let shown = super::window(rows.len(), height, at, 0);
    let left_out = model.destination().map_or(0, |to| to.evs_left_out);
    let part = &rows[shown.first..shown.last];
    let count_shown: usize = part.iter().map(|(_, row)| row.len()).sum();
    let all = evs.len() + left_out;
    let right = if count_shown == all { format!("{all}") } else { format!("{count_shown} of {all}") };
    let chosen = model.panel == Panel::Evs;
    let title = title(model, width.saturating_sub(right.len() + 4));
    let below = evs.get(cursor).filter(|_| chosen).map(|&(ev, rate)| about(ev, rate, width));
    let inner = framed(frame, area, model, Panel::Evs, &title, &right, below);
    if evs.is_empty() {
        if let Some((_, nic)) = model.nic() {
            let none = if nic.destinations.is_empty() {
                "No QP is open."
            } else {
                "Nothing is sprayed: each QP has one path of its own."
            };
            frame.render_widget(nothing(nic, none), inner);
        }
        return;
    }
    let most = evs.iter().filter_map(|&(_, rate)| rate).fold(0.0, f64::max);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (port, row) in part {
        let label = port.map_or_else(|| "   ".into(), |port| format!("p{port} "));
        let mut spans = vec![Span::styled(format!("{label:<LABELS$}"), LABEL)];
        for &n in row {
            let (ev, rate) = evs[n];
            let state = Cell::of(ev);
            let mut style = state.style(level(rate.unwrap_or(0.0), most));
            if chosen && n == cursor {
                style = Style::new().fg(Color::Black).bg(Color::White).add_modifier(Modifier::BOLD);
            }
            spans.push(Span::styled(format!("{:^cell$}", state.letter()), style));
        }
        lines.push(spans.into());
    }
    frame.render_widget(Paragraph::new(lines), inner);
    let legend = legend(&evs, width, usize::from(inner.height).saturating_sub(part.len()));
    let lines = (legend.len() as u16).min(inner.height);
    let bottom = Rect { y: inner.bottom().saturating_sub(lines), height: lines, ..inner };
    frame.render_widget(Paragraph::new(legend), bottom);
}

/// Towards whom, in so many characters.
fn title(model: &Model, room: usize) -> String {
    let Some(to) = model.destination() else { return "EVs".into() };
    let address = to.destination.to_string();
    format!("EVs to {}", super::super::numbers::shortened(&address, room.saturating_sub(7).max(5)))
}

/// Each letter, and how many have it, in at most `height` lines; with its name where there is room.
fn legend(evs: &[(&EvView, Option<f64>)], width: usize, height: usize) -> Vec<Line<'static>> {
    let of = [Cell::Good, Cell::Skip, Cell::Bad, Cell::Denied, Cell::PortOut];
    let piece = |cell: Cell, long: bool| {
        let count = evs.iter().filter(|(ev, _)| Cell::of(ev) == cell).count();
        let text = if long { format!(" {} {count}  ", cell.name()) } else { format!("{count} ") };
        [
            Span::styled(cell.letter().to_string(), cell.style(3)),
            Span::styled(text, if count > 0 { VALUE } else { LABEL }),
        ]
    };
    let in_lines = |long: bool| {
        let mut lines = vec![Line::default()];
        for cell in of {
            let piece = piece(cell, long);
            let takes: usize = piece.iter().map(Span::width).sum();
            let last = lines.last().map_or(0, Line::width);
            // The blanks at the end of a line need no room.
            if last > 0 && last + takes > width + 2 {
                lines.push(Line::default());
            }
            if let Some(line) = lines.last_mut() {
                line.spans.extend(piece);
            }
        }
        lines
    };
    let long = in_lines(true);
    if long.len() <= height { long } else { in_lines(false) }
}

/// The value under the cursor.
fn about(ev: &EvView, rate: Option<f64>, width: usize) -> Line<'static> {
    let cell = Cell::of(ev);
    let colour = match cell {
        Cell::Good => GOOD,
        Cell::Skip | Cell::PortOut => WARN,
        Cell::Bad | Cell::Denied => BAD,
    };
    let mut text = format!(" {:#x} port {} {} ", ev.ev, ev.port, cell.name());
    let more = format!("sent {} ", count(ev.sent));
    let now = rate.map(|rate| format!("now {} ", per_second(rate)));
    let path = ev.segment.map(|segment| format!("path {segment} "));
    for piece in [Some(more), now, path].into_iter().flatten() {
        if text.chars().count() + piece.chars().count() <= width {
            text += &piece;
        }
    }
    Line::from(Span::styled(text, Style::new().fg(colour)))
}
