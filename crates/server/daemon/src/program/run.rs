//! The life of the program: start, loop, reload, end.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use server_core::stats::Stats;
use sys::given::GivenSocket;
use sys::metrics_page::MetricsServer;
use sys::privileges::Account;

use super::events::{Event, EventSender, SignalThread};
use crate::config::{Config, Level, Sandbox};
use crate::control::{ControlSocket, Owner};
use crate::dnstap::Tap;
use crate::log::Log;
use crate::notify::Notify;
use crate::privileges::{self, Step, TcpPorts};
use crate::runtime::{OnEnd, Service, Services, Settle};

const NS_PER_S: f64 = 1e9;

pub(super) struct Daemon<S> {
    pub(super) service: S,
    pub(super) config: Config,
    pub(super) file: PathBuf,
    pub(super) log: Log,
    pub(super) tap: Option<Tap>,
    pub(super) notify: Notify,
    pub(super) steps: Vec<Step>,
    /// Those that are left, where all others were given up.
    tcp_ports: Option<TcpPorts>,
    pub(super) began: Instant,
    /// When the service manager is next to hear that all threads work.
    beat_at: Instant,
    /// The start in seconds since 1970.
    pub(super) began_s: f64,
    pub(super) reloads: u64,
    pub(super) reload_failures: u64,
}

/// Serves until a signal ends it.
///
/// # Errors
/// One line: why it did not start, or why it ended by itself.
pub(super) fn run<S, F>(config: Config, file: PathBuf, start: F) -> Result<(), String>
where
    S: Service,
    F: FnOnce(&Config, Vec<GivenSocket>, &Services, &OnEnd, Settle<'_>) -> Result<S, S::Error>,
{
    let account = privileges::account(&config)?;
    let given = sys::given::take().map_err(|error| error.to_string())?;
    let notify = Notify::from_environment().map_err(|error| format!("NOTIFY_SOCKET: {error}"))?;
    sys::process::raise_file_limit();
    let steps = privileges::before_start(&config, &file, account.as_ref())?;
    let log = Log::start(&config.log).map_err(|error| format!("cannot start a thread: {error}"))?;
    let (events, mailbox) = mailbox();
    let result = Program { config, file, log: log.clone(), notify, account, steps }
        .serve(given, events, &mailbox, start);
    log.flush();
    result
}

fn mailbox() -> (Receiver<Event>, EventSender) {
    let (sender, events) = channel();
    (events, EventSender(sender))
}

/// A program that does not serve yet.
struct Program {
    config: Config,
    file: PathBuf,
    log: Log,
    notify: Notify,
    account: Option<Account>,
    steps: Vec<Step>,
}

impl Program {
    fn serve<S, F>(
        self,
        given: Vec<GivenSocket>,
        events: Receiver<Event>,
        mailbox: &EventSender,
        start: F,
    ) -> Result<(), String>
    where
        S: Service,
        F: FnOnce(&Config, Vec<GivenSocket>, &Services, &OnEnd, Settle<'_>) -> Result<S, S::Error>,
    {
        let cannot = |what: &'static str| move |error: std::io::Error| format!("cannot {what}: {error}");
        let Self { config, file, log, notify, account, mut steps } = self;
        for warning in &config.warnings {
            log.event(Level::Warning, "configuration", warning, &[]);
        }
        let _signals = SignalThread::start(mailbox.clone()).map_err(cannot("take signals"))?;
        let tap = config.dnstap.as_ref().map(|choice| Tap::start(choice, log.clone())).transpose();
        let tap = tap.map_err(cannot("start a thread"))?;
        let _control = control(&config, account.as_ref(), mailbox)?;
        // Declared after it, so dropped before it whatever happens: its thread then waits for no answer
        // any more.
        let events = events;
        let ended = mailbox.clone();
        let on_end: OnEnd = Arc::new(move || ended.send(Event::Ended));
        let services = Services { log: log.clone(), tap: tap.clone() };
        let mut settle = || -> Result<(), String> {
            steps.extend(privileges::after_start(&config, account.as_ref())?);
            Ok(())
        };
        let service =
            start(&config, given, &services, &on_end, &mut settle).map_err(|error| error.to_string())?;
        let _metrics = metrics(&config, mailbox)?;
        let (began, began_s) = (Instant::now(), sys::clock::realtime_ns() as f64 / NS_PER_S);
        let tcp_ports = (config.process.sandbox == Sandbox::Required).then(|| TcpPorts::by(&config));
        Daemon {
            tcp_ports,
            service,
            config,
            file,
            log,
            tap,
            notify,
            steps,
            began,
            beat_at: began,
            began_s,
            reloads: 0,
            reload_failures: 0,
        }
        .live(events)
    }
}

fn control(
    config: &Config,
    account: Option<&Account>,
    mailbox: &EventSender,
) -> Result<Option<ControlSocket>, String> {
    let Some(path) = &config.control else { return Ok(None) };
    let (mailbox, owner) = (mailbox.clone(), account.map(|&Account { uid, gid, .. }| Owner { uid, gid }));
    let socket = ControlSocket::open(path, owner, move |request| mailbox.control(&request.command));
    socket.map(Some).map_err(|error| error.to_string())
}

fn metrics(config: &Config, mailbox: &EventSender) -> Result<Option<MetricsServer>, String> {
    let Some(address) = config.metrics else { return Ok(None) };
    let mailbox = mailbox.clone();
    let server = MetricsServer::start(address, || (), move || mailbox.metrics());
    server.map(Some).map_err(|error| format!("metrics: {error}"))
}

impl<S: Service> Daemon<S> {
    /// Says that it serves, and sees to events until one ends it.
    fn live(mut self, events: Receiver<Event>) -> Result<(), String> {
        for step in &self.steps {
            let level = if step.done { Level::Info } else { Level::Warning };
            self.log.event(level, "privileges", &step.words, &[("step", &step.name), ("done", &step.done)]);
        }
        let ready = self.ready_line();
        self.log.event(Level::Info, "ready", &ready, &[("version", &env!("CARGO_PKG_VERSION"))]);
        self.notify.ready(&ready);
        let mut by_itself = false;
        while let Some(event) = self.next(&events) {
            match event {
                Event::Stop => break,
                Event::Ended => {
                    by_itself = true;
                    break;
                }
                Event::Reload => drop(self.reload()),
                Event::Control(command, answer) => {
                    let reply = self.answer(&command);
                    // Who asked may have gone.
                    let _ = answer.try_send(reply);
                }
                Event::Metrics(answer) => drop(answer.try_send(self.metrics_page())),
            }
        }
        // Whoever waits for an answer need not wait any longer.
        drop(events);
        match self.end() {
            Ok(()) if by_itself => {
                Err("a thread of the server ended by itself; please report this".to_owned())
            }
            result => result,
        }
    }

    /// The next event; meanwhile the service manager hears that the loop and all threads work. `None` cannot
    /// happen while somebody can send.
    fn next(&mut self, events: &Receiver<Event>) -> Option<Event> {
        let Some(beat) = self.notify.beat() else { return events.recv().ok() };
        loop {
            if Instant::now() >= self.beat_at {
                self.beat();
                self.beat_at = Instant::now() + beat;
            }
            match events.recv_timeout(self.beat_at.saturating_duration_since(Instant::now())) {
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Tells the service manager that the program is alive, unless a thread has not answered since the last
    /// time: then the manager ends the program, if that goes on.
    fn beat(&self) {
        let silent = self.service.silent_threads();
        if silent.is_empty() {
            return self.notify.alive();
        }
        let threads = silent.join(" ");
        self.log.event(Level::Error, "silent", "threads give no sign of life", &[("threads", &threads)]);
    }

    /// Reads the configuration again; with an error in it, or one that the server cannot take on, the old one
    /// goes on.
    ///
    /// # Errors
    /// One line with the reason.
    pub(super) fn reload(&mut self) -> Result<(), String> {
        self.notify.reloading(sys::clock::monotonic_ns());
        let result = self.take_on();
        match &result {
            Ok(()) => {
                self.reloads += 1;
                self.log.event(Level::Info, "reload", "the new configuration is in force", &[]);
            }
            Err(error) => {
                self.reload_failures += 1;
                let message = format_args!("the old configuration stays in force: {error}");
                self.log.event(Level::Error, "reload", message, &[]);
            }
        }
        self.notify.ready(&self.ready_line());
        result
    }

    fn take_on(&mut self) -> Result<(), String> {
        let config = Config::load(&self.file).map_err(|error| error.to_string())?;
        if self.tcp_ports.as_ref().is_some_and(|left| !left.suffice(&TcpPorts::by(&config))) {
            return Err("process.sandbox gave up a TCP port that it needs: start dns64d again".to_owned());
        }
        for warning in &config.warnings {
            self.log.event(Level::Warning, "configuration", warning, &[]);
        }
        self.service.reload(&config).map_err(|error| error.to_string())?;
        self.log.set_level(config.log.level);
        self.log.set_queries(config.log.queries);
        let keys = Vec::from_iter(only_at_start(&self.config, &config)).join(", ");
        if !keys.is_empty() {
            let message =
                format_args!("a reload does not change {keys}: new values count from the next start on");
            self.log.event(Level::Warning, "configuration", message, &[]);
        }
        self.config = config;
        Ok(())
    }

    fn ready_line(&self) -> String {
        let threads = count(self.service.threads(), "thread");
        let upstreams = count(self.config.upstreams.len(), "upstream");
        format!("ready on {} ({threads}, {upstreams})", self.addresses().join(", "))
    }

    fn end(self) -> Result<(), String> {
        self.notify.stopping();
        let stopped = self.service.stop().map_err(|error| error.to_string());
        if let Some(tap) = &self.tap {
            tap.finish();
        }
        let Stats { accepted, answered, synthesized, failed, refused, .. } = stopped?;
        let message = format_args!(
            "stopped after {accepted} queries: {answered} answered ({synthesized} synthesized), {failed} failed, \
             {refused} refused"
        );
        self.log.event(Level::Info, "stopped", message, &[]);
        Ok(())
    }
}

/// The keys whose new values a running program does not take on.
fn only_at_start<'c>(old: &'c Config, new: &'c Config) -> BTreeSet<&'c str> {
    let (old, new) = (&old.at_start, &new.at_start);
    let missing = |from: &'c [(String, String)], other: &'c [(String, String)]| {
        from.iter().filter(|pair| !other.contains(pair)).map(|(key, _)| key.as_str())
    };
    missing(old, new).chain(missing(new, old)).collect()
}

fn count(number: usize, noun: impl Display) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
