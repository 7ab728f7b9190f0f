//! A server program as a row of a table: its package, its configuration, and the address at which it answers.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

use super::statistics::{ask_program, ask_socket};
use super::{PeerSettings, Streams, Transport, locate};
use crate::scratch::Scratch;

/// A server program. The tables are [`super::all`] and [`super::authoritative::all`].
///
/// Texts are templates: `{name}` stands for the value of that name in the settings ([`Settings::values`]).
#[derive(Clone, Debug)]
pub struct Server {
    /// The name on the command line and in records, for example `unbound`.
    pub name: &'static str,
    /// The Debian packages that install it, if there are any.
    pub package: Option<&'static str>,
    /// How it is had where Debian has no package of it; like `package`, none for those that come with the
    /// instrument.
    pub built_by: Option<&'static str>,
    /// The program's name.
    pub program: &'static str,
    /// The arguments that make it print its version, none if it cannot, and the text before the version.
    /// Where that is empty, the first word counts that looks like a version.
    pub version: (&'static [&'static str], &'static str),
    /// The directory that its AppArmor profile lets it read and write, if Debian confines it. Its scratch
    /// directory is made there on systems with AppArmor.
    pub confined_to: Option<&'static str>,
    /// The names of its files and their templates, the configuration file first.
    pub files: &'static [(&'static str, &'static str)],
    /// Its arguments when it runs in the foreground: templates, which also know `{configuration}`, the path
    /// of that file. A value of several lines makes several arguments.
    pub arguments: &'static [&'static str],
    /// Why it cannot be kept as a child at all, in one line that says what to do.
    pub by_hand: Option<&'static str>,
    /// What its configuration says beside, at `{xdp}`, so that it answers by XDP. Such a server takes
    /// devices, where nobody else's programs may be, and stays root.
    pub xdp: Option<&'static str>,
    /// What its configuration says beside, at `{streams}`, for each transport by connections that it can be
    /// told to serve.
    pub streams: &'static [(Transport, &'static str)],
    /// Whether it only forwards: what it is asked must have an address of the family asked.
    pub only_forwards: bool,
    /// Whether it stays root without XDP too, because something that it is told needs that.
    pub needs_root: bool,
    /// Whether it knows no other prefixes than those of 96 bits.
    pub only_96: bool,
    /// How it tells what it has counted.
    pub statistics: Statistics,
}

/// How a server tells what it has counted since its start. Texts are templates that know `{directory}`, its
/// own.
#[derive(Clone, Copy, Debug)]
pub enum Statistics {
    /// It does not.
    None,
    /// A program with these arguments prints it.
    Program(&'static str, &'static [&'static str]),
    /// It is the answer to a line at a socket below its directory; where there is a directory, at the only
    /// one in it.
    Socket {
        /// The path below the server's directory.
        path: &'static str,
        /// The command that is written to the socket.
        line: &'static str,
        /// What it says behind the answer, if it does not close the connection.
        prompt: Option<&'static str>,
    },
}

pub(super) const UNSET: Server = Server {
    name: "",
    package: None,
    built_by: None,
    program: "",
    version: (&[], ""),
    confined_to: None,
    files: &[],
    arguments: &[],
    by_hand: None,
    xdp: None,
    streams: &[],
    only_forwards: false,
    needs_root: false,
    only_96: false,
    statistics: Statistics::None,
};

/// The names that templates know, and what stands for them.
pub type Values = Vec<(&'static str, String)>;

/// Settings whose values stand in templates.
pub trait Settings {
    /// The values for its templates.
    fn values(&self) -> Values;

    /// How it is asked by connections; none: over UDP.
    fn streams(&self) -> Option<Streams> {
        None
    }
}

impl Server {
    /// Its files by their names, the configuration file first.
    pub fn files(&self, settings: &impl Settings) -> Vec<(&'static str, String)> {
        let mut values = settings.values();
        let xdp = self.xdp.map_or_else(String::new, |section| render(section, &values));
        values.push(("xdp", xdp));
        let streams = settings.streams().and_then(|streams| self.streams_section(streams.transport));
        let streams = streams.map_or_else(String::new, |section| render(section, &values));
        values.push(("streams", streams));
        self.files.iter().map(|(name, template)| (*name, render(template, &values))).collect()
    }

    /// What its configuration says for a transport by connections.
    fn streams_section(&self, transport: Transport) -> Option<&'static str> {
        self.streams.iter().find(|(known, _)| *known == transport).map(|(_, section)| *section)
    }

    /// The text of its configuration file.
    pub fn configuration(&self, settings: &impl Settings) -> String {
        self.files(settings).into_iter().next().map_or_else(String::new, |(_, text)| text)
    }

    /// The name of its configuration file.
    pub fn configuration_name(&self) -> &'static str {
        self.files.first().map_or("none", |(name, _)| *name)
    }

    /// Its arguments when it runs in the foreground with that file.
    pub fn arguments(&self, settings: &impl Settings, configuration: &Path) -> Vec<OsString> {
        let mut values = settings.values();
        values.push(("configuration", configuration.display().to_string()));
        let rendered: Vec<String> = self.arguments.iter().map(|argument| render(argument, &values)).collect();
        rendered.iter().flat_map(|text| text.lines()).map(OsString::from).collect()
    }

    /// Writes its files into its directory; returns the text of its configuration file, and its arguments.
    pub(super) fn prepare(
        &self,
        settings: &impl Settings,
        scratch: &Scratch,
    ) -> io::Result<(String, Vec<OsString>)> {
        for (name, text) in self.files(settings) {
            scratch.write(name, text.as_bytes())?;
        }
        let configuration = scratch.path().join(self.configuration_name());
        Ok((self.configuration(settings), self.arguments(settings, &configuration)))
    }

    /// Why it cannot be started with these settings, in one line that says what to do; `None` if it can.
    pub fn obstacle(&self, settings: &PeerSettings) -> Option<Cow<'static, str>> {
        const DEVICES: &str = "AF_XDP needs Ethernet devices: name them with --devices, or let bench run as root with --path lab";
        let prefix = settings.prefix;
        let unknown = settings.streams.filter(|streams| self.streams_section(streams.transport).is_none());
        match self.by_hand {
            Some(why) => Some(why.into()),
            None if self.only_96 && prefix.length_bits() != 96 => Some(
                format!(
                    "this server synthesizes under 96 bits alone, not under {prefix}: choose another --prefix"
                )
                .into(),
            ),
            None if unknown.is_some() => unknown.map(|streams| self.no_transport(streams.transport).into()),
            None => (self.is_xdp() && settings.devices.is_empty()).then_some(DEVICES.into()),
        }
    }

    /// That it is not configured for a transport here, and who is.
    fn no_transport(&self, transport: Transport) -> String {
        let servers = super::all().iter().filter(|server| server.streams_section(transport).is_some());
        let servers: Vec<&str> = servers.map(|server| server.name).collect();
        let transport = transport.name();
        format!(
            "{} is not configured for {transport} here; {} are: choose one of these, or start it yourself and use --server",
            self.name,
            servers.join(", ")
        )
    }

    /// Whether it answers by XDP, at network devices.
    pub fn is_xdp(&self) -> bool {
        self.xdp.is_some()
    }

    /// Whether it stays root where this process is.
    pub fn wants_root(&self) -> bool {
        self.is_xdp() || self.needs_root
    }

    /// Finds the version in what the program prints when it is asked.
    pub(super) fn version_in<'o>(&self, output: &'o str) -> Option<&'o str> {
        let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        match self.version.1 {
            "" => Some(output.split_whitespace().find(is_version).unwrap_or("of unknown version")),
            before => output.split_once(before)?.1.split_whitespace().next(),
        }
    }

    /// What it has counted since its start, in its own words, if it runs in this directory; `None` if it does
    /// not tell.
    pub fn statistics(&self, directory: &Path) -> Option<io::Result<String>> {
        match self.statistics {
            Statistics::None => None,
            Statistics::Program(program, arguments) => {
                let values = [("directory", directory.display().to_string())];
                let arguments: Vec<String> =
                    arguments.iter().map(|argument| render(argument, &values)).collect();
                // The embedded server's program is not on the PATH.
                let own = if program == self.program {
                    locate(self).map_err(io::Error::other)
                } else {
                    Ok(program.into())
                };
                Some(own.and_then(|program| ask_program(&program, &arguments)))
            }
            Statistics::Socket { path, line, prompt } => {
                Some(socket(directory.join(path)).and_then(|path| ask_socket(&path, line, prompt)))
            }
        }
    }
}

/// The path itself, or of a directory what is in it.
fn socket(path: std::path::PathBuf) -> io::Result<std::path::PathBuf> {
    if !path.is_dir() {
        return Ok(path);
    }
    let found = fs::read_dir(&path)?.next();
    found
        .ok_or_else(|| io::Error::other(format!("no socket in {}", path.display())))?
        .map(|entry| entry.path())
}

/// The template with `{name}` replaced by the value of that name. Other braces stay.
fn render(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        text.push_str(before);
        let named = |(name, value): &'_ (&str, String)| {
            Some((behind.strip_prefix(name)?.strip_prefix('}')?, value.clone()))
        };
        if let Some((after, value)) = values.iter().find_map(named) {
            text.push_str(&value);
            rest = after;
        } else {
            text.push('{');
            rest = behind;
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::super::{all, authoritative};
    use super::*;

    #[test]
    fn a_template_keeps_the_braces_that_name_no_value() {
        let values = [("a", "{b}".to_owned()), ("b", "2".to_owned())];
        assert_eq!(render("{ {a} } {b}{c} {", &values), "{ {b} } 2{c} {");
    }

    #[test]
    fn versions_are_found_in_what_the_programs_print() {
        for (name, output, version) in [
            ("dns64d", "dns64d 0.1.0\n", Some("0.1.0")),
            ("dns64d", "", None),
            ("unbound", "Version 1.17.1\n\nConfigure line: x\n", Some("1.17.1")),
            ("unbound", "usage", None),
            (
                "bind",
                "BIND 9.18.49-1~deb12u3-Debian (Extended Support Version) <id:>\n",
                Some("9.18.49-1~deb12u3-Debian"),
            ),
            ("bind", "BIND ", None),
            (
                "pdns-recursor",
                "Nov 22 22:19:50 PowerDNS Recursor 4.8.8 (C) 2001-2022 PowerDNS.COM BV\n",
                Some("4.8.8"),
            ),
            ("knot-resolver", "Knot Resolver, version 5.6.0\n", Some("5.6.0")),
            ("coredns", "CoreDNS-1.15.0\nlinux/amd64, go1.26\n", Some("1.15.0")),
            ("totd", "totd version 1.5.3, usage", Some("1.5.3,")),
            ("totd", "", Some("of unknown version")),
            ("sextant", "sextant 0.1.0\n", Some("0.1.0")),
            ("nsd", "NSD version 4.6.1\nWritten by NLnet Labs.\n", Some("4.6.1")),
            ("knot", "knotd (Knot DNS), version 3.2.6\n", Some("3.2.6")),
            ("yadifa", "yadifad 2.6.4-10892 (2023-03-01)\n", Some("2.6.4-10892")),
            ("pdns", "Nov 23 14:56:01 PowerDNS Authoritative Server 4.7.3 (C) 2001-2022 BV\n", Some("4.7.3")),
        ] {
            let server = all().iter().chain(authoritative::all()).find(|server| server.name == name).unwrap();
            assert_eq!(server.version_in(output), version, "{name}: {output}");
        }
    }

    #[test]
    fn of_a_directory_the_socket_in_it_is_asked() {
        let base = tempfile::tempdir().unwrap();
        assert!(socket(base.path().into()).is_err());
        fs::write(base.path().join("117"), "").unwrap();
        assert_eq!(socket(base.path().into()).unwrap(), base.path().join("117"));
        assert_eq!(socket("/nonexistent".into()).unwrap(), Path::new("/nonexistent"));
    }
}
