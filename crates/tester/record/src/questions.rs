//! What the queries of a measurement asked, as values.

use serde::{Deserialize, Serialize};

use crate::terms::NameChoice;

/// What the queries asked. [`Settings::workload`](crate::Settings::workload) says it in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Questions {
    /// How the name of each query was chosen.
    pub choice: NameChoice,
    /// The types that were asked, for example `AAAA`; empty where a file or a pipe has its own.
    pub types: Vec<String>,
    /// Measurers that shared the names, this one among them; at least 1.
    pub agents: u32,
    /// The file of the queries; absent if there was none, or if it was read while the trials ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileQuestions>,
    /// The templates of the names with their shares and types, for example `50={walk:1-1000}.test A`; absent
    /// if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<String>,
    /// The law of the clients' activity, for example `zipf:1.1`; absent if they asked in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_activity: Option<String>,
}

/// The queries of a file. Each trial begins with the first of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileQuestions {
    /// How many it has.
    pub queries: u64,
    /// The different names among them.
    pub names: u64,
}

impl Default for Questions {
    /// A AAAA query for each name, once, from one Measurer (RFC 8219 9.2).
    fn default() -> Self {
        Self {
            choice: NameChoice::Each,
            types: vec!["AAAA".into()],
            agents: 1,
            file: None,
            templates: Vec::new(),
            client_activity: None,
        }
    }
}
