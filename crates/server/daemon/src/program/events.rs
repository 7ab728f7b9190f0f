//! The events of the loop, and how other threads send questions to the loop.

use std::io;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::control::{Command, Reply};

/// How long the loop may take to answer: a reload opens sockets and reads files.
const CONTROL_PATIENCE: Duration = Duration::from_secs(55);
/// A page of metrics waits no longer than a reload that hangs.
const METRICS_PATIENCE: Duration = Duration::from_secs(5);

/// Something that the loop has to see to.
#[derive(Debug)]
pub(super) enum Event {
    /// SIGHUP.
    Reload,
    /// SIGTERM or SIGINT.
    Stop,
    /// A thread of the server has ended.
    Ended,
    /// A command of the control socket; who asked waits.
    Control(Command, SyncSender<Result<Reply, String>>),
    /// The metrics page is wanted.
    Metrics(SyncSender<String>),
}

/// Sends events; one for each thread that does.
#[derive(Clone, Debug)]
pub(super) struct EventSender(pub(super) Sender<Event>);

impl EventSender {
    /// Sends an event. Once the loop has ended, nobody is told.
    pub(super) fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }

    /// Has the loop do a command.
    pub(super) fn control(&self, command: &Command) -> Result<Reply, String> {
        self.ask(|answer| Event::Control(command.clone(), answer), CONTROL_PATIENCE)
            .unwrap_or_else(|| Err("the server is busy or about to end".to_owned()))
    }

    /// Has the loop make the metrics page.
    pub(super) fn metrics(&self) -> Option<String> {
        self.ask(Event::Metrics, METRICS_PATIENCE)
    }

    fn ask<T>(&self, event: impl FnOnce(SyncSender<T>) -> Event, patience: Duration) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        self.send(event(answer));
        answered.recv_timeout(patience).ok()
    }
}

/// Turns signals into events, in a thread of its own, until it is dropped.
pub(super) struct SignalThread(Handle);

impl SignalThread {
    /// Starts the thread. From here on SIGTERM, SIGINT and SIGHUP do nothing by themselves.
    pub(super) fn start(mailbox: EventSender) -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let work = move || {
            for signal in signals.forever() {
                mailbox.send(if signal == SIGHUP { Event::Reload } else { Event::Stop });
            }
        };
        std::thread::Builder::new().name("dns64d-signals".into()).spawn(work)?;
        Ok(Self(handle))
    }
}

impl Drop for SignalThread {
    fn drop(&mut self) {
        self.0.close();
    }
}
