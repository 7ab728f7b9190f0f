use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::*;

fn open(path: &Path) -> std::io::Result<ControlSocket> {
    ControlSocket::open(path, None, |request| match &request.command {
        Command::Reload => Err("a.toml:1: no".into()),
        command => Ok(Reply::Words(format!("{command:?}"))),
    })
}

/// What comes back for octets that are no line of the client's making.
fn raw(path: &Path, octets: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).unwrap();
    // The server may have closed already.
    let _ = stream.write_all(octets);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn commands_are_answered_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control");
    let socket = open(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(&path, "status").unwrap(), "Status\n");
    assert_eq!(ask(&path, "status --json").unwrap(), "{\"message\":\"Status\"}\n");
    assert_eq!(ask(&path, "reload").unwrap_err().to_string(), "a.toml:1: no");
    assert!(matches!(ask(&path, "dance"), Err(ClientError::Refused(_))));
    drop(socket);
    assert!(!path.exists());
    let gone = ask(&path, "status").unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable(..)) && gone.to_string().contains("is it running"));
}

#[test]
fn hostile_clients_cost_a_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control");
    let _socket = open(&path).unwrap();
    assert_eq!(raw(&path, b""), b"");
    assert_eq!(raw(&path, &[b'x'; 100_000]), b"");
    assert!(raw(&path, b"\xff\xfe\0\n").starts_with(b"error\nno such command"));
    assert_eq!(raw(&path, b"status\nstatus\n"), b"ok\nStatus\n");
    let silent = UnixStream::connect(&path).unwrap();
    assert_eq!(ask(&path, "cache").unwrap(), "Cache\n");
    drop(silent);
}

#[test]
fn a_socket_left_behind_is_replaced_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control");
    drop(UnixListener::bind(&path).unwrap());
    let socket = open(&path).unwrap();
    let second = open(&path).unwrap_err().to_string();
    assert!(second.ends_with("control: another server listens there"), "{second}");
    assert_eq!(ask(&path, "stats").unwrap(), "Stats\n");
    drop(socket);
    std::fs::write(&path, "mine").unwrap();
    assert!(open(&path).unwrap_err().to_string().ends_with("something else than a socket is there"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert!(open(&directory.path().join("no/such/control")).is_err());
}

#[test]
fn the_group_of_the_server_may_use_it() {
    if !sys::process::is_root() {
        testing::skip("root", "only root can give a file to others");
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control");
    let owner = Owner { uid: 65_534, gid: 65_533 };
    let _socket = ControlSocket::open(&path, Some(owner), |_| Ok(Reply::Words(String::new()))).unwrap();
    let file = std::fs::metadata(&path).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (65_534, 65_533, 0o660));
}
