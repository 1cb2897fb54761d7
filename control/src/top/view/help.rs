//! Keys, and how to read the screen.

use super::ACCENT;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Paragraph};

const TEXT: &str = " q, Ctrl-C     quit
 Tab, BackTab  next panel, previous panel
 ← →           previous NIC, next NIC
 ↑ ↓ PgUp PgDn Home End
               rows of the panel; in EVs the value that is described
 Enter, z      the panel fills the screen, and back
 p, Space      pause: nothing is asked of the NIC
 s, r          sort QPs by the next column, the other way round
 ?, Esc        this, and back

 EVs: a cell is an entropy value, p1 its port. The brighter, the more
 packets take it. g good, S skipped once, B assumed bad, D denied,
 o its port is out at this end or the other.
 The destination whose EVs are shown is chosen in Destinations.";

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (72.min(area.width), 16.min(area.height));
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = Block::bordered().border_style(Style::new().fg(ACCENT)).title(" Help ");
    frame.render_widget(Paragraph::new(TEXT).block(block), place);
}
