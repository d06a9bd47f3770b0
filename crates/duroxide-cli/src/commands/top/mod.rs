//! A live view of a store. In: samples, taken every few seconds. Out: one full screen, or one answer for a script. The
//! terminal is given back as it was, whatever ends the view.

mod draw;
mod sample;

use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::Duration;

use duroxide_runtime::client::Client;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

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
    let over = asked_to_end()?;
    // Also restores the terminal if this process panics.
    let mut terminal = ratatui::try_init()?;
    let draw = |sample: &Sample| -> Result<(), Failure> {
        terminal.draw(|frame| draw::screen(frame, sample))?;
        Ok(())
    };
    let shown = show(
        first,
        args.every,
        || Sample::take(client),
        draw,
        keys(),
        over,
    )
    .await;
    ratatui::restore();
    shown
}

/// Draws sample after sample until a key or `over` ends it. Keys are heard while the next sample waits for its time,
/// and while the store takes long to answer.
async fn show<T: Future<Output = Result<Sample, Failure>>>(
    mut sample: Sample,
    every: Duration,
    take: impl Fn() -> T,
    mut draw: impl FnMut(&Sample) -> Result<(), Failure>,
    mut keys: UnboundedReceiver<std::io::Result<Pressed>>,
    over: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let mut over = pin!(over);
    loop {
        draw(&sample)?;
        let mut pause = pin!(tokio::time::sleep(every));
        let mut taking = pin!(take());
        let mut is_time = false;
        let taken = loop {
            tokio::select! {
                () = over.as_mut() => return Ok(()),
                taken = taking.as_mut(), if is_time => break taken,
                () = pause.as_mut(), if !is_time => is_time = true,
                key = keys.recv() => match key.transpose()?.unwrap_or(Pressed::Quit) {
                    Pressed::Quit => return Ok(()),
                    Pressed::Look => is_time = true,
                    Pressed::Resized => draw(&sample)?,
                    Pressed::Nothing => {}
                },
            }
        };
        match taken {
            Ok(taken) => sample = taken,
            // The store may be away for a moment; the last sample stays, with the reason.
            Err(failure) => sample.trouble = Some(failure.to_string()),
        }
    }
}

/// Ends when the process is asked to: the terminal is given back first.
fn asked_to_end() -> Result<impl Future<Output = ()>, Failure> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(std::future::pending())
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

/// What is pressed from now on. A thread of its own reads it, so that no key is lost between two looks; it ends with
/// the receiver, or when the terminal is gone.
fn keys() -> UnboundedReceiver<std::io::Result<Pressed>> {
    let (keys, pressed_keys) = unbounded_channel();
    std::thread::spawn(move || {
        while !keys.is_closed() {
            let pressed = match event::poll(KEYS) {
                Ok(false) => continue,
                Ok(true) => event::read().map(|event| meaning(&event)),
                Err(error) => Err(error),
            };
            let is_over = pressed.is_err();
            if keys.send(pressed).is_err() || is_over {
                return;
            }
        }
    });
    pressed_keys
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

    const HOUR: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_key_is_heard_while_the_store_does_not_answer() {
        let (press, keys) = unbounded_channel();
        for key in [
            Pressed::Resized,
            Pressed::Look,
            Pressed::Nothing,
            Pressed::Quit,
        ] {
            press.send(Ok(key)).expect("somebody listens");
        }
        let mut drawn = 0;
        let draw = |_: &Sample| {
            drawn += 1;
            Ok(())
        };
        let never = std::future::pending;
        let first = Sample::default();
        let shown = show(first, HOUR, never, draw, keys, std::future::pending());
        shown.await.expect("it was quit");
        assert_eq!(drawn, 2, "at first, and with another size");
    }

    #[tokio::test]
    async fn a_store_that_is_away_is_shown_and_looked_at_again() {
        let (press, keys) = unbounded_channel();
        let away = || async { Err(Failure::Store("away".to_owned())) };
        let mut seen = Vec::new();
        let draw = |sample: &Sample| {
            seen.push(sample.trouble.clone());
            // One key for each drawing: a key left over could be heard after the next sample instead of before it.
            let next = if seen.len() < 3 {
                Pressed::Look
            } else {
                Pressed::Quit
            };
            press.send(Ok(next)).map_err(|_| Failure::Timeout)
        };
        let first = Sample::default();
        let shown = show(first, HOUR, away, draw, keys, std::future::pending());
        shown.await.expect("it was quit");
        let away = Some("away".to_owned());
        assert_eq!(seen, [None, away.clone(), away]);
    }

    #[tokio::test]
    async fn a_process_that_is_asked_to_end_gives_the_terminal_back() {
        let (_press, keys) = unbounded_channel();
        let never = std::future::pending;
        let over = std::future::ready(());
        let shown = show(
            Sample::default(),
            HOUR,
            never,
            |_: &Sample| Ok(()),
            keys,
            over,
        );
        shown.await.expect("it was asked to end");
    }
}
