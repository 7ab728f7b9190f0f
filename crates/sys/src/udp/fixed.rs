//! Memory that the headers of a batch point into.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A slice that stays where it is while its owner moves, and to whose elements raw pointers may be kept:
/// unlike a box's, they stay valid when the owner is moved, and when references to the elements come and go
/// between their uses.
pub(super) struct Fixed<T>(NonNull<[T]>);

// SAFETY: it owns its elements, as a box does.
unsafe impl<T: Send> Send for Fixed<T> {}

impl<T> Fixed<T> {
    /// A pointer to an element and those that follow it. It may be used while the slice is neither borrowed
    /// nor dropped.
    ///
    /// # Panics
    /// There is no such element.
    pub(super) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.0.len());
        // SAFETY: within the slice. All pointers come from the one that owns it, never from a reference, so
        // that none makes another invalid.
        unsafe { self.0.as_ptr().cast::<T>().add(index) }
    }
}

impl<T: Clone> Fixed<T> {
    /// So many copies of a value.
    pub(super) fn new(value: T, length: usize) -> Self {
        Self(NonNull::from(Box::leak(vec![value; length].into_boxed_slice())))
    }
}

impl<T> Deref for Fixed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the slice is ours; whoever uses a pointer of `at` does so while it is not borrowed.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Fixed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        // SAFETY: it was a box until `new` leaked it, and nobody else frees it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
