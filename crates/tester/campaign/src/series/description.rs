//! The description of a campaign: its TOML file.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use record::campaign::{Figure, Form, Published};

/// The campaigns that come with the instrument: name and text.
const SHIPPED: [(&str, &str); 12] = [
    ("dns64-shootout", include_str!("../../campaigns/dns64-shootout.toml")),
    ("dns64-transports", include_str!("../../campaigns/dns64-transports.toml")),
    ("p000-scaleup", include_str!("../../campaigns/p000-scaleup.toml")),
    ("p000-footprint", include_str!("../../campaigns/p000-footprint.toml")),
    ("p001-threads", include_str!("../../campaigns/p001-threads.toml")),
    ("p002-clients", include_str!("../../campaigns/p002-clients.toml")),
    ("p003-pacing", include_str!("../../campaigns/p003-pacing.toml")),
    ("p003-dispersion", include_str!("../../campaigns/p003-dispersion.toml")),
    ("p004-ladder", include_str!("../../campaigns/p004-ladder.toml")),
    ("p004-mix", include_str!("../../campaigns/p004-mix.toml")),
    ("cache-aaaa-grid", include_str!("../../campaigns/cache-aaaa-grid.toml")),
    ("shotgun-like", include_str!("../../campaigns/shotgun-like.toml")),
];

/// The commands that can be parts of a campaign.
pub const COMMANDS: [&str; 4] = ["bench", "search", "trial", "preflight"];
/// Visits that a campaign makes at most.
const VISITS_MAX: usize = 10_000;

/// A campaign.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Its name: lower-case letters, digits and hyphens.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it is about.
    #[serde(default)]
    pub about: String,
    /// The quick form.
    pub quick: FormSettings,
    /// The full form.
    pub full: FormSettings,
    /// What is measured at its start, middle and end, to see whether the machine stays the same.
    pub sentinel: Option<Part>,
    /// What is measured.
    pub part: Vec<Part>,
    /// What is read from the records besides the rates.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// What others measured.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// How far one form goes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormSettings {
    /// How often every cell is visited, in turns.
    pub rounds: u32,
    /// Options of every visit but the sentinel's.
    #[serde(default)]
    pub options: Vec<String>,
}

/// Commands that differ in the values of some options.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// One of [`COMMANDS`].
    pub command: String,
    /// What its cells are called, before their values.
    pub name: Option<String>,
    /// Options that all have.
    #[serde(default)]
    pub options: Vec<String>,
    /// Options with several values; every combination is a cell.
    #[serde(default)]
    pub axis: Vec<Axis>,
}

/// An option and its values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// For example `--peer`.
    pub option: String,
    /// Its values.
    pub values: Vec<String>,
    /// Those of the quick form, where it has fewer.
    pub quick: Option<Vec<String>>,
}

/// What is wrong with a description: one line.
#[derive(Debug)]
pub struct DescriptionError(String);

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DescriptionError {}

impl Axis {
    /// The values of a form.
    pub fn values(&self, form: Form) -> &[String] {
        self.quick.as_ref().filter(|_| form == Form::Quick).unwrap_or(&self.values)
    }
}

impl Description {
    /// The campaigns that come with the instrument.
    pub fn shipped() -> impl Iterator<Item = (&'static str, Self)> {
        SHIPPED.into_iter().filter_map(|(name, text)| Some((name, Self::parse(text, name).ok()?)))
    }

    /// The shipped campaign of this name, or one in a file, and its text.
    ///
    /// # Errors
    /// There is none, or the text is none of a campaign.
    pub fn find(name_or_file: &str) -> Result<(Self, String), DescriptionError> {
        if let Some((name, text)) = SHIPPED.into_iter().find(|(name, _)| *name == name_or_file) {
            return Ok((Self::parse(text, name)?, text.to_owned()));
        }
        let path = Path::new(name_or_file);
        if path.extension().is_none() && !path.exists() {
            let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            let message =
                format!("no campaign '{name_or_file}': there are {names}; or name a file, FILE.toml");
            return Err(DescriptionError(message));
        }
        let text = fs::read_to_string(path)
            .map_err(|error| DescriptionError(format!("{}: cannot be read: {error}", path.display())))?;
        Ok((Self::parse(&text, name_or_file)?, text))
    }

    /// Reads a description; `place` is what errors call it.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn parse(text: &str, place: &str) -> Result<Self, DescriptionError> {
        let description: Self = toml::from_str(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let message = error.message().lines().collect::<Vec<_>>().join(" ");
            DescriptionError(format!("{place}:{line}: {message}"))
        })?;
        description.check().map_err(|reason| DescriptionError(format!("{place}: {reason}")))?;
        Ok(description)
    }

    /// The extent of a form.
    pub fn extent(&self, form: Form) -> &FormSettings {
        match form {
            Form::Quick => &self.quick,
            Form::Full => &self.full,
        }
    }

    fn check(&self) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || self.name.len() > 60 || !self.name.chars().all(is_plain) {
            return Err(format!("name '{}': write lower-case letters, digits and hyphens", self.name));
        }
        if self.part.is_empty() {
            return Err("it measures nothing: write a [[part]]".to_owned());
        }
        self.part.iter().chain(&self.sentinel).try_for_each(Part::check)?;
        if self.sentinel.as_ref().is_some_and(|part| !part.axis.is_empty()) {
            return Err("[sentinel] is one measurement: take the axis out".to_owned());
        }
        self.figure.iter().try_for_each(Figure::check)?;
        self.published.iter().try_for_each(|published| published.check(&self.figure))?;
        for form in [Form::Quick, Form::Full] {
            let rounds = self.extent(form).rounds;
            let cells = self.part.iter().map(|part| part.count(form)).fold(0, usize::saturating_add);
            let visits = cells.saturating_mul(rounds as usize);
            if !(1..=VISITS_MAX).contains(&visits) {
                let form = form.name();
                return Err(format!(
                    "the {form} form has {cells} cells and {rounds} rounds: that must be 1 to {VISITS_MAX} visits"
                ));
            }
            self.check_names(form)?;
        }
        Ok(())
    }

    /// Cells of one name would be taken for one.
    fn check_names(&self, form: Form) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for part in &self.part {
            for cell in part.cells(form).iter().map(|settings| part.cell_name(settings)) {
                if let Some(cell) = seen.replace(cell) {
                    return Err(format!(
                        "two cells are called {cell}: give their parts different names, or make an axis of what differs"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Part {
    fn check(&self) -> Result<(), String> {
        if !COMMANDS.contains(&self.command.as_str()) {
            return Err(format!("command '{}': write {}", self.command, COMMANDS.join(", ")));
        }
        if let Some(name) = &self.name {
            check_word(name, "the name of a part")?;
        }
        for axis in &self.axis {
            if !axis.option.starts_with("--") {
                return Err(format!(
                    "axis option '{}': write it as on the command line, --peer for example",
                    axis.option
                ));
            }
            let all = axis.values.iter().chain(axis.quick.iter().flatten());
            for value in all {
                // Cells are called after them, with another character in place of the slash of a prefix.
                let is_length = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
                let prefix = value.split_once('/').filter(|(_, length)| is_length(length));
                check_word(prefix.map_or(value.as_str(), |(before, _)| before), &axis.option)?;
            }
        }
        Ok(())
    }

    /// The settings of each cell: options of the axes with their values.
    pub(super) fn cells(&self, form: Form) -> Vec<Vec<(String, String)>> {
        let mut cells: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for axis in &self.axis {
            let longer = cells.iter().flat_map(|before| {
                axis.values(form)
                    .iter()
                    .map(move |value| [before.clone(), vec![(axis.option.clone(), value.clone())]].concat())
            });
            cells = longer.collect();
        }
        cells
    }

    /// What the cell of these settings is called, also as a directory.
    pub(super) fn cell_name(&self, settings: &[(String, String)]) -> String {
        let values = settings.iter().map(|(_, value)| value.as_str());
        let words: Vec<&str> = self.name.as_deref().into_iter().chain(values).collect();
        let name = if words.is_empty() { self.command.clone() } else { words.join("_") };
        name.replace(':', ".").replace('/', "-")
    }

    /// How many cells it has.
    fn count(&self, form: Form) -> usize {
        self.axis.iter().map(|axis| axis.values(form).len()).fold(1, usize::saturating_mul)
    }
}

/// Words of names of cells, which are names of directories too.
fn check_word(word: &str, of: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:".contains(c);
    if word.is_empty() || word.len() > 60 || !word.chars().all(is_plain) {
        return Err(format!("'{word}' of {of}: write letters, digits and -_.,:, and for a prefix one /"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str =
        "name = 'a'\ntitle = 'A'\n[quick]\nrounds = 1\n[full]\nrounds = 2\n[[part]]\ncommand = 'bench'\n";

    #[test]
    fn all_that_is_shipped_can_be_read_and_bears_its_name() {
        let names: Vec<_> =
            Description::shipped().map(|(name, description)| (name, description.name)).collect();
        assert_eq!(names.len(), SHIPPED.len());
        assert!(names.iter().all(|(name, own)| name == own), "{names:?}");
        assert_eq!(Description::parse(MINIMAL, "x").unwrap().extent(Form::Full).rounds, 2);
    }

    #[test]
    fn what_is_wrong_is_one_line_with_its_place() {
        let error = |text: &str| Description::parse(text, "mine.toml").unwrap_err().to_string();
        let unknown = error(&MINIMAL.replace("rounds = 1", "rounds = 1\nround = 3"));
        assert!(unknown.starts_with("mine.toml:5: unknown field `round`"), "{unknown}");
        assert!(error("name = ").starts_with("mine.toml:1: "));
        for (old, new, words) in [
            ("'bench'", "'rm'", "write bench, search, trial, preflight"),
            ("name = 'a'", "name = '../a'", "lower-case letters"),
            ("rounds = 1", "rounds = 0", "1 to 10000 visits"),
            ("'bench'\n", "'bench'\n[[part]]\ncommand = 'bench'\n", "two cells are called bench"),
            (
                "'bench'\n",
                "'bench'\n[[part.axis]]\noption = 'peer'\nvalues = ['x']\n",
                "as on the command line",
            ),
            (
                "'bench'\n",
                "'bench'\n[[part.axis]]\noption = '--peer'\nvalues = ['../x']\n",
                "letters, digits",
            ),
            ("'bench'\n", "'bench'\n[[part.axis]]\noption = '--peer'\nvalues = ['/x']\n", "letters, digits"),
            ("'bench'\n", "'bench'\n[[part.axis]]\noption = '--peer'\nvalues = []\n", "0 cells"),
        ] {
            let text = error(&MINIMAL.replace(old, new));
            assert!(text.contains(words) && !text.contains('\n'), "{text}");
        }
        assert!(Description::find("nothing").unwrap_err().to_string().contains("dns64-shootout"));
        assert!(Description::find("/nowhere/x.toml").unwrap_err().to_string().contains("cannot be read"));
    }
}
