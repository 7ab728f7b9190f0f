//! Where both halves of the Tester are, and how they work: `--path`, `--auth-io`.

use clap::Args;
use net::transport::Backend;

use super::common::{Failure, TesterArgs};
use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::authority::Io;
use crate::campaign::{LoopError, Looped, PathChoice, Progress, Site, Target, Tester, Wanted, loop_back};

/// Options of commands that bring an AuthDNS of their own.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Tester")]
pub struct SiteArgs {
    /// The way that the queries take
    #[arg(long, value_enum, value_name = "PATH", default_value_t)]
    pub path: PathChoice,
    /// How the AuthDNS takes queries and answers them
    #[arg(long, value_enum, value_name = "IO", default_value_t)]
    pub auth_io: Io,
    /// Threads of the AuthDNS; 0: the Measurer's first thread does its work [default: 0, and 1 on 4 processors or more
    /// or beside a Measurer in the kernel]
    #[arg(long, value_name = "N")]
    pub auth_threads: Option<usize>,
}

impl SiteArgs {
    /// Makes the site; where it is not the better one, there is a reason.
    ///
    /// # Errors
    /// A lab was asked for and cannot be.
    pub fn make(&self, progress: &Progress) -> Result<(Site, Option<String>), Failure> {
        let (site, why) = Site::make(self.path)?;
        if let Some(why) = &why {
            progress.say(&format!("  path          {site}: {why}"));
        }
        Ok((site, why))
    }

    /// The back-ends to try at a site.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn wanted(&self, site: &Site, tester: &TesterArgs) -> Result<Wanted, Failure> {
        let over_loopback = matches!(site, Site::Loopback);
        let mut backends = tester.io.ladder()?;
        if over_loopback && backends.len() > 1 {
            backends = vec![Backend::Udp];
        }
        let auth_ios = match self.auth_io {
            Io::Auto if over_loopback => vec![Io::Udp],
            Io::Auto => vec![Io::Kernel, Io::Xdp, Io::Udp],
            chosen => vec![chosen],
        };
        Ok(Wanted { backends, auth_ios, auth_threads: self.auth_threads })
    }
}

/// Loops the Tester back at a site, and says what was not to be had.
///
/// # Errors
/// No back-ends work there.
pub fn looped(
    site: &Site,
    tester: &mut Tester,
    target: &Target,
    wanted: &Wanted,
    progress: &Progress,
) -> Result<Looped, Failure> {
    let looped = loop_back(site, tester, target, wanted).map_err(|error| match error {
        LoopError::Interrupted => Failure::new(EXIT_UNFIT, "interrupted; nothing was measured"),
        LoopError::Nothing { why, usage } => Failure::new(if usage { EXIT_USAGE } else { EXIT_UNFIT }, why),
    })?;
    for note in &looped.notes {
        progress.say(&format!("  not used      {note}"));
    }
    Ok(looped)
}
