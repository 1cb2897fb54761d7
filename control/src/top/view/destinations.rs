//! Destinations: windows, round-trip times, and what congestion control made of them.

use super::super::model::{Model, Panel};
use super::super::numbers::{bytes, time};
use super::table::{Column, says, table};
use super::{BAD, DIM, GOOD, LABEL, VALUE, WARN, framed, nothing, window};
use crate::controller::{DestinationReport, NsccView};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Paragraph;

/// Characters of a gauge.
const GAUGE: usize = 10;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some((_, nic)) = model.nic() else { return };
    let all = &nic.destinations;
    let height = usize::from(area.height).saturating_sub(3);
    let cursor = model.cursor(Panel::Destinations, all.len());
    let shown = window(all.len(), height, cursor, nic.destinations_left_out);
    let part = &all[shown.first..shown.last];
    let column =
        |head, cell: fn(&DestinationReport) -> (String, Style)| Column::new(head, part.iter().map(cell).collect());
    let columns = [
        column("destination", |to| (to.destination.to_string(), VALUE)).left().least(15),
        column("in use", gauge).left(),
        column("in flight / window", |to| (room(to), VALUE)),
        column("RTT", |to| microseconds(to.rtt_us)),
        column("base", |to| microseconds(nscc(to, |nscc| nscc.base_rtt_us))),
        column("queue", |to| microseconds(nscc(to, |nscc| nscc.average_delay_us))),
        column("rule", rule).left(),
        column("EVs good/skip/bad/denied", evs),
        column("peer's ports out", peer_ports).left(),
        column("QPs", |to| (to.qps.to_string(), VALUE)),
    ];
    let chosen = cursor.checked_sub(shown.first).filter(|_| all.len() > 1 || model.panel == Panel::Destinations);
    let table = table(&columns, part.len(), usize::from(area.width.saturating_sub(2)), chosen);
    let inner =
        framed(frame, area, model, Panel::Destinations, "Destinations", &says(&shown.says, table.left_out), None);
    if all.is_empty() {
        frame.render_widget(nothing(nic, "No QP is open."), inner);
        return;
    }
    frame.render_widget(Paragraph::new(table.lines), inner);
}

fn gauge(to: &DestinationReport) -> (String, Style) {
    let Some(window) = to.window else { return ("no limit".into(), LABEL) };
    let share = to.inflight as f64 / window.max(1) as f64;
    let full = ((share * GAUGE as f64).round() as usize).min(GAUGE);
    let colour = if share < 0.9 { GOOD } else { WARN };
    (format!("{}{}", "█".repeat(full), "░".repeat(GAUGE - full)), Style::new().fg(colour))
}

fn room(to: &DestinationReport) -> String {
    match to.window {
        Some(window) => format!("{} / {}", bytes(to.inflight), bytes(window)),
        None => format!("{} / –", bytes(to.inflight)),
    }
}

fn microseconds(us: Option<f64>) -> (String, Style) {
    us.map_or_else(|| ("–".into(), DIM), |us| (time(us), VALUE))
}

/// A figure of NSCC: the largest of the groups.
fn nscc(to: &DestinationReport, of: fn(&NsccView) -> f64) -> Option<f64> {
    to.groups.iter().filter_map(|group| group.nscc.as_ref()).map(of).reduce(f64::max)
}

fn rule(to: &DestinationReport) -> (String, Style) {
    let Some(nscc) = to.groups.iter().find_map(|group| group.nscc.as_ref()) else {
        return (if to.window.is_some() { "constant" } else { "no limit" }.into(), LABEL);
    };
    let (name, colour) = match nscc.rule.as_str() {
        "proportional_increase" => ("prop. up", GOOD),
        "fair_increase" => ("fair up", GOOD),
        "fast_increase" => ("fast up", GOOD),
        "restore" => ("restored", GOOD),
        "multiplicative_decrease" => ("down", WARN),
        "quick_adapt" => ("quick adapt", BAD),
        "trimmed" => ("trimmed", WARN),
        "lost" => ("lost", BAD),
        "penalty" => ("penalty", WARN),
        "ignoring" => ("ignoring", WARN),
        _ => return ("none".into(), LABEL),
    };
    (name.into(), Style::new().fg(colour))
}

fn evs(to: &DestinationReport) -> (String, Style) {
    let states = to.ev_states;
    let text = format!("{}/{}/{}/{}", states.good, states.skip, states.assumed_bad, states.denied);
    let colour = if states.assumed_bad > 0 {
        BAD
    } else if states.denied > 0 {
        WARN
    } else {
        GOOD
    };
    (text, Style::new().fg(colour))
}

fn peer_ports(to: &DestinationReport) -> (String, Style) {
    if to.peer_ports_out.is_empty() {
        return ("none".into(), LABEL);
    }
    let ports: Vec<String> = to.peer_ports_out.iter().map(ToString::to_string).collect();
    (ports.join(", "), Style::new().fg(WARN))
}
