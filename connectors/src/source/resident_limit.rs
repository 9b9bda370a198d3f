//! Limits the memory that pages of mapped files take in this process.
//!
//! The system counts a page of a mapped file as memory of the process from its first access until
//! it needs the memory itself. A process that has read a large lake therefore seems to be as large
//! as the lake, which people who size machines, and monitoring that ends processes, can't tell from
//! memory that it needs. What is read once is released where it is read
//! ([`SourceBytes::release`](super::SourceBytes::release)). For the rest, a thread compares the
//! resident memory of the process with a limit and releases all mappings when it is exceeded. The
//! pages stay in the page cache, so the next access costs a page fault and no read.
//!
//! On systems other than Linux there is no limit.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use memmap2::Mmap;

/// The mappings of this process, once it has a limit.
static MAPPINGS: OnceLock<Mappings> = OnceLock::new();

/// The size of the smallest mapping that is released, in bytes.
const SMALLEST: usize = 256 << 10;

/// The thread is started when so many bytes have been mapped.
const WATCHED_BYTES: usize = 64 << 20;

/// Bytes of mapped files that may be resident whatever else the process holds: without them, each
/// page would be released while it is used.
const LEAST_MAPPED: u64 = 48 << 20;

/// The rate at which resident memory may grow, in bytes per millisecond. The next look is due when
/// the limit could be reached.
const GROWTH: u64 = 4 << 20;

/// The shortest and the longest time between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Releases pages of mapped files whenever the process has more than `bytes` of resident memory.
/// The first call of a process counts. Mappings made before it aren't released.
pub fn limit_resident_memory(bytes: u64) {
    MAPPINGS.get_or_init(|| Mappings {
        limit: bytes,
        known: Mutex::default(),
    });
}

/// Makes `map` one of the mappings that are released.
pub(super) fn watch(map: &Arc<Mmap>) {
    if let Some(mappings) = MAPPINGS.get()
        && map.len() >= SMALLEST
        && mappings.add(map)
    {
        let thread = std::thread::Builder::new().name("mapped-files".to_owned());
        // Without the thread the pages stay until the system needs their memory.
        let _started = thread.spawn(|| mappings.keep_to_limit());
    }
}

/// Advises the system to drop the pages of `length` bytes of `map` from `start`, which must be
/// inside the mapping.
pub(super) fn release(map: &Mmap, start: usize, length: usize) {
    #[cfg(unix)]
    if start
        .checked_add(length)
        .is_some_and(|end| end <= map.len())
        && length > 0
    {
        // SAFETY: the mapping is shared, read-only and backed by a file, so dropping its pages
        // changes no byte: the next access reads them from the file again. The range was checked
        // to be inside the mapping, which exists as long as the reference.
        let advised = unsafe {
            map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, length)
        };
        // Ignored advice costs memory, not correctness.
        let _ = advised;
    }
}

/// The limit of a process and its mappings.
struct Mappings {
    limit: u64,
    known: Mutex<KnownMappings>,
}

#[derive(Default)]
struct KnownMappings {
    maps: Vec<Weak<Mmap>>,
    /// Bytes of all mappings that there ever were.
    bytes: usize,
}

impl Mappings {
    /// Adds `map`. Returns true once, when the thread is needed.
    fn add(&self, map: &Arc<Mmap>) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.maps.len() == known.maps.capacity() {
            // Amortized: the capacity grows to twice the number of mappings that still exist.
            known.maps.retain(|map| map.strong_count() > 0);
            let live = known.maps.len();
            known.maps.reserve(live + 1);
        }
        known.maps.push(Arc::downgrade(map));
        let before = known.bytes;
        known.bytes = before.saturating_add(map.len());
        before < WATCHED_BYTES && known.bytes >= WATCHED_BYTES
    }

    /// Releases the pages of all mappings. One that is dropped meanwhile is unmapped afterwards.
    fn release_all(&self) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let live: Vec<Arc<Mmap>> = known.maps.iter().filter_map(Weak::upgrade).collect();
        drop(known);
        live.iter().for_each(|map| release(map, 0, map.len()));
    }

    /// Releases mappings whenever the limit is exceeded, until the process ends. Returns at once if
    /// the system doesn't state the memory of the process.
    fn keep_to_limit(&self) {
        let [shortest, longest] = PAUSES;
        // What is mapped but can't be released, such as the program itself.
        let mut fixed = 0;
        while let Some(memory) = ResidentMemory::of_process() {
            let least = fixed + LEAST_MAPPED;
            let allowed = self.limit.saturating_sub(memory.own).max(least);
            let pause = if memory.mapped > allowed {
                self.release_all();
                fixed = ResidentMemory::of_process().map_or(0, |left| left.mapped);
                shortest
            } else {
                Duration::from_millis((allowed - memory.mapped) / GROWTH).clamp(shortest, longest)
            };
            std::thread::sleep(pause);
        }
    }
}

/// The resident memory of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ResidentMemory {
    /// Memory that it has allocated.
    own: u64,
    /// Pages of files.
    mapped: u64,
}

impl ResidentMemory {
    /// Returns that of this process; `None` if the system doesn't state it.
    fn of_process() -> Option<ResidentMemory> {
        ResidentMemory::parse(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Reads it from the status that Linux shows of a process.
    fn parse(status: &str) -> Option<ResidentMemory> {
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        Some(ResidentMemory {
            own: kilobytes("RssAnon:")?.saturating_mul(1024),
            mapped: kilobytes("RssFile:")?
                .saturating_add(kilobytes("RssShmem:")?)
                .saturating_mul(1024),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::source::SourceBytes;

    #[test]
    fn the_memory_of_a_process_is_read_from_its_status() {
        let status =
            "VmRSS:\t  900 kB\nRssAnon:\t     500 kB\nRssFile:\t 300 kB\nRssShmem:\t 100 kB\n";
        let memory = ResidentMemory::parse(status).unwrap();
        assert_eq!((memory.own, memory.mapped), (500 << 10, 400 << 10));
        assert_eq!(ResidentMemory::parse("VmRSS:\t900 kB\n"), None);
    }

    #[test]
    fn mappings_that_are_gone_are_forgotten() {
        let mappings = Mappings {
            limit: 0,
            known: Mutex::default(),
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let map = || {
            // SAFETY: nothing else has the file.
            Arc::new(unsafe { Mmap::map(file.as_file()) }.unwrap())
        };
        let kept = map();
        let mut started = usize::from(mappings.add(&kept));
        for _ in 0..1_000 {
            started += usize::from(mappings.add(&map()));
        }
        assert_eq!(started, 1);
        assert!(mappings.known.lock().unwrap().maps.len() < 10);
        mappings.release_all();
        assert!(kept.iter().all(|byte| *byte == 0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pages_of_mapped_files_are_released_above_the_limit() {
        const LENGTH: usize = 256 << 20;
        limit_resident_memory(0);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LENGTH as u64).unwrap();
        std::io::Write::write_all(&mut file, b"begin").unwrap();
        let bytes = SourceBytes::map(file.path()).unwrap();
        let read = || {
            bytes
                .iter()
                .step_by(4_096)
                .filter(|byte| **byte != 0)
                .count()
        };
        assert_eq!(read(), 1);
        let Some(_) = ResidentMemory::of_process() else {
            return;
        };
        let began = Instant::now();
        while ResidentMemory::of_process().unwrap().mapped > LENGTH as u64 / 2 {
            assert!(began.elapsed() < Duration::from_secs(120), "still resident");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(read(), 1);
    }
}
