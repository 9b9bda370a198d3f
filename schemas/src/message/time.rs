//! Moments to the microsecond, with the offset that they were told in.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use chrono::{DateTime, FixedOffset, NaiveDateTime, SecondsFormat, Timelike};

use crate::grain::header_seconds;

/// Who gave the time of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TimeSource {
    /// What recorded the message.
    #[default]
    Recorded,
    /// The provider's response, which says when it was made, to the second.
    Response,
    /// The `Date` header of the response.
    Header,
    /// Nobody: it is when the file was last changed.
    File,
}

impl TimeSource {
    /// Every source.
    pub const ALL: [TimeSource; 4] = [
        TimeSource::Recorded,
        TimeSource::Response,
        TimeSource::Header,
        TimeSource::File,
    ];

    /// The word in metadata and in the column `time_source`.
    pub const fn name(self) -> &'static str {
        match self {
            TimeSource::Recorded => "recorded",
            TimeSource::Response => "response",
            TimeSource::Header => "header",
            TimeSource::File => "file",
        }
    }

    /// The source of that name.
    pub fn from_name(name: &str) -> Option<TimeSource> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// The name, unless the time was recorded, which needs no mark.
    pub fn mark(self) -> Option<&'static str> {
        (self != TimeSource::Recorded).then(|| self.name())
    }
}

/// A moment, and who gave it. Two moments are equal if they are the same instant, whatever offset
/// they were told in.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    micros: i64,
    offset_seconds: i32,
    source: TimeSource,
}

impl Timestamp {
    /// The moment `micros` microseconds after the start of 1970, told in UTC.
    pub fn from_micros(micros: i64) -> Self {
        Timestamp {
            micros,
            offset_seconds: 0,
            source: TimeSource::Recorded,
        }
    }

    /// The moment `millis` milliseconds after the start of 1970, told in UTC; saturates.
    pub fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1_000))
    }

    /// The moment `seconds` seconds after the start of 1970, told in UTC; saturates.
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_micros(seconds.saturating_mul(1_000_000))
    }

    /// The same moment, given by `source`.
    pub fn given_by(self, source: TimeSource) -> Self {
        Timestamp { source, ..self }
    }

    /// Who gave it; [`TimeSource::Recorded`] unless something else was noted.
    pub fn source(self) -> TimeSource {
        self.source
    }

    /// The earlier one of two moments; of equal ones the one whose source is better.
    pub fn earlier(self, other: Timestamp) -> Timestamp {
        if (other.micros, other.source) < (self.micros, self.source) {
            other
        } else {
            self
        }
    }

    /// Microseconds since the start of 1970.
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// Milliseconds since the start of 1970, as a ULID wants them: 0 before 1970, at most 48 bits.
    pub fn ulid_millis(self) -> u64 {
        u64::try_from(self.micros / 1_000)
            .unwrap_or(0)
            .min((1 << 48) - 1)
    }

    /// True if a grain can say that it was made then: from 1970 to 2106, what the header holds (OMS
    /// §3.1.1).
    pub fn fits_grain(self) -> bool {
        header_seconds(self.micros.div_euclid(1_000)).is_some()
    }

    /// Reads RFC 3339; a moment without offset is taken as UTC. Digits beyond the microsecond are
    /// cut off.
    pub fn parse(text: &str) -> Option<Timestamp> {
        if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
            return Some(Timestamp {
                micros: moment.timestamp_micros(),
                offset_seconds: moment.offset().local_minus_utc(),
                source: TimeSource::Recorded,
            });
        }
        let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
        Some(Self::from_micros(naive.and_utc().timestamp_micros()))
    }

    /// Reads the `Date` header of HTTP (RFC 2822 form).
    pub fn parse_http_date(text: &str) -> Option<Timestamp> {
        DateTime::parse_from_rfc2822(text)
            .ok()
            .map(|moment| Self::from_micros(moment.timestamp_micros()))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in the offset that it was told in, with six digits of fraction unless they are
    /// zero.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = FixedOffset::east_opt(self.offset_seconds);
        let moment = DateTime::from_timestamp_micros(self.micros).zip(offset);
        let Some((moment, offset)) =
            moment.map(|(moment, offset)| (moment.with_timezone(&offset), offset))
        else {
            // Beyond the years that a calendar can name.
            return write!(formatter, "{}", self.micros);
        };
        let digits = if moment.nanosecond() == 0 {
            SecondsFormat::Secs
        } else {
            SecondsFormat::Micros
        };
        formatter.write_str(&moment.to_rfc3339_opts(digits, offset.local_minus_utc() == 0))
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.micros == other.micros
    }
}

impl Eq for Timestamp {}

impl Hash for Timestamp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.micros.hash(state);
    }
}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.micros.cmp(&other.micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back_as_it_was_told() {
        for text in [
            "2026-05-08T12:00:00.123456Z",
            "2026-05-08T12:00:00Z",
            "2026-05-08T14:00:00.000001+02:00",
            "1969-12-31T23:59:59.500000Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Timestamp::parse("2026-05-08T12:00:00").unwrap().to_string(),
            "2026-05-08T12:00:00Z"
        );
        assert_eq!(
            Timestamp::parse("2026-05-08T12:00:00+00:00")
                .unwrap()
                .to_string(),
            "2026-05-08T12:00:00Z"
        );
        for text in ["", "2026-05-08", "noon", "2026-13-01T00:00:00Z"] {
            assert!(Timestamp::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn moments_compare_as_instants() {
        let (here, there) = (
            Timestamp::parse("2026-05-08T14:00:00+02:00"),
            Timestamp::parse("2026-05-08T12:00:00Z"),
        );
        assert_eq!(here, there);
        assert_eq!(
            Timestamp::parse_http_date("Fri, 08 May 2026 12:00:00 GMT"),
            Timestamp::parse("2026-05-08T12:00:00Z")
        );
    }

    #[test]
    fn no_number_of_microseconds_panics() {
        for micros in [i64::MIN, i64::MAX, 0, -1] {
            let _ = Timestamp::from_micros(micros).to_string();
            assert!(Timestamp::from_micros(micros).ulid_millis() < 1 << 48);
        }
    }
}
