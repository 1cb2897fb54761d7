//! Dropped frames by reason.

use super::super::model::{Model, Panel};
use super::super::numbers::{count, per_second};
use super::table::{Column, says, table};
use super::{BAD, DIM, LABEL, VALUE, framed, window};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Paragraph;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let drops = model.drops();
    let height = usize::from(area.height).saturating_sub(3);
    let cursor = model.cursor(Panel::Drops, drops.len());
    let shown = window(drops.len(), height, cursor, 0);
    let part = &drops[shown.first..shown.last];
    let rate = |&(_, _, rate): &(&str, u64, Option<f64>)| match rate {
        Some(rate) if rate > 0.0 => (per_second(rate), Style::new().fg(BAD)),
        Some(_) => ("0/s".into(), DIM),
        None => ("–".into(), DIM),
    };
    let columns = [
        Column::new("reason", part.iter().map(|(reason, ..)| ((*reason).to_owned(), LABEL)).collect()).left().least(8),
        Column::new("frames", part.iter().map(|&(_, frames, _)| (count(frames), VALUE)).collect()),
        Column::new("now", part.iter().map(rate).collect()),
    ];
    let chosen = (model.panel == Panel::Drops).then(|| cursor.wrapping_sub(shown.first));
    let table = table(&columns, part.len(), usize::from(area.width.saturating_sub(2)), chosen);
    let inner = framed(frame, area, model, Panel::Drops, "Drops", &says(&shown.says, table.left_out), None);
    if drops.is_empty() {
        frame.render_widget(Paragraph::new("No frame was dropped.").style(DIM), inner);
        return;
    }
    frame.render_widget(Paragraph::new(table.lines), inner);
}
