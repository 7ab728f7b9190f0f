//! Plans that become trials that become a record.
