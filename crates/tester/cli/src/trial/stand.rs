//! A server that is started for one trial, with all that it needs.

use clap::Args;

use super::super::bench::peer_failure;
use super::super::bench::servers::{ServerArgs, Servers, Setup, streams};
use super::super::site::{LoopbackSetup, SiteArgs};
use super::super::{EXIT_FAILED, EXIT_USAGE};
use crate::failure::Failure;
use crate::options::{QueryArgs, TesterArgs};
use campaign::{Auth, Loopback, Progress, Site, Target, Tester};
use lab::peers;

/// Options that start a server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Instead of --server")]
pub(crate) struct StandArgs {
    /// Start this server, an AuthDNS behind it and a lab (see: sextant peers list)
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    pub peer: Option<String>,
    /// Ask the Tester's own AuthDNS, like the self-test
    #[arg(long, conflicts_with_all = ["server", "peer"])]
    pub looped: bool,
    /// Processors of the peer [default: those that the Tester leaves]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "peer")]
    dut_cpus: Vec<usize>,
    /// TTL of the AuthDNS's records in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    ttl: u32,
    #[command(flatten)]
    site: SiteArgs,
}

/// What was started. The site goes last, when nobody is at it.
pub(crate) struct TrialSetup {
    /// The peer and its AuthDNS; none with `--looped`.
    pub servers: Option<Servers>,
    looped: Loopback,
    _site: Site,
}

impl StandArgs {
    /// Whether the peer is known.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), Failure> {
        self.peer.as_deref().map_or(Ok(()), |peer| peers::find(peer).map(drop).map_err(peer_failure))
    }

    /// Starts what is asked for, if anything is, and sets the Tester and its target to it.
    ///
    /// # Errors
    /// The options do not go together, a server is missing or does not start.
    pub fn start(
        &self,
        query: &QueryArgs,
        tester_args: &TesterArgs,
        (tester, target): (&mut Tester, &mut Target),
        progress: &Progress,
    ) -> Result<Option<TrialSetup>, Failure> {
        if self.peer.is_none() && !self.looped {
            let message = "--path, --auth-io, --auth-threads and --auth-cpus are for --peer and --looped; with --server the \
                           AuthDNS is yours";
            return if self.site.is_given() { Err(Failure::new(EXIT_USAGE, message)) } else { Ok(None) };
        }
        let setup = self.site.stage(tester_args, tester, target)?;
        setup.say_notes(progress);
        let LoopbackSetup { looped, site, .. } = setup;
        let Some(peer) = &self.peer else {
            target.clone_from(&looped.target);
            // As in a self-test: the AuthDNS is the only server.
            tester.alone = true;
            return Ok(Some(TrialSetup { servers: None, looped, _site: site }));
        };
        let server = ServerArgs {
            peer: peer.clone(),
            authoritative: None,
            dut: None,
            pid: None,
            auth_listen: None,
            dut_cpus: self.dut_cpus.clone(),
            ttl: self.ttl,
        };
        let streams = target.streams.as_ref().map(streams);
        let setup = Setup { server: &server, query, auth_threads: self.site.auth_threads(), streams };
        let servers = Servers::start(&setup, &site, tester, looped.auth.way())?;
        tester.alone = servers.dut.cpus.iter().all(|cpu| !tester.cpus.contains(cpu));
        (target.server, target.pids) = (servers.server, servers.pid().into_iter().collect());
        progress.say(&format!("  asking        {} {}, over {site}", servers.dut.name, servers.dut.version));
        Ok(Some(TrialSetup { servers: Some(servers), looped, _site: site }))
    }
}

impl TrialSetup {
    /// The AuthDNS that works for the server that is asked, or is that server.
    pub fn auth(&self) -> &Auth {
        self.servers.as_ref().and_then(|servers| servers.auth.as_ref()).unwrap_or(&self.looped.auth)
    }

    /// Whether the peer still runs.
    ///
    /// # Errors
    /// It ended by itself: how, and what it said last.
    pub fn check_alive(&mut self) -> Result<(), Failure> {
        let Some(running) = self.servers.as_mut().and_then(|servers| servers.running.as_mut()) else {
            return Ok(());
        };
        running.check_alive().map_err(|died| Failure::new(EXIT_FAILED, died))
    }
}
