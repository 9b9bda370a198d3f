//! Timestamps with microsecond precision, the original UTC offset, and their origin.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use chrono::{DateTime, FixedOffset, NaiveDateTime, SecondsFormat, Timelike};

use crate::grain::header_seconds;

/// The origin of a message's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TimeSource {
    /// The recorder of the message.
    #[default]
    Recorded,
    /// The provider's response, with a precision of a second.
    Response,
    /// The `Date` header of the response.
    Header,
    /// The time of the file, because nothing else is available.
    File,
}

impl TimeSource {
    /// All sources.
    pub const ALL: [TimeSource; 4] = [
        TimeSource::Recorded,
        TimeSource::Response,
        TimeSource::Header,
        TimeSource::File,
    ];

    /// Returns the value in metadata and in the column `time_source`.
    pub const fn name(self) -> &'static str {
        match self {
            TimeSource::Recorded => "recorded",
            TimeSource::Response => "response",
            TimeSource::Header => "header",
            TimeSource::File => "file",
        }
    }

    /// Returns the source with the given name.
    pub fn from_name(name: &str) -> Option<TimeSource> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// Returns the name, or `None` for the default, [`TimeSource::Recorded`].
    pub fn non_default_name(self) -> Option<&'static str> {
        (self != TimeSource::Recorded).then(|| self.name())
    }
}

/// An instant and its origin. Two timestamps are equal if they denote the same instant, whatever
/// their UTC offsets.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    micros: i64,
    offset_seconds: i32,
    source: TimeSource,
}

/// The length of a date with hours and minutes: `2026-05-08T12:00`.
const TO_MINUTES: usize = 16;

/// Returns a timestamp without seconds with them: `2026-05-08T12:00Z` is what Java writes of a full
/// minute. `None` for other texts.
fn with_seconds(text: &str) -> Option<String> {
    let (minutes, offset) = text.split_at_checked(TO_MINUTES)?;
    let is_full = minutes.as_bytes().get(13) == Some(&b':')
        && (offset.is_empty() || offset.starts_with(['Z', 'z', '+', '-']));
    is_full.then(|| format!("{minutes}:00{offset}"))
}

impl Timestamp {
    /// Creates a timestamp from microseconds since 1970, in UTC.
    pub fn from_micros(micros: i64) -> Self {
        Timestamp {
            micros,
            offset_seconds: 0,
            source: TimeSource::Recorded,
        }
    }

    /// Creates a timestamp from milliseconds since 1970, in UTC; saturates.
    pub fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1_000))
    }

    /// Creates a timestamp from seconds since 1970, in UTC; saturates.
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_micros(seconds.saturating_mul(1_000_000))
    }

    /// Returns the time of messages without one in a file of this `time`, in milliseconds since
    /// 1970. One that no grain can have is as unknown as none: 1970.
    pub fn of_file(time: Option<i64>) -> Self {
        let time = time.map(Self::from_millis);
        time.filter(|time| time.fits_grain())
            .unwrap_or(Self::from_micros(0))
            .with_source(TimeSource::File)
    }

    /// Sets the origin.
    pub fn with_source(self, source: TimeSource) -> Self {
        Timestamp { source, ..self }
    }

    /// Returns the origin; [`TimeSource::Recorded`] by default.
    pub fn source(self) -> TimeSource {
        self.source
    }

    /// Returns the earlier of two timestamps; of equal ones, the one with the more reliable origin.
    pub fn earlier(self, other: Timestamp) -> Timestamp {
        if (other.micros, other.source) < (self.micros, self.source) {
            other
        } else {
            self
        }
    }

    /// Returns microseconds since 1970.
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// Returns milliseconds since 1970 in the range of a ULID: 0 before 1970, at most 48 bits.
    pub fn ulid_millis(self) -> u64 {
        u64::try_from(self.micros / 1_000)
            .unwrap_or(0)
            .min((1 << 48) - 1)
    }

    /// Returns true if a grain can represent the timestamp as its creation time: from 1970 to 2106,
    /// the range of the header (OMS §3.1.1).
    pub fn fits_grain(self) -> bool {
        header_seconds(self.micros.div_euclid(1_000)).is_some()
    }

    /// Parses RFC 3339, also without seconds, as ISO 8601 permits. A timestamp without offset is
    /// taken as UTC. Digits beyond microseconds are truncated.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let with_seconds = with_seconds(text);
        let text = with_seconds.as_deref().unwrap_or(text);
        if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
            return Some(Timestamp {
                micros: instant.timestamp_micros(),
                offset_seconds: instant.offset().local_minus_utc(),
                source: TimeSource::Recorded,
            });
        }
        let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
        Some(Self::from_micros(naive.and_utc().timestamp_micros()))
    }

    /// Parses a `Date` header of HTTP (RFC 2822 form).
    pub fn parse_http_date(text: &str) -> Option<Timestamp> {
        DateTime::parse_from_rfc2822(text)
            .ok()
            .map(|instant| Self::from_micros(instant.timestamp_micros()))
    }
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 with the original offset, with six fractional digits unless they are zero.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = FixedOffset::east_opt(self.offset_seconds);
        let instant = DateTime::from_timestamp_micros(self.micros).zip(offset);
        let Some((instant, offset)) =
            instant.map(|(instant, offset)| (instant.with_timezone(&offset), offset))
        else {
            // Beyond the range of the calendar.
            return write!(formatter, "{}", self.micros);
        };
        let digits = if instant.nanosecond() == 0 {
            SecondsFormat::Secs
        } else {
            SecondsFormat::Micros
        };
        formatter.write_str(&instant.to_rfc3339_opts(digits, offset.local_minus_utc() == 0))
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
    fn timestamps_round_trip() {
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
        // ISO 8601 without seconds.
        for (text, expected) in [
            ("2026-05-08T12:00Z", "2026-05-08T12:00:00Z"),
            ("2026-05-08T12:00", "2026-05-08T12:00:00Z"),
            ("2026-05-08T14:00+02:00", "2026-05-08T14:00:00+02:00"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), expected);
        }
        for text in [
            "",
            "2026-05-08",
            "noon",
            "2026-13-01T00:00:00Z",
            "2026-05-08T12-00Z",
            "2026-05-08T1é:00Z00",
        ] {
            assert!(Timestamp::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn timestamps_compare_as_instants() {
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
    fn a_file_time_that_no_grain_can_have_is_unknown() {
        let micros = |modified| Timestamp::of_file(modified).micros();
        assert_eq!(micros(Some(1_700_000_000_123)), 1_700_000_000_123_000);
        // 1960, 2400, and the ends of what file systems state.
        let unfit = [-315_619_200_000, 13_569_465_600_000, i64::MIN, i64::MAX];
        for modified in unfit.map(Some).into_iter().chain([None]) {
            assert_eq!(micros(modified), 0, "{modified:?}");
            assert_eq!(Timestamp::of_file(modified).source(), TimeSource::File);
        }
    }

    #[test]
    fn no_number_of_microseconds_panics() {
        for micros in [i64::MIN, i64::MAX, 0, -1] {
            let _ = Timestamp::from_micros(micros).to_string();
            assert!(Timestamp::from_micros(micros).ulid_millis() < 1 << 48);
        }
    }
}
