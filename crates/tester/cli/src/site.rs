//! The path and the back-ends of both halves of the Tester: `--path`, `--auth-io`.

use clap::Args;
use measurer::transport::Backend;
use measurer::transport::stream::StreamConfig;

use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::Failure;
use crate::options::{TesterArgs, check_usable};
use authdns::Io;
use campaign::{
    AuthThreads, BackendChoice, Loopback, LoopbackError, PathChoice, Progress, Site, Target, Tester,
    loop_back,
};

/// Options of commands that bring an AuthDNS of their own.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Tester")]
pub(crate) struct SiteArgs {
    /// Network path of the queries
    #[arg(long, value_enum, value_name = "PATH", default_value_t)]
    pub path: PathChoice,
    /// I/O back-end of the AuthDNS
    #[arg(long, value_enum, value_name = "IO", default_value_t)]
    pub auth_io: Io,
    /// Threads of the AuthDNS; 0: the Measurer's first thread does its work
    /// [default: 0, and 1 on 4 processors or more or beside a Measurer in the kernel]
    #[arg(long, value_name = "N")]
    pub auth_threads: Option<usize>,
    /// Processors of these threads, at least one thread on each [default: those that Measurer and server
    /// leave]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub auth_cpus: Vec<usize>,
}

/// Both halves of the Tester, looped back at a site. The site goes last, when nobody is at it.
pub struct LoopbackSetup {
    pub looped: Loopback,
    pub site: Site,
    /// What faster or better was not to be had, and why.
    pub notes: Vec<String>,
}

impl LoopbackSetup {
    /// Shows what was not to be had.
    pub fn say_notes(&self, progress: &Progress) {
        for note in &self.notes {
            progress.say(&format!("  not used      {note}"));
        }
    }
}

impl SiteArgs {
    /// The threads of the AuthDNS.
    pub fn auth_threads(&self) -> AuthThreads {
        AuthThreads { count: self.auth_threads, cpus: self.auth_cpus.clone() }
    }

    /// Checks what is asked of the AuthDNS's threads.
    ///
    /// # Errors
    /// A processor that may not be used, threads where there are none.
    pub fn check_auth_threads(&self) -> Result<(), Failure> {
        check_usable("--auth-cpus", &self.auth_cpus)?;
        let threads = self.auth_threads();
        let message = match (threads.count, self.auth_io) {
            (Some(0), _) if threads.are_chosen() => {
                "--auth-cpus is for threads of the AuthDNS: leave it out with --auth-threads 0"
            }
            (_, Io::Kernel) if threads.are_chosen() => {
                "--auth-io kernel answers on the processors that receive the queries: leave out --auth-threads and \
                 --auth-cpus, or use --auth-io xdp or udp"
            }
            _ => return Ok(()),
        };
        Err(Failure::new(EXIT_USAGE, message))
    }

    /// Whether the options of the AuthDNS go together with connections, which its own threads serve.
    ///
    /// # Errors
    /// They do not.
    fn check_streams(&self, streams: &StreamConfig) -> Result<(), Failure> {
        let refused = match () {
            () if self.auth_io != Io::Auto => "--auth-io is for UDP; leave it out",
            () if self.auth_threads == Some(0) => {
                "connections need threads of the AuthDNS; leave out --auth-threads"
            }
            () if !self.auth_cpus.is_empty() => {
                "the kernel chooses the AuthDNS's processors; leave out --auth-cpus"
            }
            () if self.auth_threads.is_some() && !streams.protocol.has_tls() => {
                "the AuthDNS has one thread for TCP; leave out --auth-threads"
            }
            () => return Ok(()),
        };
        Err(Failure::new(EXIT_USAGE, format!("--transport {}: {refused}", streams.protocol)))
    }

    /// Whether any of these options is given.
    pub fn is_given(&self) -> bool {
        self.path != PathChoice::Auto
            || self.auth_io != Io::Auto
            || self.auth_threads.is_some()
            || !self.auth_cpus.is_empty()
    }

    /// Makes the site and loops the Tester back there, with the fastest back-ends that work.
    ///
    /// # Errors
    /// What was asked for cannot be; none of it works.
    pub fn stage(
        &self,
        tester_args: &TesterArgs,
        tester: &mut Tester,
        target: &Target,
    ) -> Result<LoopbackSetup, Failure> {
        self.check_auth_threads()?;
        if let Some(streams) = &target.streams {
            self.check_streams(streams)?;
        }
        let (site, why) = Site::make(self.path)?;
        let mut notes = Vec::from_iter(why);
        let first = loop_back(&site, tester, target, &self.wanted(&site, tester_args, target)?);
        let (site, looped) = match first {
            Err(LoopbackError::Nothing { why, .. })
                if self.path == PathChoice::Auto && site != Site::Loopback =>
            {
                notes.push(format!("{site}: {why}"));
                let site = Site::Loopback;
                let again = loop_back(&site, tester, target, &self.wanted(&site, tester_args, target)?);
                (site, again)
            }
            first => (site, first),
        };
        let looped = looped.map_err(|error| match error {
            LoopbackError::Interrupted => Failure::new(EXIT_UNFIT, "interrupted; nothing was measured"),
            LoopbackError::Nothing { why, usage } => {
                Failure::new(if usage { EXIT_USAGE } else { EXIT_UNFIT }, why)
            }
        })?;
        notes.extend(looped.notes.iter().cloned());
        Ok(LoopbackSetup { looped, site, notes })
    }

    /// The back-ends to try at a site.
    fn wanted(&self, site: &Site, tester: &TesterArgs, target: &Target) -> Result<BackendChoice, Failure> {
        if target.streams.is_some() {
            return Ok(BackendChoice {
                backends: vec![Backend::Udp],
                auth_ios: vec![Io::Udp],
                auth_threads: self.auth_threads(),
                notes: Vec::new(),
            });
        }
        let over_loopback = *site == Site::Loopback;
        let (mut backends, why) = tester.io.ladder()?;
        let mut notes = Vec::from_iter(why);
        if over_loopback && backends.len() > 1 {
            (backends, notes) = (vec![Backend::Udp], Vec::new());
        }
        let in_measurers_thread = self.auth_threads == Some(0);
        if in_measurers_thread && backends.len() > 1 {
            backends.retain(|&backend| backend != Backend::Kernel);
            notes.push("--auth-threads 0 is for sockets on both sides".into());
        }
        let auth_threads = self.auth_threads();
        let auth_ios = match self.auth_io {
            Io::Auto if over_loopback || in_measurers_thread => vec![Io::Udp],
            Io::Auto if auth_threads.are_chosen() => {
                notes.push("--auth-io kernel: it has no threads for --auth-threads and --auth-cpus".into());
                vec![Io::Xdp, Io::Udp]
            }
            Io::Auto => vec![Io::Kernel, Io::Xdp, Io::Udp],
            chosen => vec![chosen],
        };
        Ok(BackendChoice { backends, auth_ios, auth_threads, notes })
    }
}
