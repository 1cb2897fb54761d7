//! Which key does what.

use super::model::Action;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

/// Rows of a page.
const PAGE: isize = 10;

/// What a key does, if anything.
pub(super) fn action(event: &Event) -> Option<Action> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    // In raw mode these are keys, and no signals.
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Action::Quit);
    }
    Some(match key.code {
        KeyCode::Char('q' | 'Q') => Action::Quit,
        KeyCode::Tab => Action::NextPanel,
        KeyCode::BackTab => Action::PreviousPanel,
        KeyCode::Right => Action::NextNic,
        KeyCode::Left => Action::PreviousNic,
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::PageDown => Action::Move(PAGE),
        KeyCode::PageUp => Action::Move(-PAGE),
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        KeyCode::Enter | KeyCode::Char('z') => Action::Zoom,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('s') => Action::NextSort,
        KeyCode::Char('r') => Action::Reverse,
        KeyCode::Char('?' | 'h') => Action::Help,
        KeyCode::Esc => Action::Back,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn ctrl_c_and_q_end_it_and_a_key_that_is_let_go_does_nothing() {
        let key = |code, modifiers| action(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(action(&Event::Key(released)), None);
        assert_eq!(action(&Event::Resize(80, 24)), None);
    }
}
