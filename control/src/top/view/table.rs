//! Tables that show as many columns as there is room for, and say how many they left out.

use super::super::numbers::shortened;
use super::{ACCENT, LABEL};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// A column.
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Its cells, each with its style.
    pub(super) cells: Vec<(String, Style)>,
    /// To the left, as words are, or to the right, as numbers.
    pub(super) left: bool,
    /// It may be shortened to so many characters; a mark shows where.
    pub(super) least: Option<usize>,
}

impl Column {
    pub(super) fn new(head: &'static str, cells: Vec<(String, Style)>) -> Column {
        Column { head, cells, left: false, least: None }
    }

    pub(super) const fn left(mut self) -> Column {
        self.left = true;
        self
    }

    pub(super) const fn least(mut self, characters: usize) -> Column {
        self.least = Some(characters);
        self
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|(text, _)| text.chars().count());
        cells.chain([self.head.chars().count()]).max().unwrap_or(0)
    }
}

/// The lines of a table, the head first, and how many columns found no room. Columns come in the order of their weight.
pub(super) struct Table {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) left_out: usize,
}

/// Lays columns out in `width` characters; the row at `chosen` is marked.
pub(super) fn table(columns: &[Column], rows: usize, width: usize, chosen: Option<usize>) -> Table {
    let mut shown: Vec<(&Column, usize)> = Vec::new();
    let mut used = 0;
    // Two blanks between columns, where all have room in that way.
    let all: usize = columns.iter().map(|column| column.width() + 2).sum();
    let blanks = if all <= width + 2 { 2 } else { 1 };
    for column in columns {
        let gap = if shown.is_empty() { 0 } else { blanks };
        let room = width.saturating_sub(used + gap);
        let wanted = column.width();
        let takes = match column.least {
            // What may be shortened leaves as much as the others need at least.
            Some(least) => {
                let others: usize = columns.iter().filter(|other| other.least.is_none()).map(|c| c.width() + 1).sum();
                wanted.min(room.saturating_sub(others).max(least))
            }
            None => wanted,
        };
        if takes > room {
            break;
        }
        used += gap + takes;
        shown.push((column, takes));
    }
    let padded = |text: &str, width: usize, left: bool| {
        let text = shortened(text, width);
        if left { format!("{text:<width$}") } else { format!("{text:>width$}") }
    };
    let mut lines = Vec::with_capacity(rows + 1);
    let head = shown.iter().enumerate().flat_map(|(n, &(column, width))| {
        let gap = (n > 0).then(|| Span::raw(" ".repeat(blanks)));
        gap.into_iter()
            .chain([Span::styled(padded(column.head, width, column.left), LABEL.add_modifier(Modifier::UNDERLINED))])
    });
    lines.push(head.collect());
    for row in 0..rows {
        let cells = shown.iter().enumerate().flat_map(|(n, &(column, width))| {
            let gap = (n > 0).then(|| Span::raw(" ".repeat(blanks)));
            let (text, style) =
                column.cells.get(row).map_or(("", Style::new()), |(text, style)| (text.as_str(), *style));
            gap.into_iter().chain([Span::styled(padded(text, width, column.left), style)])
        });
        let mut line: Line<'static> = cells.collect();
        if chosen == Some(row) {
            line = line.style(Style::new().bg(ratatui::style::Color::Indexed(237)).fg(ACCENT));
        }
        lines.push(line);
    }
    Table { lines, left_out: columns.len() - shown.len() }
}

/// What the frame of a table says: which rows, and columns that found no room.
pub(super) fn says(rows: &str, left_out: usize) -> String {
    match left_out {
        0 => rows.to_owned(),
        1 => format!("{rows} · 1 column more when wider"),
        n => format!("{rows} · {n} columns more when wider"),
    }
}
