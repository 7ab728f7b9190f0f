//! How a measurement was made, in plain sentences.

use record::{Results, SearchMode, Settings, Sought, Validity};

use record::number::{seconds, short};

/// A paragraph for each thing that one must know to repeat it.
pub fn method(results: &Results) -> Vec<String> {
    const VOID: &str = "A trial is void if the Tester itself was late or uneven, could not send, or dropped answers. A trial is also \
         void if every failure coincides with load of other programs, with a slow AuthDNS, or with a pause of the Tester \
         that displaced as many queries. No void trial counts against the server.";
    const SELFTEST: &str = "Before the searches, the self-test of RFC 8219 9.2.1 sent the Tester's queries to its own AuthDNS without the \
         server, at 2.2 times the highest rate and with a quarter of the timeout, to show that the Tester is not \
         the limit.";
    const RELIED_ON: &str = "The self-test of RFC 8219 9.2.1 was not run again: a certificate of an earlier self-test, over the same device, shows \
         that the Tester is not the limit.";
    let settings = &results.settings;
    let mut all = vec![queries(settings), trial(settings), VOID.to_owned(), search(settings)];
    all.extend(results.selftest.as_ref().map(|test| {
        let relied_on = test.certificate.is_some() && test.trials.is_empty();
        (if relied_on { RELIED_ON } else { SELFTEST }).to_owned()
    }));
    all
}

fn queries(settings: &Settings) -> String {
    let Settings { names, suffix, workload, .. } = settings;
    if workload.is_empty() {
        return format!(
            "Every query asks for the AAAA record of another name of {names} under {suffix}, so that no cache can help. The server \
             must ask the AuthDNS for a AAAA record, learn that there is none, ask for the A record, and build the answer."
        );
    }
    format!(
        "The queries differ from RFC 8219's, where each asks for the AAAA record of another name: {workload}. Names are \
         of {names} under {suffix} where nothing else is said."
    )
}

fn trial(settings: &Settings) -> String {
    let load = if settings.load.is_constant() {
        "at a constant rate".to_owned()
    } else {
        format!("at an average rate, distributed as {},", settings.load)
    };
    let rule = match settings.validity {
        Validity::Compat => "a NOERROR response with any answer record",
        Validity::Response => "a response to the question",
        _ => "the AAAA record that the prefix and the name demand",
    };
    let stand = match settings.connections_range {
        Some(_) => {
            ". All connections of a trial are opened before its first query, and stay; every one of them has queries, \
             so that a trial of more connections than queries in that time is longer. A trial passes only if every \
             connection was had, none ended before the last answer, and every query got a valid answer."
        }
        None => ". A trial passes only if every query got a valid answer.",
    };
    format!(
        "A trial sends queries {load} for {}. The schedule never waits for answers, and latency counts \
         from the instant at which a query was due. An answer is valid if it comes within {} and holds {rule}{stand}",
        seconds(settings.trial_s),
        seconds(settings.timeout_s)
    )
}

fn search(settings: &Settings) -> String {
    let sought = if settings.connections_range.is_some() { Sought::Connections } else { Sought::Rate };
    let noun = sought.noun();
    let search = match settings.search {
        SearchMode::Rfc8219 => {
            "Bisection: a trial that passes raises the lower bound, one that fails lowers the upper bound".to_owned()
        }
        SearchMode::Verify => format!(
            "Bisection with verification: two trials that agree decide a {noun}, a third one decides where they differ, a \
             loss above 5 % decides alone, and the {noun} found passed twice"
        ),
        SearchMode::Mlr => {
            "MLRsearch (RFC 9971): all trials at a rate decide the rate; the first trials are short and far apart, later ones have the full length"
                .to_owned()
        }
        SearchMode::Fixed => format!("The {noun} was given, not searched"),
        SearchMode::Other(_) => format!(
            "A search raised the {noun} after trials that passed and lowered the {noun} after trials that failed"
        ),
    };
    let repeated = match settings.repetitions {
        1 => "once".to_owned(),
        number => format!("{number} times"),
    };
    let closer = match settings.width_pct {
        pct if pct > 0.0 => format!("are closer than {} %", short(pct)),
        _ => "are next to each other".to_owned(),
    };
    format!(
        "{search}, until the bounds {closer}. The search is repeated {repeated}; the {noun} that is given is the first \
         percentile of those found; their median is the typical {noun}."
    )
}
