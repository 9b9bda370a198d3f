//! Counts of requests to object stores, by kind.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests to object stores, and the bytes of objects that they moved.
///
/// A request that the store's client repeats after a transient failure counts once. A listing
/// counts one request per thousand names, the page size of the stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct RequestCounts {
    /// Reads of objects or of ranges of them.
    pub get: u64,
    /// Reads of metadata.
    pub head: u64,
    /// Writes of whole objects, conditional or not.
    pub put: u64,
    /// Parts of multipart uploads, and the requests that begin, complete or abort one.
    pub multipart: u64,
    /// Pages of listings.
    pub list: u64,
    /// Deleted objects. Stores delete several with one request where they can.
    pub delete: u64,
    /// Copies within the store, also as part of renaming.
    pub copy: u64,
    /// Bytes of objects that were received.
    pub bytes_read: u64,
    /// Bytes of objects that were sent.
    pub bytes_written: u64,
}

impl RequestCounts {
    /// Returns the number of requests of all kinds.
    pub fn total(&self) -> u64 {
        let RequestCounts {
            get,
            head,
            put,
            multipart,
            list,
            delete,
            copy,
            ..
        } = self;
        get + head + put + multipart + list + delete + copy
    }

    /// Returns what was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &RequestCounts) -> RequestCounts {
        RequestCounts {
            get: self.get.saturating_sub(before.get),
            head: self.head.saturating_sub(before.head),
            put: self.put.saturating_sub(before.put),
            multipart: self.multipart.saturating_sub(before.multipart),
            list: self.list.saturating_sub(before.list),
            delete: self.delete.saturating_sub(before.delete),
            copy: self.copy.saturating_sub(before.copy),
            bytes_read: self.bytes_read.saturating_sub(before.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(before.bytes_written),
        }
    }
}

/// A kind of request.
#[cfg(feature = "object-store")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// [`RequestCounts::get`].
    Get,
    /// [`RequestCounts::head`].
    Head,
    /// [`RequestCounts::put`].
    Put,
    /// [`RequestCounts::multipart`].
    Multipart,
    /// [`RequestCounts::list`].
    List,
    /// [`RequestCounts::delete`].
    Delete,
    /// [`RequestCounts::copy`].
    Copy,
}

/// Running counts that several stores and threads share.
#[derive(Debug, Default)]
pub struct RequestCounters {
    /// In the order of the kinds.
    requests: [AtomicU64; 7],
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

#[cfg(feature = "object-store")]
impl RequestCounters {
    /// Counts a request.
    pub(super) fn count(&self, kind: RequestKind) {
        if let Some(counter) = self.requests.get(kind as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_written(&self, bytes: usize) {
        self.bytes_written
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl RequestCounters {
    /// Returns what was counted so far.
    pub fn counts(&self) -> RequestCounts {
        let [get, head, put, multipart, list, delete, copy] = self
            .requests
            .each_ref()
            .map(|counter| counter.load(Ordering::Relaxed));
        RequestCounts {
            get,
            head,
            put,
            multipart,
            list,
            delete,
            copy,
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
        }
    }
}
