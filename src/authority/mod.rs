//! The AuthDNS: a zone is a function from question to answer.
