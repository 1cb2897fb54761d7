//! Draws what the model knows.

mod destinations;
mod evs;
mod header;
mod help;
mod lists;
mod qps;
mod rates;
mod table;

use super::model::{Model, Panel};
use crate::controller::NicReport;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph, Wrap};

/// The smallest screen that everything has room on.
pub(super) const SMALLEST: (u16, u16) = (72, 22);
/// From these many columns on there is room for more.
const WIDE: u16 = 120;

const DIM: Style = Style::new().fg(Color::Indexed(244));
const LABEL: Style = Style::new().fg(Color::Indexed(250));
const VALUE: Style = Style::new().fg(Color::White).add_modifier(Modifier::BOLD);
const GOOD: Color = Color::Indexed(77);
const WARN: Color = Color::Indexed(220);
const BAD: Color = Color::Indexed(203);
const ACCENT: Color = Color::Indexed(81);

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(frame, area);
        return;
    }
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    header::draw(frame, head, model);
    if model.zoomed {
        panel(frame, body, model, model.panel);
    } else {
        for (which, area) in areas(body, model) {
            panel(frame, area, model, which);
        }
    }
    header::footer(frame, foot, model);
    if model.help {
        help::draw(frame, area);
    }
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "This terminal has {} x {} cells;\nmrcnic top needs {} x {}.\nMake it larger, or q to quit.",
        area.width, area.height, SMALLEST.0, SMALLEST.1
    );
    frame.render_widget(Paragraph::new(text), area);
}

fn panel(frame: &mut Frame<'_>, area: Rect, model: &Model, which: Panel) {
    match which {
        Panel::Rates => rates::draw(frame, area, model),
        Panel::Drops => lists::draw(frame, area, model),
        Panel::Destinations => destinations::draw(frame, area, model),
        Panel::Evs => evs::draw(frame, area, model),
        Panel::Qps => qps::draw(frame, area, model),
    }
}

/// Columns of the heat map on a screen of so many.
const fn evs_width(width: u16) -> u16 {
    if width >= WIDE { width * 7 / 20 } else { 32 }
}

/// Where each panel is.
fn areas(body: Rect, model: &Model) -> [(Panel, Rect); 5] {
    let wide = body.width >= WIDE;
    let destinations = model.nic().map_or(0, |(_, nic)| nic.destinations.len()) as u16;
    // Borders and a head, and as many rows as there are, up to what leaves room for the rest.
    let most = if body.height >= 36 { 11 } else { 5 };
    let middle = (destinations + 3).clamp(4, most);
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(8), Constraint::Length(middle), Constraint::Min(0)]).areas(body);
    let split = |area, left: u16| Layout::horizontal([Constraint::Length(left), Constraint::Min(0)]).areas(area);
    let [rates, drops] = split(top, if wide { body.width * 5 / 8 } else { 50 });
    let [evs, qps] = split(bottom, evs_width(body.width));
    [(Panel::Rates, rates), (Panel::Drops, drops), (Panel::Destinations, middle), (Panel::Evs, evs), (Panel::Qps, qps)]
}

/// Rows that would show everything at so many columns: for output that does not scroll.
pub(super) fn full_height(model: &Model, width: u16) -> u16 {
    let Some((_, nic)) = model.nic() else { return SMALLEST.1 };
    let below = (nic.qps.len() + 3).max(evs::rows(model, evs_width(width)) + 3);
    let destinations = (nic.destinations.len() + 3).clamp(4, 11);
    (2 + 8 + destinations + below + 1).clamp(usize::from(SMALLEST.1), 400) as u16
}

/// A frame with a title, and what stands at its right and below; its inside.
fn framed(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    which: Panel,
    title: &str,
    right: &str,
    below: Option<Line<'static>>,
) -> Rect {
    let chosen = model.panel == which;
    let style = if chosen { Style::new().fg(ACCENT) } else { DIM };
    let name = if chosen { style.add_modifier(Modifier::BOLD) } else { LABEL };
    let mut block = Block::bordered()
        .border_type(if chosen { BorderType::Thick } else { BorderType::Plain })
        .border_style(style)
        .title(Line::from(Span::styled(format!(" {title} "), name)));
    if !right.is_empty() {
        block = block.title(Line::from(Span::styled(format!(" {right} "), LABEL)).right_aligned());
    }
    if let Some(below) = below {
        block = block.title_bottom(below);
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// What stands where a list would be.
fn nothing<'a>(nic: &NicReport, what: &'a str) -> Paragraph<'a> {
    let text = if nic.silent_workers.is_empty() { what } else { "Its workers did not answer in time." };
    Paragraph::new(text).style(DIM).wrap(Wrap { trim: true })
}

/// The rows of a list that are shown: from where, and what the frame says of it.
struct Window {
    first: usize,
    last: usize,
    says: String,
}

/// The part of `rows` rows that is shown in `height` lines with the row at `cursor` in it; `left_out` more are known by their number alone.
fn window(rows: usize, height: usize, cursor: usize, left_out: usize) -> Window {
    let first = if rows <= height { 0 } else { (cursor + 1).saturating_sub(height).min(rows - height) };
    let last = (first + height).min(rows);
    let all = rows + left_out;
    let says = match (first, last) {
        (0, last) if last == all => format!("{all}"),
        (first, last) if last > first => format!("{}-{last} of {all}", first + 1),
        _ => format!("0 of {all}"),
    };
    Window { first, last, says }
}

#[cfg(test)]
mod tests;
