//! Panics of third-party decoders. Damaged bytes cause some, which are errors for their callers.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use futures::FutureExt;

thread_local! {
    /// True while a panic of this thread becomes an error.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `decode`, or `None` if it panics. What `decode` captures mustn't be used
/// after a panic.
pub fn caught<T>(decode: impl FnOnce() -> T) -> Option<T> {
    let outer = CAUGHT.replace(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    CAUGHT.set(outer);
    decoded.ok()
}

/// Returns the result of `read`, or `None` if it or a task for which it waits panics. The hook of
/// [`hide_caught_panics`] reports these panics, because other threads can have caused them.
pub(crate) async fn caught_read<T>(read: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(read).catch_unwind().await.ok()
}

/// Installs a panic hook that doesn't report panics that become errors. It passes all others to the
/// hook before it. A program that reports errors calls it once; further calls do nothing.
pub fn hide_caught_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CAUGHT.get() {
                report(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_none_and_leaves_the_state_of_an_outer_call() {
        let outer = caught(|| {
            let inner = caught(|| [1][std::hint::black_box(1)]);
            (inner, CAUGHT.get())
        });
        assert_eq!(outer, Some((None, true)));
        assert!(!CAUGHT.get());
        assert_eq!(caught(|| 3), Some(3));
    }
}
