//! The two lines at the top, and the keys at the bottom.

use super::super::model::Model;
use super::super::numbers::{clock, count, shortened};
use super::{ACCENT, BAD, GOOD, LABEL, VALUE, WARN};
use crate::controller::{NicReport, PortReport};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some((at, nic)) = model.nic() else {
        frame.render_widget(Paragraph::new("this process has no NIC"), area);
        return;
    };
    let said = match (&model.trouble, model.paused) {
        (Some(trouble), _) => Some((trouble.clone(), Style::new().fg(Color::White).bg(Color::Indexed(88)))),
        (None, true) => Some(("paused".to_owned(), Style::new().fg(Color::Black).bg(WARN))),
        (None, false) => None,
    };
    // What is wrong goes before what else there is to say.
    let right = said.map(|(text, style)| {
        let text = shortened(&text, usize::from(area.width).saturating_sub(24));
        Span::styled(format!(" {text} "), style)
    });
    let left = area.width - right.as_ref().map_or(0, |span| span.width() as u16).min(area.width);
    let lines = vec![title(model, at, nic, left), ports(nic, area.width)];
    frame.render_widget(Paragraph::new(lines), area);
    if let Some(right) = right {
        let place = Rect { x: area.x + left, width: area.width - left, height: 1, ..area };
        frame.render_widget(Paragraph::new(Line::from(right)), place);
    }
}

/// The first line: pieces in the order of their weight, as many as there is room for.
fn title(model: &Model, at: usize, nic: &NicReport, width: u16) -> Line<'static> {
    let report = model.report();
    let states = nic.qp_states;
    let piece = |label: &str, value: String, style: Style| {
        vec![Span::styled(format!("  {label} "), LABEL), Span::styled(value, style)]
    };
    let bad = Style::new().fg(BAD);
    let name = Style::new().fg(Color::Black).bg(ACCENT).add_modifier(Modifier::BOLD);
    let mut pieces = vec![vec![Span::styled(format!(" mrcnic {} ", report.version), name)]];
    let mut of = piece("NIC", nic.name.clone(), VALUE);
    if report.nics.len() > 1 {
        of.push(Span::styled(format!(" ({} of {})", at + 1, report.nics.len()), LABEL));
    }
    pieces.push(of);
    if !nic.silent_workers.is_empty() {
        let names: Vec<String> = nic.silent_workers.iter().map(ToString::to_string).collect();
        pieces.push(piece("silent: worker", names.join(", "), bad));
    }
    pieces.push(piece("up", clock(report.uptime_us), VALUE));
    let mut qps = piece("QPs", (states.rtr + states.rts + states.error).to_string(), VALUE);
    if states.error > 0 {
        qps.push(Span::styled(format!(" ({} in error)", states.error), bad));
    }
    if states.rtr > 0 {
        qps.push(Span::styled(format!(" ({} not ready to send)", states.rtr), LABEL));
    }
    pieces.push(qps);
    pieces.push(piece("workers", nic.workers.to_string(), VALUE));
    pieces.push(piece("pending requests", count(nic.pending), VALUE));
    let mut spans = Vec::new();
    let mut room = usize::from(width);
    for piece in pieces {
        let takes: usize = piece.iter().map(Span::width).sum();
        if takes > room {
            break;
        }
        room -= takes;
        spans.extend(piece);
    }
    spans.into()
}

fn ports(nic: &NicReport, width: u16) -> Line<'static> {
    let said = |port: &PortReport| match (port.link, port.admin) {
        (true, true) => ("up", GOOD),
        (_, false) => ("taken down", WARN),
        (false, true) => ("no link", BAD),
    };
    let mut spans = vec![Span::styled(" ports", LABEL)];
    let mut used = 6;
    for (n, port) in nic.ports.iter().enumerate() {
        let (text, colour) = said(port);
        let rest = nic.ports.len() - n;
        let takes = 3 + text.len() + 3;
        if used + takes + 12 > usize::from(width) && rest > 1 {
            let out = nic.ports[n..].iter().filter(|port| !port.in_use).count();
            spans.push(Span::styled(format!("  {rest} more, {out} out"), LABEL));
            break;
        }
        spans.push(Span::styled(format!("  {} ", port.port), VALUE));
        spans.push(Span::styled(format!("● {text}"), Style::new().fg(colour)));
        used += takes;
    }
    if nic.denials > 0 && used + 14 < usize::from(width) {
        spans.push(Span::styled("  denials ", LABEL));
        spans.push(Span::styled(nic.denials.to_string(), Style::new().fg(WARN)));
    }
    spans.into()
}

/// The keys that matter most, as many as there is room for; help has them all.
pub(super) fn footer(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let sort = format!("sort: {}{}", model.sort.name(), if model.reversed { " up" } else { "" });
    let zoom = if model.zoomed { "back" } else { "zoom" };
    let pause = if model.paused { "go on" } else { "pause" };
    // Each with its weight: those with the largest are left out first.
    let mut keys = vec![("q", "quit", 0), ("Tab", "panel", 2), ("↑↓", "row", 6), ("Enter", zoom, 4), ("p", pause, 3)];
    if model.report().nics.len() > 1 {
        keys.insert(2, ("←→", "NIC", 2));
    }
    keys.extend([("s", sort.as_str(), 5), ("?", "help", 1)]);
    let takes = |keys: &[(&str, &str, u8)]| -> usize {
        keys.iter().map(|(key, what, _)| 3 + key.chars().count() + what.chars().count()).sum()
    };
    while takes(&keys) > usize::from(area.width)
        && let Some(last) = (0..keys.len()).max_by_key(|&n| keys[n].2)
    {
        keys.remove(last);
    }
    let spans = keys.into_iter().flat_map(|(key, what, _)| {
        let said = Style::new().fg(Color::Indexed(246));
        [Span::styled(format!(" {key}"), VALUE), Span::styled(format!(" {what} "), said)]
    });
    frame.render_widget(Paragraph::new(Line::from_iter(spans)), area);
}
