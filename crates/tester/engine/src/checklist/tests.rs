use record::{
    CertificateUse, Dut, FileQuestions, Goal, Kind, Latency, LoadModel, Observation, SearchMode, SelfTest,
    Settings, State, Summary, Validity,
};

use super::*;

/// A trial of 60 s that passed.
fn trial(rate_qps: u64, first_name: u64) -> Trial {
    let queries = rate_qps * 60;
    Trial {
        rate_qps,
        duration_s: 60.0,
        first_name,
        outcome: Outcome::Pass,
        scheduled: queries,
        sent: queries,
        valid: queries,
        validity: Validity::Strict,
        load: LoadModel::Constant,
        observation: Some(Observation { auth_queries_per_query: Some(2.0), ..Observation::default() }),
        ..Trial::default()
    }
}

fn run(first_name: u64) -> Run {
    let failed = Trial { outcome: Outcome::Fail, valid: 60_000, ..trial(1010, first_name + 60_000) };
    Run {
        qps: 1000,
        stop_width_qps: 10,
        complete: true,
        trials: vec![trial(1000, first_name), failed],
        ..Run::default()
    }
}

/// A record that keeps every requirement.
fn record() -> Results {
    let settings = Settings {
        search: SearchMode::Rfc8219,
        repetitions: 20,
        trial_s: 60.0,
        timeout_s: 1.0,
        settle_s: 5.0,
        listen_s: Some(2.0),
        names: "10.0.0.0/8".into(),
        validity: Validity::Strict,
        ttl_s: Some(60),
        load: LoadModel::Constant,
        questions: Some(Questions::default()),
        ..Settings::default()
    };
    let selftest = SelfTest {
        required_qps: 2222,
        passed: true,
        certified_qps: 1010,
        timeout_s: 0.25,
        trials: vec![trial(2222, 0)],
        ..SelfTest::default()
    };
    Results {
        state: State::Complete,
        dut: Dut { address: "[2001:db8::1]:53".into(), ..Dut::default() },
        settings,
        selftest: Some(selftest),
        runs: (0..20).map(|at| run((1 << 20) + (at << 17))).collect(),
        summary: Some(Summary { n: 20, stop_width_qps: 10, ..Summary::default() }),
        ..Results::new(Kind::Bench)
    }
}

type Judge = fn(&Results) -> Judgement;

fn with(judge: Judge, change: impl FnOnce(&mut Results)) -> Option<bool> {
    let mut results = record();
    change(&mut results);
    judge(&results).0
}

fn every_trial(results: &mut Results, change: impl Fn(&mut Trial)) {
    results.runs.iter_mut().flat_map(|run| &mut run.trials).for_each(change);
}

fn void(results: &mut Results) {
    every_trial(results, |trial| trial.outcome = Outcome::Void);
}

fn chosen(choice: NameChoice) -> impl FnOnce(&mut Results) {
    move |results| results.settings.questions = Some(Questions { choice, ..Questions::default() })
}

#[test]
fn a_measurement_to_the_letter_keeps_every_requirement() {
    for row in checklist(&record()) {
        assert_eq!(row.kept, Some(true), "{}: {}", row.text, row.note);
    }
}

#[test]
fn nothing_is_kept_without_a_trial() {
    let mut empty = Results::new(Kind::Bench);
    empty.settings = record().settings;
    for row in
        checklist(&empty).iter().filter(|row| row.text != "The timeout is 1 s, and no higher one is used")
    {
        assert_eq!(row.kept, None, "{}: {}", row.text, row.note);
    }
}

#[test]
fn the_client_is_over_ipv6_if_its_packets_are() {
    let at = |address: &'static str| with(preparing::client_over_ipv6, |r| r.dut.address = address.into());
    assert_eq!(at("[::1]:53"), Some(true));
    assert_eq!(at("192.0.2.1:53"), Some(false));
    assert_eq!(at("[::ffff:192.0.2.1]:53"), Some(false), "mapped: the packets are of IPv4");
    assert_eq!(at(""), None);
    assert_eq!(at("somewhere"), None);
}

#[test]
fn the_tester_is_tested_first() {
    let judge = preparing::selftest_first;
    assert_eq!(with(judge, |r| r.selftest = None), Some(false));
    let fail = |r: &mut Results| r.selftest.as_mut().unwrap().passed = false;
    assert_eq!(with(judge, fail), Some(false));
    let begun = |r: &mut Results| {
        fail(r);
        r.runs.clear();
        r.state = State::Interrupted;
    };
    assert_eq!(with(judge, begun), None, "it was interrupted");
    assert_eq!(with(judge, |r| (r.selftest, r.runs) = (None, Vec::new())), None, "nothing was measured");
}

#[test]
fn the_self_test_runs_at_more_than_twice_the_rate() {
    let judge = preparing::selftest_rate;
    let changed = |change: fn(&mut SelfTest)| with(judge, |r| change(r.selftest.as_mut().unwrap()));
    assert_eq!(changed(|selftest| selftest.passed = false), Some(false));
    assert_eq!(changed(|selftest| selftest.timeout_s = 0.5), Some(false), "half of the timeout");
    assert_eq!(changed(|selftest| selftest.required_qps = 2000), Some(false), "not 2.2 times");
    assert_eq!(changed(|selftest| selftest.trials[0].valid -= 1), Some(false), "an answer is missing");
    assert_eq!(changed(|selftest| selftest.certified_qps = 1000), Some(false), "a trial ran at 1,010 q/s");
    let certificate = CertificateUse { required_qps: 2222, ..CertificateUse::default() };
    let certified = |r: &mut Results| {
        r.selftest = Some(SelfTest {
            certificate: Some(certificate),
            trials: Vec::new(),
            ..r.selftest.clone().unwrap()
        });
    };
    assert_eq!(with(judge, certified), Some(true));
    assert_eq!(with(judge, |r| r.selftest = None), Some(false));
    let early = |r: &mut Results| {
        r.selftest.as_mut().unwrap().passed = false;
        (r.runs, r.state) = (Vec::new(), State::Interrupted);
    };
    assert_eq!(with(judge, early), None);
}

#[test]
fn a_failed_self_test_is_told_with_its_answers() {
    let mut results = record();
    let selftest = results.selftest.as_mut().unwrap();
    selftest.passed = false;
    selftest.trials[0].valid = 100_000;
    let (_, note) = preparing::selftest_rate(&results);
    assert_eq!(note, "failed: at 2,222 q/s 100,000 of 133,320 queries had a valid answer within 0.25 s");
}

#[test]
fn only_the_constant_load_is_a_constant_rate() {
    let loaded = |load: &str| {
        let load = LoadModel::from(load);
        with(asking::constant_rate, |r| every_trial(r, |trial| trial.load = load.clone()))
    };
    for load in ["poisson:0", "burst:64", "steps:10,20", "ramp:1-9", "replay", "replay x 2", "closed:8"] {
        assert_eq!(loaded(load), Some(false), "{load}");
    }
    assert_eq!((loaded("sine:1-9/60"), loaded("rates:day.csv")), (Some(false), Some(false)));
    assert_eq!(loaded("experiments:4"), Some(false));
    assert_eq!(loaded(""), Some(true), "older programs knew no other load");
    assert_eq!(loaded("a load of 2031"), None);
    let of_settings = |r: &mut Results| r.settings.load = LoadModel::Burst { queries: 2 };
    assert_eq!(with(asking::constant_rate, of_settings), Some(false));
}

#[test]
fn the_counted_trials_must_be_even() {
    let judge = asking::constant_rate;
    assert_eq!(with(judge, void), None);
    let uneven: [fn(&mut Trial); 4] = [
        |trial| trial.windows.ms10.off_pct = 2.1,
        |trial| trial.schedule_error_ns.p999 = 11_000_000,
        |trial| trial.schedule_error_ns.max = 101_000_000,
        |trial| trial.closed_loop = true,
    ];
    for change in uneven {
        assert_eq!(with(judge, |r| change(&mut r.runs[3].trials[0])), Some(false));
        let unseen = |r: &mut Results| {
            change(&mut r.runs[3].trials[0]);
            r.runs[3].trials[0].outcome = Outcome::Void;
        };
        assert_eq!(with(judge, unseen), Some(true), "a void trial does not count");
    }
}

#[test]
fn a_trial_is_as_long_as_it_was() {
    let judge = asking::trial_length;
    assert_eq!(with(judge, |r| r.runs[7].trials[0].duration_s = 10.0), Some(false), "whatever was planned");
    assert_eq!(with(judge, |r| r.settings.trial_s = 2.0), Some(true));
    assert_eq!(with(judge, void), None);
}

#[test]
fn the_timeout_is_not_exceeded() {
    let judge = asking::timeout;
    assert_eq!(with(judge, |r| r.settings.timeout_s = 0.25), Some(true));
    assert_eq!(with(judge, |r| r.settings.timeout_s = 2.0), Some(false));
    assert_eq!(with(judge, |r| r.settings.timeout_s = 0.0), None);
    let late = |r: &mut Results| {
        r.runs[0].trials[0].latency_ns = Latency { max: 1_500_000_000, ..Latency::default() }
    };
    assert_eq!(with(judge, late), Some(false), "a valid answer after the timeout");
}

#[test]
fn an_answer_must_have_the_aaaa_record() {
    let judge = asking::valid_reply;
    let one = |validity: Validity| with(judge, |r| r.runs[1].trials[0].validity = validity);
    assert_eq!(one(Validity::Compat), Some(false));
    assert_eq!(one(Validity::Response), Some(false));
    assert_eq!(one(Validity::Unstated), Some(true), "then it is that of the settings");
    let unstated = |r: &mut Results| {
        r.settings.validity = Validity::Unstated;
        every_trial(r, |trial| trial.validity = Validity::Unstated);
    };
    assert_eq!(with(judge, unstated), None);
    assert_eq!(with(judge, void), None);
    let types = Questions { types: vec!["A".into(), "AAAA".into()], ..Questions::default() };
    assert_eq!(with(judge, |r| r.settings.questions = Some(types)), Some(false));
    let in_words = |r: &mut Results| (r.settings.questions, r.settings.workload) = (None, "words".into());
    assert_eq!(with(judge, in_words), None);
}

#[test]
fn names_that_come_again_are_not_distinct() {
    let judge = asking::distinct_names;
    for choice in [NameChoice::Zipf, NameChoice::OverAndOver, NameChoice::Cached] {
        assert_eq!(with(judge, chosen(choice.clone())), Some(false), "{choice}");
    }
    assert_eq!(with(judge, chosen(NameChoice::RandomLabels)), Some(true));
    assert_eq!(with(judge, chosen(NameChoice::Other("by taste".into()))), None);
    assert_eq!(with(judge, |r| r.settings.questions = None), Some(true), "nothing unusual was written");
    let in_words = |r: &mut Results| (r.settings.questions, r.settings.workload) = (None, "words".into());
    assert_eq!(with(judge, in_words), None, "no word is read");
    let same = |r: &mut Results| r.runs[1].trials[0].first_name = r.runs[0].trials[0].first_name + 7;
    assert_eq!(with(judge, same), Some(false), "two trials asked the same names");
    let beyond_the_end = |r: &mut Results| r.runs[1].trials[0].first_name = (1 << 24) - 1;
    assert_eq!(with(judge, beyond_the_end), Some(true), "the range ends where it begins");
    assert_eq!(with(judge, |r| r.settings.names = "somewhere".into()), None);
}

#[test]
fn a_range_that_is_gone_through_needs_a_short_ttl() {
    let small = |ttl_s: Option<u32>| {
        with(asking::distinct_names, |r| (r.settings.names, r.settings.ttl_s) = ("10.0.0.0/16".into(), ttl_s))
    };
    // 65,536 names at 1,010 q/s: again after 64 s.
    assert_eq!(small(Some(60)), Some(true));
    assert_eq!(small(Some(64)), Some(false));
    assert_eq!(small(None), None);
    let shared = |r: &mut Results| {
        r.settings.names = "10.0.0.0/16".into();
        r.settings.questions = Some(Questions { agents: 2, ..Questions::default() });
    };
    assert_eq!(with(asking::distinct_names, shared), Some(false), "two agents need half the time");
}

#[test]
fn a_file_is_distinct_if_its_names_are_and_no_trial_begins_again() {
    let judge = asking::distinct_names;
    let asked = |file: Option<FileQuestions>, trials: usize| {
        with(judge, |r| {
            let questions = Questions { choice: NameChoice::File, file, ..Questions::default() };
            r.settings.questions = Some(questions);
            r.runs.truncate(1);
            r.runs[0].trials.truncate(trials);
        })
    };
    let file = |queries, names| Some(FileQuestions { queries, names });
    assert_eq!(asked(file(60_000, 60_000), 1), Some(true));
    assert_eq!(asked(file(60_000, 60_000), 2), Some(false), "the second trial begins with the same names");
    assert_eq!(asked(file(60_000, 59_999), 1), Some(false), "a name is there twice");
    assert_eq!(asked(file(59_999, 59_999), 1), Some(false), "the file started over");
    assert_eq!(asked(file(90_000, 89_999), 1), None, "the trial may not have come to the second");
    assert_eq!(asked(None, 1), None, "a pipe");
}

#[test]
fn names_from_templates_are_distinct_if_the_templates_say_so() {
    let asked = |texts: &[&str], trials: usize, change: fn(&mut Results)| {
        let templates = texts.iter().map(|text| (*text).to_owned()).collect();
        let questions = Questions { choice: NameChoice::Generated, templates, ..Questions::default() };
        with(asking::distinct_names, |r| {
            r.settings.questions = Some(questions);
            r.runs.truncate(1);
            r.runs[0].trials.truncate(trials);
            change(r);
        })
    };
    let one = |text: &str| asked(&[text], 1, |_| ());
    // A trial of the record has 60,000 queries.
    assert_eq!(one("{walk:1-60000}.test"), Some(true));
    assert_eq!(one("{walk:1-59999}.test"), Some(false));
    assert_eq!(one("www.test"), Some(false));
    assert_eq!(one("{random:13}.test"), Some(true));
    assert_eq!(one("{random:12}.test"), None, "by chance");
    assert_eq!(one("{random:3}.test"), Some(false), "32,768 names");
    assert_eq!(one("{draw:1-70000}.test"), None);
    assert_eq!(one("no template"), None);
    assert_eq!(asked(&[], 1, |_| ()), None);
    assert_eq!(asked(&["{walk:1-30000}.a", "{walk:1-30100}.b"], 1, |_| ()), Some(true));
    assert_eq!(asked(&["{walk:1-30000}.a A", "{walk:1-30100}.a"], 1, |_| ()), None, "of two templates");
    assert_eq!(asked(&["3={walk:1-30000}.a", "{walk:1-30100}.b"], 1, |_| ()), Some(false));
    let again = |r: &mut Results| {
        let first = r.runs[0].trials[0].clone();
        r.runs[0].trials.push(first);
    };
    assert_eq!(asked(&["{random:13}.test"], 1, again), Some(false), "from the same place");
    let later = |r: &mut Results| {
        let first = r.runs[0].trials[0].clone();
        let first_name = first.first_name + 100_000;
        r.runs[0].trials.push(Trial { first_name, ..first });
    };
    assert_eq!(asked(&["{random:13}.test"], 1, later), Some(true));
    assert_eq!(asked(&["{walk:1-160000}.test"], 1, later), Some(true));
    assert_eq!(asked(&["{walk:1-159999}.test"], 1, later), None, "what lies between was not asked");
}

#[test]
fn the_worst_case_has_nothing_cached_and_no_aaaa_record() {
    let judge = asking::worst_case;
    assert_eq!(with(judge, |r| r.settings.cached_share_pct = 1), Some(false));
    assert_eq!(with(judge, |r| r.settings.aaaa_share_pct = 1), Some(false));
    assert_eq!(with(judge, chosen(NameChoice::Zipf)), Some(false));
    assert_eq!(with(judge, chosen(NameChoice::OverAndOver)), Some(false));
    assert_eq!(with(judge, chosen(NameChoice::File)), None);
    assert_eq!(with(judge, chosen(NameChoice::RandomLabels)), None);
    assert_eq!(with(judge, chosen(NameChoice::Generated)), None);
    let types = Questions { types: vec!["A".into()], ..Questions::default() };
    assert_eq!(with(judge, |r| r.settings.questions = Some(types)), Some(false));
    assert_eq!(with(judge, |r| r.settings.ttl_s = None), None, "the AuthDNS was somebody else's");
    assert_eq!(with(judge, |r| r.dut.zone_names = Some(1 << 20)), None, "an authoritative server");
    assert_eq!(with(judge, void), None);
    let each = |asked: Option<f64>| {
        with(judge, |r| {
            let seen = Observation { auth_queries_per_query: asked, ..Observation::default() };
            r.runs[4].trials[0].observation = Some(seen);
        })
    };
    assert_eq!(each(Some(1.0)), Some(false), "the server had some of it cached");
    assert_eq!(each(None), Some(true));
}

#[test]
fn a_failure_at_the_rate_found_is_a_loss() {
    let judge = concluding::no_loss;
    let failed = |rate_qps: u64| {
        with(judge, |r| {
            r.runs[2].trials.push(Trial { outcome: Outcome::Fail, ..trial(rate_qps, 0) });
        })
    };
    assert_eq!(failed(1000), Some(false), "at the very rate");
    assert_eq!(failed(900), Some(false), "below it");
    assert_eq!(failed(1001), Some(true));
    let goal = Goal { loss_pct: 0.1, ..Goal::default() };
    assert_eq!(with(judge, |r| r.settings.goals = vec![goal]), Some(false));
    assert_eq!(with(judge, void), None);
    assert_eq!(with(judge, |r| r.runs.iter_mut().for_each(|run| run.complete = false)), None);
}

#[test]
fn repetitions_are_counted_when_they_are_complete() {
    let judge = concluding::repetitions;
    let last = |state: State| {
        with(judge, |r| {
            r.runs[19].complete = false;
            r.state = state;
        })
    };
    assert_eq!(last(State::Complete), Some(false));
    assert_eq!(last(State::Interrupted), Some(false));
    assert_eq!(last(State::Running), None, "there may be more");
    assert_eq!(with(judge, |r| r.runs.clear()), None);
}

#[test]
fn percentiles_are_those_of_the_complete_runs() {
    let judge = concluding::percentiles;
    assert_eq!(with(judge, |r| r.summary = None), Some(false));
    assert_eq!(with(judge, |r| r.runs[0].complete = false), Some(false), "20 of 19");
    assert_eq!(with(judge, |r| r.runs.clear()), None);
}

#[test]
fn the_server_gets_time_to_restabilize() {
    let judge = concluding::restabilisation;
    assert_eq!(with(judge, |r| r.settings.settle_s = 0.25), Some(false));
    assert_eq!(with(judge, |r| r.settings.listen_s = Some(1.2)), Some(false));
    assert_eq!(with(judge, |r| r.settings.listen_s = None), None);
    assert_eq!(with(judge, |r| r.settings.settle_s = 4.0), Some(false));
    let single = |r: &mut Results| {
        r.runs.truncate(1);
        r.runs[0].trials.truncate(1);
    };
    assert_eq!(with(judge, single), None);
}

#[test]
fn the_error_of_the_search_is_bounded_on_both_sides() {
    let judge = concluding::search_error;
    assert_eq!(with(judge, |r| r.runs[5].at_ceiling = true), Some(false));
    let contradicted = |r: &mut Results| {
        r.runs[5].trials.push(Trial { outcome: Outcome::Fail, ..trial(990, 0) });
    };
    assert_eq!(with(judge, contradicted), Some(false), "a trial within the bracket failed");
    assert_eq!(with(judge, |r| r.settings.search = SearchMode::Fixed), None);
    assert_eq!(with(judge, |r| r.runs.iter_mut().for_each(|run| run.complete = false)), None);
    let goals = |r: &mut Results| {
        contradicted(r);
        r.settings.goals = vec![Goal { exceed_pct: 50.0, ..Goal::default() }];
    };
    assert_eq!(with(judge, goals), Some(true), "goals bound a rate in spite of lossy trials");
}
