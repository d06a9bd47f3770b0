//! A live view of a store. In: samples, taken every few seconds. Out: one full screen, or one answer for a script. The terminal is
//! given back as it was, whatever ends the view.

mod draw;
mod sample;

use std::io::IsTerminal as _;
use std::time::Duration;

use duroxide_runtime::client::Client;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::sample::Sample;
use crate::args::TopArgs;
use crate::failure::Failure;
use crate::output::Output;

/// How long one look at the keyboard takes.
const KEYS: Duration = Duration::from_millis(50);

pub(crate) async fn run(client: &Client, output: &Output, args: TopArgs) -> Result<(), Failure> {
    if output.json {
        return output.document(&Sample::take(client).await?.to_json());
    }
    if args.once {
        return output.raw(&draw::as_text(&Sample::take(client).await?));
    }
    if !std::io::stdout().is_terminal() {
        let why = "top needs a terminal; use --once or --json";
        return Err(Failure::Usage(why.to_owned()));
    }
    let first = Sample::take(client).await?;
    // Also restores the terminal if this process panics.
    let mut terminal = ratatui::try_init()?;
    let shown = show(client, &mut terminal, first, args.every).await;
    ratatui::restore();
    shown
}

async fn show(
    client: &Client,
    terminal: &mut DefaultTerminal,
    mut sample: Sample,
    every: Duration,
) -> Result<(), Failure> {
    loop {
        terminal.draw(|frame| draw::screen(frame, &sample))?;
        let next = tokio::time::Instant::now() + every;
        while tokio::time::Instant::now() < next {
            match pressed().await? {
                Pressed::Quit => return Ok(()),
                Pressed::Look => break,
                Pressed::Resized => {
                    terminal.draw(|frame| draw::screen(frame, &sample))?;
                }
                Pressed::Nothing => {}
            }
        }
        match Sample::take(client).await {
            Ok(taken) => sample = taken,
            // The store may be away for a moment; the last sample stays, with the reason.
            Err(failure) => sample.trouble = Some(failure.to_string()),
        }
    }
}

/// What a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pressed {
    Quit,
    /// Look at once.
    Look,
    Resized,
    Nothing,
}

async fn pressed() -> Result<Pressed, Failure> {
    let read = || match event::poll(KEYS)? {
        true => event::read().map(Some),
        false => Ok(None),
    };
    let read = tokio::task::spawn_blocking(read).await;
    let event = read.map_err(|error| Failure::Store(error.to_string()))??;
    Ok(event.map_or(Pressed::Nothing, |event| meaning(&event)))
}

fn meaning(event: &Event) -> Pressed {
    match event {
        Event::Key(KeyEvent {
            kind: KeyEventKind::Release,
            ..
        }) => Pressed::Nothing,
        Event::Key(KeyEvent {
            code: KeyCode::Char('q') | KeyCode::Esc,
            ..
        }) => Pressed::Quit,
        Event::Key(KeyEvent {
            code: KeyCode::Char('c'),
            modifiers,
            ..
        }) if modifiers.contains(KeyModifiers::CONTROL) => Pressed::Quit,
        Event::Key(_) => Pressed::Look,
        Event::Resize(..) => Pressed::Resized,
        _ => Pressed::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn q_escape_and_control_c_quit_and_other_keys_look_at_once() {
        let none = KeyModifiers::NONE;
        assert_eq!(meaning(&key(KeyCode::Char('q'), none)), Pressed::Quit);
        assert_eq!(meaning(&key(KeyCode::Esc, none)), Pressed::Quit);
        let control_c = key(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(meaning(&control_c), Pressed::Quit);
        assert_eq!(meaning(&key(KeyCode::Char('c'), none)), Pressed::Look);
        assert_eq!(meaning(&Event::Resize(80, 24)), Pressed::Resized);
    }
}
