//! The statistics of servers, read by the interface of each server.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer read, in octets.
const OCTETS_MAX: usize = 1 << 20;

/// What the server's own program says.
///
/// # Errors
/// It cannot be run, or it failed: its words.
pub(super) fn ask_program(program: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let program = program.display();
        return Err(io::Error::other(format!("{program}: {}", words.lines().next().unwrap_or_default())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What the server says to a line at its control socket, until it closes it or says `prompt` behind its
/// answer. A prompt before the answer is left out.
///
/// # Errors
/// There is no socket, or no whole answer came in time.
pub(super) fn ask_socket(path: &Path, line: &str, prompt: Option<&str>) -> io::Result<String> {
    let mut socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(line.as_bytes())?;
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while text.len() < OCTETS_MAX {
        let length = socket.read(&mut buffer)?;
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        let answer = prompt.map_or(text.as_str(), |prompt| text.strip_prefix(prompt).unwrap_or(&text));
        let ended = prompt.and_then(|prompt| answer.strip_suffix(prompt)).filter(|answer| !answer.is_empty());
        if length == 0 || ended.is_some() {
            return Ok(ended.unwrap_or(answer).to_owned());
        }
    }
    Err(io::Error::other(format!("{} says more than {OCTETS_MAX} octets", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;
    use std::os::unix::net::UnixListener;

    /// What comes from a server that says this when it is asked, and then nothing more.
    fn answered(words: &'static [&'static str], prompt: Option<&str>) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            for word in words {
                socket.write_all(word.as_bytes()).unwrap();
            }
            socket.shutdown(Shutdown::Write).unwrap();
            // To the end: what is unread when a socket is closed breaks the connection.
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let answer = ask_socket(&path, "stats\n", prompt).unwrap();
        server.join().unwrap();
        answer
    }

    #[test]
    fn an_answer_ends_with_the_connection_or_at_the_prompt_behind_it() {
        assert_eq!(answered(&["> ", "a=1\n", "> "], Some("> ")), "a=1\n");
        assert_eq!(answered(&["a=1\n> "], Some("> ")), "a=1\n");
        assert_eq!(answered(&["a=1\n", "b=2\n"], None), "a=1\nb=2\n");
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        assert_eq!(ask_program(Path::new("echo"), &["a=1"]).unwrap(), "a=1\n");
        let error = ask_program(Path::new("sh"), &["-c", "echo no such socket >&2; exit 1"]).unwrap_err();
        assert_eq!(error.to_string(), "sh: no such socket");
        assert!(ask_socket(Path::new("/nonexistent"), "x", None).is_err());
    }
}
