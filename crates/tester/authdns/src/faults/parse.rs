//! Faults as they are written: `KIND[=VALUE][,CONDITION=VALUE]...`, for example `loss=1%` or
//! `delay=pareto(20ms,1.5),share=10%,type=AAAA`.

use std::fmt;
use std::str::FromStr;

use domain::base::iana::Rtype;

use super::{DELAY_NS_MAX, Delay, Distribution, Effect, Fault, Kind, Pattern, Share};
use crate::zone::Transport;

/// The longest delay of a spread one, unless told otherwise: 10 s, after which no client waits any more.
const SPREAD_MAX_NS: u64 = 10_000_000_000;
/// RCODEs by name (IANA).
const RCODES: [(&str, u16); 20] = [
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("YXDOMAIN", 6),
    ("YXRRSET", 7),
    ("NXRRSET", 8),
    ("NOTAUTH", 9),
    ("NOTZONE", 10),
    ("DSOTYPENI", 11),
    ("BADVERS", 16),
    ("BADKEY", 17),
    ("BADTIME", 18),
    ("BADMODE", 19),
    ("BADNAME", 20),
    ("BADALG", 21),
    ("BADTRUNC", 22),
    ("BADCOOKIE", 23),
];
/// The largest extended RCODE (RFC 6891 6.1.3).
const RCODE_MAX: u16 = 0xfff;

/// Why a text is no fault: the part of it that is wrong, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultError {
    part: String,
    reason: String,
}

impl FaultError {
    fn new(part: &str, reason: impl Into<String>) -> Self {
        Self { part: part.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': {}", self.part, self.reason)
    }
}

impl std::error::Error for FaultError {}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let mut parts = parts(text);
        let mut fault = read_kind(parts.next().unwrap_or_default())?;
        let mut read = Vec::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(FaultError::new(part, format!("a condition has a value; {CONDITIONS}")));
            };
            if read.contains(&key) {
                return Err(FaultError::new(
                    part,
                    format!("'{key}' is given twice; give each condition once"),
                ));
            }
            read.push(key);
            read_condition(&mut fault, part, key, value)?;
        }
        Ok(fault)
    }
}

/// What can be asked of a query.
const CONDITIONS: &str =
    "write share=10%, names=10%, name=*.example.test, type=AAAA, over=udp or, after a delay, max=2s";

/// The parts between commas that stand in no parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth <= 0
    })
}

fn read_kind(part: &str) -> Result<Fault, FaultError> {
    let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
        let names = Kind::ALL.map(Kind::name).join(", ");
        return Err(FaultError::new(part, format!("no such fault; there are {names}")));
    };
    let effect = match kind {
        Kind::Loss => Effect::Loss,
        Kind::AaaaSilent => Effect::AaaaSilent,
        Kind::Delay => Effect::Delay(read_delay(part, value)?),
        Kind::Duplicate => Effect::Duplicate,
        Kind::Truncate => Effect::Truncate,
        Kind::Rcode => Effect::Rcode(read_rcode(part, value)?),
        Kind::WrongId => Effect::WrongId,
        Kind::WrongQuestion => Effect::WrongQuestion,
        Kind::Lame => Effect::Lame,
        Kind::Bogus => Effect::Bogus,
    };
    let mut fault = Fault::new(effect);
    match (kind, value) {
        (Kind::Delay | Kind::Rcode, _) | (_, None) => {}
        // The resolver that asks again shall not be luckier.
        (Kind::AaaaSilent, Some(value)) => fault.names_share = read_share(part, value)?,
        (_, Some(value)) => fault.share = read_share(part, value)?,
    }
    Ok(fault)
}

fn read_condition(fault: &mut Fault, part: &str, key: &str, value: &str) -> Result<(), FaultError> {
    let already = |share: Share| share != Share::ALL;
    match key {
        "share" if already(fault.share) => return Err(twice(part)),
        "names" if already(fault.names_share) => return Err(twice(part)),
        "share" => fault.share = read_share(part, value)?,
        "names" => fault.names_share = read_share(part, value)?,
        "name" => {
            let reason =
                "no name; letters, digits, '-', '_', dots and '*' for anything, for example name=*.bad.test";
            fault.pattern = Some(Pattern::new(value).ok_or_else(|| FaultError::new(part, reason))?);
        }
        "type" if fault.effect == Effect::AaaaSilent => {
            return Err(FaultError::new(
                part,
                "aaaa-silent is for AAAA alone; for other types write loss,type=...",
            ));
        }
        "type" => {
            let reason = "no type of record; write for example type=AAAA, type=A or type=TYPE65";
            let qtype: Rtype = value.parse().map_err(|_| FaultError::new(part, reason))?;
            fault.qtype = Some(qtype.to_int());
        }
        "over" => {
            let transport = Transport::ALL.into_iter().find(|transport| transport.name() == value);
            let reason = "write over=udp, tcp, dot, doh, doq or doh3";
            fault.transport = Some(transport.ok_or_else(|| FaultError::new(part, reason))?);
        }
        "max" => match &mut fault.effect {
            Effect::Delay(delay) => delay.max_ns = read_time(part, value)?,
            _ => return Err(FaultError::new(part, "only a delay has a greatest value")),
        },
        _ => return Err(FaultError::new(part, format!("no such condition; {CONDITIONS}"))),
    }
    Ok(())
}

fn twice(part: &str) -> FaultError {
    FaultError::new(part, "the share is given already; give it once")
}

fn read_share(part: &str, value: &str) -> Result<Share, FaultError> {
    value.strip_suffix('%').and_then(|number| number.trim().parse().ok()).and_then(Share::percent).ok_or_else(
        || FaultError::new(part, "a share is a number from 0 to 100 with %, for example 1% or 0.05%"),
    )
}

fn read_rcode(part: &str, value: Option<&str>) -> Result<u16, FaultError> {
    let named =
        |text: &str| RCODES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|known| known.1);
    let numbered = |text: &str| text.parse().ok().filter(|number| *number <= RCODE_MAX);
    value.and_then(|text| named(text).or_else(|| numbered(text))).ok_or_else(|| {
        let names = RCODES.map(|(name, _)| name).join(", ");
        FaultError::new(part, format!("write rcode= and a number from 0 to {RCODE_MAX} or one of {names}"))
    })
}

fn read_delay(part: &str, value: Option<&str>) -> Result<Delay, FaultError> {
    let form = || {
        let forms = "delay=20ms, delay=normal(20ms,5ms) (mean, standard deviation) or delay=pareto(20ms,1.5) (least, shape)";
        FaultError::new(part, format!("write {forms}"))
    };
    let value = value.ok_or_else(form)?;
    let Some((name, rest)) = value.split_once('(') else {
        return Ok(Delay {
            base_ns: read_time(part, value)?,
            spread: Distribution::Constant,
            max_ns: DELAY_NS_MAX,
        });
    };
    let arguments = rest.strip_suffix(')').ok_or_else(form)?;
    let (base, second) = arguments.split_once(',').ok_or_else(form)?;
    let (base_ns, second) = (read_time(part, base.trim())?, second.trim());
    let spread = match name {
        "normal" => Distribution::Normal { deviation_ns: read_time(part, second)? },
        "pareto" => Distribution::Pareto { shape: read_shape(part, second)? },
        _ => return Err(form()),
    };
    Ok(Delay { base_ns, spread, max_ns: SPREAD_MAX_NS.max(base_ns) })
}

fn read_shape(part: &str, text: &str) -> Result<f64, FaultError> {
    let reason = "the shape of Pareto's law is a number from 0.1 to 100; the smaller, the longer the tail";
    let shape = text.parse().ok().filter(|shape| (0.1..=100.0).contains(shape));
    shape.ok_or_else(|| FaultError::new(part, reason))
}

/// Reads a time in ns, at most the longest delay.
fn read_time(part: &str, text: &str) -> Result<u64, FaultError> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let ns = units.iter().find_map(|(unit, ns)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns));
    ns.filter(|ns| (0.0..=DELAY_NS_MAX as f64).contains(ns)).map(|ns| ns as u64).ok_or_else(|| {
        let limit_s = DELAY_NS_MAX / 1_000_000_000;
        FaultError::new(
            part,
            format!("'{text}' is no time from 0 to {limit_s}s; write for example 20ms, 1.5s or 300us"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Fault {
        text.parse().unwrap()
    }

    fn share(percent: f64) -> Share {
        Share::percent(percent).unwrap()
    }

    #[test]
    fn faults_are_read() {
        assert_eq!(fault("loss"), Fault::new(Effect::Loss));
        assert_eq!(fault("duplicate=0.5%"), Fault { share: share(0.5), ..Fault::new(Effect::Duplicate) });
        assert_eq!(
            fault("aaaa-silent=10%"),
            Fault { names_share: share(10.0), ..Fault::new(Effect::AaaaSilent) }
        );
        assert_eq!(
            fault("rcode=servfail,name=*.bad.test,type=TYPE65,over=tcp,share=2%,names=3%"),
            Fault {
                effect: Effect::Rcode(2),
                share: share(2.0),
                names_share: share(3.0),
                pattern: Pattern::new("*.bad.test"),
                qtype: Some(65),
                transport: Some(Transport::Tcp),
            }
        );
        assert_eq!(fault("rcode=4095").effect, Effect::Rcode(4095));
    }

    #[test]
    fn delays_are_read() {
        let delay = |text: &str| match fault(text).effect {
            Effect::Delay(delay) => delay,
            effect => panic!("{effect:?}"),
        };
        let base_ns = 20_000_000;
        assert_eq!(
            delay("delay=20ms"),
            Delay { base_ns, spread: Distribution::Constant, max_ns: DELAY_NS_MAX }
        );
        let spread = Distribution::Normal { deviation_ns: 500_000 };
        assert_eq!(delay("delay=normal(20ms, 500us)"), Delay { base_ns, spread, max_ns: SPREAD_MAX_NS });
        let spread = Distribution::Pareto { shape: 1.5 };
        let bounded = delay("delay=pareto(0.02s,1.5),share=10%,type=AAAA,max=2s");
        assert_eq!(bounded, Delay { base_ns, spread, max_ns: 2_000_000_000 });
    }

    #[test]
    fn errors_say_what_is_wrong_where_and_what_to_do() {
        for (text, part, advice) in [
            ("", "''", "there are loss, aaaa-silent, delay"),
            ("lost=1%", "'lost=1%'", "no such fault"),
            ("loss=1", "'loss=1'", "for example 1%"),
            ("loss=101%", "'loss=101%'", "from 0 to 100"),
            ("loss=1%,share=2%", "'share=2%'", "give it once"),
            ("loss,type=A,type=A", "'type=A'", "given twice"),
            ("loss,1%", "'1%'", "write share=10%"),
            ("loss,speed=3", "'speed=3'", "no such condition"),
            ("loss,type=AAAAA", "'type=AAAAA'", "type=TYPE65"),
            ("loss,name=a..b", "'name=a..b'", "name=*.bad.test"),
            ("loss,over=sctp", "'over=sctp'", "write over=udp, tcp, dot, doh, doq or doh3"),
            ("loss,max=1s", "'max=1s'", "only a delay"),
            ("aaaa-silent,type=A", "'type=A'", "loss,type="),
            ("rcode", "'rcode'", "SERVFAIL"),
            ("rcode=4096", "'rcode=4096'", "from 0 to 4095"),
            ("delay", "'delay'", "delay=pareto(20ms,1.5)"),
            ("delay=20", "'delay=20'", "20ms, 1.5s or 300us"),
            ("delay=61s", "'delay=61s'", "from 0 to 60s"),
            ("delay=gamma(1ms,2)", "'delay=gamma(1ms,2)'", "delay=normal(20ms,5ms)"),
            ("delay=pareto(1ms,0)", "'delay=pareto(1ms,0)'", "from 0.1 to 100"),
            ("delay=normal(1ms", "'delay=normal(1ms'", "delay=normal(20ms,5ms)"),
            ("delay=NaNms", "'delay=NaNms'", "no time"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.starts_with(part) && error.contains(advice), "{text}: {error}");
        }
    }
}
