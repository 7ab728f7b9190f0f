//! The options that make the AuthDNS misbehave.

use std::sync::Arc;

use clap::Args;

use authdns::faults::{Fault, Faults};

/// How faults are written; the end of the help.
pub(crate) const FAULTS_HELP: &str = "\
Faults: --fault KIND[=VALUE][,CONDITION=VALUE]...
  loss[=1%]            no answer
  aaaa-silent[=10%]    no answer to AAAA for 10 % of the names; A is answered
  delay=20ms           a late answer; also delay=normal(20ms,5ms) (mean, standard deviation) and
                       delay=pareto(20ms,1.5) (least, shape), which ',max=2s' bounds
  duplicate[=1%]       the answer twice, over UDP and TCP
  truncate[=1%]        TC and no records, over UDP
  rcode=SERVFAIL       an RCODE, by name or number; those above 15 only where the query has EDNS
  wrong-id[=1%]        another ID in the answer
  wrong-question[=1%]  the answer to another question
  lame[=1%]            a referral to the root, without AA
  bogus[=1%]           damaged signatures, where there are some
Conditions, all of which must hold:
  share=10%            of the queries; a retry with another ID gets a new draw
  names=10%            of the names, always the same ones
  name=*.bad.test      names like this; '*' stands for anything
  type=AAAA            of the question
  over=udp             or tcp, dot, doh, doq, doh3
Shares lie side by side: with loss=1% and duplicate=2%, 1 % are lost and another 2 % are answered twice.
  sextant auth --fault 'loss=1%' --fault 'delay=pareto(5ms,1.5),share=10%' --fault-seed 7
  sextant auth --fault 'rcode=SERVFAIL,name=*-007.dns64perf.test' --fault 'aaaa-silent=5%'";

/// Options for faults.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Faults")]
pub struct FaultArgs {
    /// Fault of the AuthDNS, for example loss=1% or delay=20ms,type=AAAA (see below); may be given several
    /// times
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<Fault>,
    /// Seed of the draws that select queries for faults
    #[arg(long, value_name = "N", default_value_t = 1, requires = "faults")]
    pub fault_seed: u64,
}

impl FaultArgs {
    /// The faults, if there are any.
    pub fn faults(&self) -> Option<Arc<Faults>> {
        (!self.faults.is_empty()).then(|| Arc::new(Faults::new(self.fault_seed, self.faults.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(arguments: &[&str]) -> Result<FaultArgs, clap::Error> {
        let command = FaultArgs::augment_args(Command::new("auth"));
        FaultArgs::from_arg_matches(&command.try_get_matches_from([&["auth"], arguments].concat())?)
    }

    #[test]
    fn faults_are_options() {
        assert!(parse(&[]).unwrap().faults().is_none());
        let faults = parse(&["--fault", "loss=1%", "--fault", "duplicate=24%", "--fault-seed", "7"]).unwrap();
        let faults = faults.faults().unwrap();
        assert_eq!((faults.seed(), faults.threshold()), (7, 1 << 30));
        assert!(faults.first_conditional().is_none());
        let error = parse(&["--fault", "loss=1"]).unwrap_err().to_string();
        assert!(error.contains("--fault") && error.contains("for example 1%"), "{error}");
        assert!(parse(&["--fault-seed", "7"]).is_err());
    }
}
