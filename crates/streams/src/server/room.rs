//! The state that the tasks of clients share.

use super::{ClientConnections, Pending};
use crate::counts::Tally;
use crate::{Answer, Query};

pub(crate) struct Context {
    pub on_query: Box<dyn Fn(Query) + Send + Sync>,
    pub on_answer: Box<dyn Fn(Answer) + Send + Sync>,
    pub pending: Pending,
    pub guests: ClientConnections,
    pub tally: Tally,
}
