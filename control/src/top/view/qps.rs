//! QPs.

use super::super::model::{Model, Panel};
use super::super::numbers::{bits, count, per_second};
use super::super::rates::QpRates;
use super::table::{Column, says, table};
use super::{BAD, DIM, GOOD, LABEL, VALUE, WARN, framed, nothing, window};
use crate::controller::QpReport;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Paragraph;

type Row<'a> = (&'a QpReport, Option<QpRates>);

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some((_, nic)) = model.nic() else { return };
    let all = model.qps();
    let height = usize::from(area.height).saturating_sub(3);
    let cursor = model.cursor(Panel::Qps, all.len());
    let shown = window(all.len(), height, cursor, nic.qps_left_out);
    let part = &all[shown.first..shown.last];
    let column = |head, cell: fn(&Row<'_>) -> (String, Style)| Column::new(head, part.iter().map(cell).collect());
    // A NIC that only receives has nothing to say of sending, and the other way round.
    let receives = nic.qps.iter().any(|qp| qp.delivered > 0) && nic.qps.iter().all(|qp| qp.sent == 0);
    let mut columns = vec![
        column("QP", |(qp, _)| (format!("{:#08x}", qp.qpn), VALUE)).left(),
        column("state", |(qp, _)| state(qp)).left(),
    ];
    let sends = [
        column("sent", |(_, rates)| rate(rates.as_ref(), |rates| rates.sent, VALUE)),
        column("resent", |(_, rates)| rate(rates.as_ref(), |rates| rates.resent, Style::new().fg(WARN))),
        column("pending", |(qp, _)| (qp.pending.to_string(), VALUE)),
        column("PSNs", |(qp, _)| (format!("{}/{}", qp.psns_in_flight, qp.psn_window), LABEL)),
        column("timeouts", |(qp, _)| (count(qp.timeouts), LABEL)),
    ];
    let takes = [
        column("placed", |(_, rates)| match rates {
            Some(rates) if rates.placed_bits > 0.0 => (bits(rates.placed_bits), VALUE),
            Some(_) => ("0 bit/s".into(), DIM),
            None => ("–".into(), DIM),
        }),
        column("missing", |(qp, _)| (count(qp.missing), LABEL)),
        column("dups", |(qp, _)| (count(qp.duplicates), LABEL)),
    ];
    if receives {
        columns.extend(takes.into_iter().chain(sends));
    } else {
        columns.extend(sends.into_iter().chain(takes));
    }
    // Where the last ones have no room, the addresses are what is missed least.
    columns.push(column("peer's QP", |(qp, _)| (format!("{:#08x}", qp.peer_qpn), LABEL)).left());
    columns.push(column("peer", |(qp, _)| (qp.remote.to_string(), LABEL)).left());
    let chosen = (model.panel == Panel::Qps).then(|| cursor.wrapping_sub(shown.first));
    let table = table(&columns, part.len(), usize::from(area.width.saturating_sub(2)), chosen);
    let below = says(&shown.says, table.left_out);
    let inner = framed(frame, area, model, Panel::Qps, "QPs", &below, None);
    if all.is_empty() {
        frame.render_widget(nothing(nic, "No QP is open."), inner);
        return;
    }
    frame.render_widget(Paragraph::new(table.lines), inner);
}

fn state(qp: &QpReport) -> (String, Style) {
    let colour = match qp.state.as_str() {
        "rts" => GOOD,
        "rtr" => WARN,
        _ => BAD,
    };
    (qp.state.clone(), Style::new().fg(colour))
}

fn rate(rates: Option<&QpRates>, of: fn(&QpRates) -> f64, style: Style) -> (String, Style) {
    match rates.map(of) {
        Some(rate) if rate > 0.0 => (per_second(rate), style),
        Some(_) => ("0/s".into(), DIM),
        None => ("–".into(), DIM),
    }
}
