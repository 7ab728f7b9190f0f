//! The thread that listens on the control socket.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Reply, Request};

/// How long a client may take to say its line, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest line, in octets: a name of 255 octets with every octet escaped fits.
const LINE_OCTETS_MAX: usize = 2048;
/// How long the thread waits when no connection can be taken, too many open files for example.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections that wait for their turn.
const BACKLOG: i32 = 16;

/// Who the socket's file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user ID.
    pub uid: u32,
    /// The group, which may use the socket, too.
    pub gid: u32,
}

/// The listening socket; dropping it ends the thread and removes the file.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    inode: u64,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Listens at a path, for its owner alone, or for the owner and group given. `answer` does what is asked.
    ///
    /// A socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// Another server listens there, something else than a socket is there, or the directory does not allow
    /// it; the message names the path.
    pub fn open(
        path: &Path,
        owner: Option<Owner>,
        answer: impl Fn(&Request) -> Result<Reply, String> + Send + 'static,
    ) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("control socket {}: {error}", path.display()))
        };
        let listener = listen(path, owner).map_err(named)?;
        let inode = fs::symlink_metadata(path).map_err(named)?.ino();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("dns64d-control".into())
            .spawn(move || serve(&listener, &told, &answer))
            .map_err(named)?;
        Ok(Self { path: path.into(), inode, stop, thread: Some(thread) })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it; where that fails, it is not waited for.
        let woken = UnixStream::connect(&self.path);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            // After the user was changed the directory may not allow it; the next start replaces the socket.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn listen(path: &Path, owner: Option<Owner>) -> io::Result<UnixListener> {
    make_way(path)?;
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    // Nobody can connect before it listens, so the permissions are there first.
    fs::set_permissions(path, fs::Permissions::from_mode(if owner.is_some() { 0o660 } else { 0o600 }))?;
    // After this, changing the permissions would take CAP_FOWNER.
    if let Some(Owner { uid, gid }) = owner {
        std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
    }
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket that a server left behind.
fn make_way(path: &Path) -> io::Result<()> {
    let Ok(file) = fs::symlink_metadata(path) else { return Ok(()) };
    let taken = |reason: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, reason.to_owned()));
    if !file.file_type().is_socket() {
        return taken("something else than a socket is there");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            taken("a socket of another user is there; remove it if no server runs")
        }
        Err(error) => Err(error),
        Ok(_) => taken("another server listens there"),
    }
}

fn serve(listener: &UnixListener, stop: &AtomicBool, answer: &dyn Fn(&Request) -> Result<Reply, String>) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A client that goes away is no affair of ours.
            Ok((stream, _)) => drop(converse(stream, answer)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn converse(mut stream: UnixStream, answer: &dyn Fn(&Request) -> Result<Reply, String>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(line) = read_line(&mut stream)? else { return Ok(()) };
    let text = match Request::parse(&line).and_then(|request| Ok((request.json, answer(&request)?))) {
        Ok((true, reply)) => format!("ok\n{}", reply.json()),
        Ok((false, reply)) => format!("ok\n{}", reply.text()),
        Err(reason) => format!("error\n{reason}\n"),
    };
    stream.write_all(text.as_bytes())
}

/// The line, up to its line break or the end of what the client says; `None` if it says nothing.
fn read_line(stream: &mut UnixStream) -> io::Result<Option<String>> {
    let until = Instant::now() + PATIENCE;
    let mut octets = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || octets.len() > LINE_OCTETS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut some = [0; 512];
        let length = stream.read(&mut some)?;
        octets.extend_from_slice(&some[..length]);
        let end = octets.iter().position(|&octet| octet == b'\n');
        if let Some(end) = end.or((length == 0).then_some(octets.len())) {
            octets.truncate(end);
            return Ok((end > 0).then(|| String::from_utf8_lossy(&octets).into_owned()));
        }
    }
}
