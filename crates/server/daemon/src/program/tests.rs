use super::*;
use crate::command::ControlCommand;

fn control(socket: Option<&str>, config: Option<PathBuf>) -> Control {
    Control { socket: socket.map(PathBuf::from), config, json: false, command: ControlCommand::Status }
}

#[test]
fn the_control_socket_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dns64d.toml");
    assert_eq!(control_socket(&control(Some("/a"), None)).unwrap(), Path::new("/a"));
    assert_eq!(control_socket(&control(None, None)).unwrap(), Path::new(CONTROL_SOCKET));
    let at = |text: &str| {
        std::fs::write(&file, text).unwrap();
        control_socket(&control(None, Some(file.clone())))
    };
    assert_eq!(at("upstreams = ['192.0.2.1']\n[control]\nsocket = '/run/x'\n").unwrap(), Path::new("/run/x"));
    assert!(at("upstreams = ['192.0.2.1']\n").unwrap_err().ends_with("control.socket: not there; add it"));
    assert!(at("nonsense").unwrap_err().contains("dns64d.toml:1"));
}
