//! From a question to the records of its answer, along CNAME and DNAME records.

use dns64::wire::{Name, rcode, rtype};

use super::node::Node;
use super::sets::{RecordSet, SetPart};
use super::view::View;

/// What is said about a question.
#[derive(Debug, Default)]
pub struct Reply {
    /// The RCODE, of the last name of a chain (RFC 6604 3).
    pub rcode: u16,
    /// Whether an authority says so.
    pub authoritative: bool,
    /// The sections' record sets.
    pub answer: Vec<RecordSet>,
    pub authority: Vec<RecordSet>,
    pub additional: Vec<RecordSet>,
}

impl Reply {
    /// An RCODE without records, from no authority.
    pub fn error(rcode: u16) -> Self {
        Self { rcode, ..Self::default() }
    }
}

impl View<'_> {
    /// The reply to a question for a name of this zone; at most so many CNAME or DNAME records are followed,
    /// whoever asks goes on from there. With `dnssec` everything is signed and what does not exist is proven.
    pub fn reply(&self, name: &Name, qtype: u16, links_max: u16, dnssec: bool) -> Reply {
        let mut reply = Reply { authoritative: true, ..Reply::default() };
        self.follow(&mut reply, *name, qtype, links_max, dnssec);
        if let Some(signer) = self.rule.signer.as_ref().filter(|_| dnssec || qtype == rtype::RRSIG) {
            let sets = reply.answer.iter_mut().chain(&mut reply.authority).chain(&mut reply.additional);
            for set in sets.filter(|set| set.shown != SetPart::Records) {
                set.signature = Some(signer.sign(set, &self.cut.apex));
            }
        }
        reply
    }

    fn follow(&self, reply: &mut Reply, mut name: Name, qtype: u16, links_max: u16, dnssec: bool) {
        for _ in 0..=links_max {
            let node = self.node(&name);
            name = match &node {
                Node::Missing => {
                    reply.rcode = rcode::NXDOMAIN.into();
                    return self.negative(reply, || self.deny_name(&name), dnssec);
                }
                Node::Redirect(redirect) if redirect.owner != name => {
                    self.push_redirect(reply, &node, &redirect.owner);
                    let Ok(next) = name.with_ending(&redirect.owner, &redirect.target) else {
                        reply.rcode = rcode::YXDOMAIN.into();
                        return;
                    };
                    let rdata = next.as_wire().to_vec();
                    let cname = RecordSet::new(name, rtype::CNAME, self.config().ttl_s, vec![rdata]);
                    reply.answer.push(RecordSet { shown: SetPart::Records, ..cname });
                    next
                }
                _ => {
                    if let Some(set) = self.answering_set(&node, &name, qtype) {
                        return self.finish(reply, set, qtype);
                    }
                    let Some(alias) = self.set(&node, &name, rtype::CNAME) else {
                        return self.negative(reply, || self.deny_type(&node, &name), dnssec);
                    };
                    let Some(Ok((next, _))) = alias.rdatas.first().map(|rdata| Name::parse(rdata, 0)) else {
                        return;
                    };
                    reply.answer.push(alias);
                    next
                }
            };
            let is_known = |set: &RecordSet| set.rtype == rtype::CNAME && set.owner == name;
            if qtype == rtype::CNAME || !name.is_under(&self.apex) || reply.answer.iter().any(is_known) {
                return;
            }
        }
    }

    /// Adds a DNAME record, if it is not there.
    fn push_redirect(&self, reply: &mut Reply, node: &Node<'_>, owner: &Name) {
        let is_there = |set: &RecordSet| set.rtype == rtype::DNAME && set.owner == *owner;
        if reply.answer.iter().any(is_there) {
            return;
        }
        let dname = match self.node(owner) {
            Node::Fixed(sets) => self.set(&Node::Fixed(sets), owner, rtype::DNAME),
            _ => self.set(node, owner, rtype::DNAME),
        };
        reply.answer.extend(dname);
    }

    /// The last set of the answer; the addresses of a name server follow it.
    fn finish(&self, reply: &mut Reply, mut set: RecordSet, qtype: u16) {
        if qtype == rtype::NS {
            let name = self.name_server();
            if name.is_under(&self.apex) {
                let node = self.node(&name);
                let addresses = [rtype::A, rtype::AAAA].into_iter();
                reply.additional.extend(addresses.filter_map(|rtype| self.set(&node, &name, rtype)));
            }
        }
        if qtype == rtype::RRSIG {
            set.shown = SetPart::Signature;
        }
        reply.answer.push(set);
    }

    fn negative(&self, reply: &mut Reply, proof: impl FnOnce() -> Vec<RecordSet>, dnssec: bool) {
        reply.authority.extend(self.set(&Node::Apex, &self.apex, rtype::SOA));
        if dnssec {
            reply.authority.extend(proof());
        }
    }
}
