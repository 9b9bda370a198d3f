//! The calls that the clients make.

use crate::Failure;
use crate::clients::Clients;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// RECALL by subject, `POST /cal`.
    RecallOverHttp,
    /// RECALL by subject, as a statement of Flight SQL.
    RecallOverFlight,
    /// RECALL by subject, by the command line.
    RecallInAProcess,
    /// Grains of a person, `POST /sql`.
    PersonOverHttp,
    /// Grains of a person, with a parameter of PostgreSQL's protocol.
    PersonOverPostgres,
    /// Two words, `POST /search`.
    Search,
    /// Counts of all current grains by type, Flight SQL.
    CountsOverFlight,
    /// More rows than the server answers: must be refused for that reason.
    BeyondTheLimit,
}

/// A mix of forty calls: mostly look-ups, two searches, one aggregate, one call beyond the limit.
const MIX: [(Call, usize); 7] = [
    (Call::RecallOverHttp, 12),
    (Call::RecallOverFlight, 8),
    (Call::PersonOverPostgres, 10),
    (Call::PersonOverHttp, 6),
    (Call::Search, 2),
    (Call::CountsOverFlight, 1),
    (Call::BeyondTheLimit, 1),
];

/// Words that occur in the generator's texts.
const WORDS: [&str; 4] = [
    "appointment insurance",
    "refund late",
    "hotel booking",
    "deadline",
];

impl Call {
    /// Returns the call at a place of the repeated mix.
    pub fn of_mix(at: usize) -> Call {
        let calls = MIX
            .iter()
            .flat_map(|&(call, times)| std::iter::repeat_n(call, times));
        let length = MIX.iter().map(|(_, times)| times).sum::<usize>();
        // A step without a common divisor with the length mixes the kinds.
        let mut calls = calls.skip(at * 7 % length);
        calls.next().unwrap_or(Call::RecallOverHttp)
    }

    /// Returns the name for a report.
    pub fn name(self) -> &'static str {
        match self {
            Call::RecallOverHttp => "RECALL by subject, HTTP",
            Call::RecallOverFlight => "RECALL by subject, Flight SQL",
            Call::RecallInAProcess => "RECALL by subject, a process each",
            Call::PersonOverHttp => "SQL by person, HTTP",
            Call::PersonOverPostgres => "SQL by person, PostgreSQL",
            Call::Search => "search, HTTP",
            Call::CountsOverFlight => "counts by type, Flight SQL",
            Call::BeyondTheLimit => "beyond the limit of rows, HTTP",
        }
    }
}

/// Subjects and people of the lake.
pub struct Names {
    subjects: Vec<String>,
    users: Vec<String>,
}

impl Names {
    /// Reads `count` of each from the server.
    ///
    /// # Errors
    /// If a query fails or finds nothing.
    pub async fn of(clients: &mut Clients, count: usize) -> Result<Names, Failure> {
        let column = async |column: &str, table: &str| {
            let query = format!(
                "SELECT {column} FROM (SELECT DISTINCT {column} FROM {table} \
                 WHERE {column} IS NOT NULL) ORDER BY md5({column}) LIMIT {count}"
            );
            let names = clients.texts(&query).await?;
            if names.is_empty() {
                return Err(Failure::from(format!("the lake has no {column}")));
            }
            Ok(names)
        };
        Ok(Names {
            subjects: column("subject", "beliefs").await?,
            users: column("user_id", "grains").await?,
        })
    }

    /// Returns the statement of a RECALL.
    pub fn recall(&self, at: usize) -> String {
        let subject = &self.subjects[at % self.subjects.len()];
        format!("RECALL WHERE subject = {subject:?} LIMIT 20")
    }

    /// Returns a person.
    pub fn user(&self, at: usize) -> &str {
        &self.users[at % self.users.len()]
    }

    /// Returns words to search for.
    pub fn words(at: usize) -> &'static str {
        WORDS[at % WORDS.len()]
    }
}
