//! Messages to the service manager (sd_notify(3)): ready, reloading, stopping, still alive.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The socket of the service manager; without one, telling it anything does nothing.
#[derive(Debug, Default)]
pub struct Notify {
    manager: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    ///
    /// # Errors
    /// The socket's name makes no sense, or no socket can be opened.
    pub fn from_environment() -> io::Result<Self> {
        let watchdog = watchdog(
            std::env::var("WATCHDOG_USEC").ok().as_deref(),
            std::env::var("WATCHDOG_PID").ok().as_deref(),
            std::process::id(),
        );
        match std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) {
            Some(name) => Self::to(&name, watchdog),
            None => Ok(Self::default()),
        }
    }

    /// Tells a socket: a path, or `@` and an abstract name.
    fn to(name: &OsString, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "no path and no abstract name")),
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not stop the server.
        socket.set_nonblocking(true)?;
        // The user who starts may reach it, and the one whom the program becomes may not. A manager that is
        // not there is no reason not to serve.
        let _ = socket.connect_addr(&address);
        Ok(Self { manager: Some((socket, address)), watchdog })
    }

    /// How often [`Notify::alive`] is to be called: four times in the time after which the manager takes the
    /// program for dead, so that a thread may be late with its sign of life.
    pub fn beat(&self) -> Option<Duration> {
        self.manager.as_ref().and(self.watchdog).map(|period| period / 4)
    }

    /// The server answers, or answers again after a reload; `status` is a line for people.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// A reload begins, at this time on the monotonic clock; [`Notify::ready`] ends it
    /// (`Type=notify-reload`).
    pub fn reloading(&self, monotonic_ns: u64) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_ns / 1000));
    }

    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    fn tell(&self, words: &str) {
        if let Some((socket, address)) = &self.manager {
            let sent = socket.send(words.as_bytes());
            // Another socket may have taken its place. Its trouble is not ours, and a missed beat is followed
            // by another.
            let _ = sent.or_else(|_| socket.send_to_addr(words.as_bytes(), address));
        }
    }
}

/// The period of the watchdog, if it is meant for this process.
fn watchdog(usec: Option<&str>, pid: Option<&str>, own_pid: u32) -> Option<Duration> {
    let ours = pid.is_none_or(|pid| pid.parse() == Ok(own_pid));
    let usec = usec?.parse().ok().filter(|&usec| usec > 0 && ours)?;
    Some(Duration::from_micros(usec))
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> String {
        let mut octets = [0; 256];
        let length = manager.recv(&mut octets).unwrap();
        String::from_utf8(octets[..length].to_vec()).unwrap()
    }

    #[test]
    fn the_manager_hears_each_step() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("dns64d-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let managers = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{abstract_name}").into()),
        ];
        for (manager, name) in managers {
            let notify = Notify::to(&name, Some(Duration::from_secs(10))).unwrap();
            assert_eq!(notify.beat(), Some(Duration::from_millis(2500)));
            notify.ready("2 threads\nx");
            assert_eq!(heard(&manager), "READY=1\nSTATUS=2 threads x");
            notify.reloading(1_234_567);
            assert_eq!(heard(&manager), "RELOADING=1\nMONOTONIC_USEC=1234");
            notify.alive();
            assert_eq!(heard(&manager), "WATCHDOG=1");
            notify.stopping();
            assert_eq!(heard(&manager), "STOPPING=1");
            drop(manager);
            notify.alive();
        }
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let notify = Notify::default();
        notify.ready("");
        assert_eq!(notify.beat(), None);
        assert!(Notify::to(&"relative".into(), None).is_err());
    }

    #[test]
    fn the_watchdog_of_another_process_is_not_ours() {
        assert_eq!(watchdog(Some("2000000"), None, 7), Some(Duration::from_secs(2)));
        assert_eq!(watchdog(Some("2000000"), Some("7"), 7), Some(Duration::from_secs(2)));
        assert_eq!(watchdog(Some("2000000"), Some("8"), 7), None);
        assert_eq!(watchdog(Some("0"), None, 7), None);
        assert_eq!(watchdog(Some("x"), None, 7), None);
        assert_eq!(watchdog(None, Some("7"), 7), None);
    }
}
