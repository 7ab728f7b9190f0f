//! A zone that answers: `cargo run -p sextant-authdns --example zone`.
//!
//! The zone of the AuthDNS is a function from question to answer: no names are stored. Half of the names
//! below the suffix have a AAAA record; a file of records adds others.

use std::error::Error;

use authdns::{RecordsFile, TCP_ANSWER_OCTETS_MAX, Transport, Zone, ZoneConfig};
use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::AllRecordData;

fn main() -> Result<(), Box<dyn Error>> {
    let zone = Zone::new(ZoneConfig {
        names: Some("10.0.0.0/8".parse()?),
        aaaa_share_percent: 50,
        records: Some(RecordsFile { name: "records".into(), text: "www A 192.0.2.1\n".into() }),
        ..ZoneConfig::default()
    })?;
    // A name says its address: the label 010-000-000-001 is 10.0.0.1.
    let (code, records) = ask(&zone, "010-000-000-001.dns64perf.test", Rtype::A)?;
    assert_eq!((code, records), (Rcode::NOERROR, vec!["10.0.0.1".to_owned()]));
    // Which names have a AAAA record is a function of the address, too.
    let mut native = 0;
    for host in 0..100 {
        let (code, records) = ask(&zone, &format!("010-000-000-{host:03}.dns64perf.test"), Rtype::AAAA)?;
        assert_eq!(code, Rcode::NOERROR);
        native += records.len();
    }
    println!("{native} of 100 names have a AAAA record");
    // A record of the file, a name outside the range, a name outside the zone.
    assert_eq!(ask(&zone, "www.dns64perf.test", Rtype::A)?.1, ["192.0.2.1"]);
    assert_eq!(ask(&zone, "192-000-002-001.dns64perf.test", Rtype::A)?.0, Rcode::NXDOMAIN);
    assert_eq!(ask(&zone, "example.com", Rtype::A)?.0, Rcode::REFUSED);
    Ok(())
}

/// Asks over TCP, where every answer fits, and returns the RCODE and the RDATA of the answer section.
fn ask(zone: &Zone, name: &str, rtype: Rtype) -> Result<(Rcode, Vec<String>), Box<dyn Error>> {
    let mut query = MessageBuilder::new_vec().question();
    query.push((name.parse::<Name<Vec<u8>>>()?, rtype))?;
    let mut buffer = [0; TCP_ANSWER_OCTETS_MAX];
    // `respond` gives the length alone; `answer` says what kind of question it was, besides.
    let answer = zone.answer(&query.finish(), Transport::Tcp, &mut buffer);
    let message = Message::from_octets(&buffer[..answer.octets])?;
    let records = message.answer()?.limit_to::<AllRecordData<_, _>>();
    let records =
        records.map(|record| Ok(record?.data().to_string())).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let code = message.header().rcode();
    println!("{name} {rtype}: {code} {}", records.join(" "));
    Ok((code, records))
}
