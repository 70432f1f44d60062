// SPDX-License-Identifier: GPL-2.0

//! Text files in a folder of debugfs.
//!
//! The kernel crate has files too, but without an owner: a file that is held open over the unloading of
//! its module is closed by code that is gone. These keep the module in while one is open.
//!
//! A kernel without debugfs, or without memory for it, has no files, and nobody is told.

use crate::bindings;
use core::ptr::NonNull;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;

/// What a file shows.
pub(crate) trait Show: Send + Sync {
    /// Prints the text. Process context; called again with more room when the text is long.
    fn show(&self, m: &SeqFile);
}

/// A folder with its files, removed on drop.
///
/// # Invariants
///
/// The data pointer of each file is the address of an element of `shown`, which outlives the folder.
pub(crate) struct Folder {
    folder: *mut bindings::dentry,
    shown: KVec<KBox<KBox<dyn Show>>>,
}

// SAFETY: The folder may be changed and removed from any task.
unsafe impl Send for Folder {}
// SAFETY: Nothing can be done with a shared one.
unsafe impl Sync for Folder {}

impl Folder {
    /// Makes a folder at debugfs' root. Sleeps.
    pub(crate) fn new(name: &CStr) -> Self {
        // INVARIANT: There are no files.
        Self {
            // SAFETY: The name is copied by the call, which takes any.
            folder: unsafe { bindings::smbd_debugfs_dir(name.as_char_ptr()) },
            shown: KVec::new(),
        }
    }

    /// Adds a file that root may read. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn add(&mut self, name: &CStr, shown: KBox<dyn Show>) -> Result {
        let shown = KBox::new(shown, GFP_KERNEL)?;
        let data: *const KBox<dyn Show> = &raw const *shown;
        self.shown.push(shown, GFP_KERNEL)?;
        // INVARIANT: A box does not move what is in it.
        // SAFETY: The folder is valid or an error pointer, which the call takes.
        unsafe {
            bindings::smbd_debugfs_file(name.as_char_ptr(), self.folder, data.cast_mut().cast())
        };
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: Made by `new`; the call waits for readers, so that `shown` may go afterwards.
        unsafe { bindings::smbd_debugfs_remove(self.folder) };
    }
}

/// # Safety
///
/// * `data` is that of a file made by [`Folder::add`] and not yet removed.
/// * `m` is the sequence file of a reader.
#[no_mangle]
unsafe extern "C" fn smbd_debugfs_show(data: *mut c_void, m: *mut bindings::seq_file) {
    let (Some(data), false) = (NonNull::new(data.cast::<KBox<dyn Show>>()), m.is_null()) else {
        return;
    };
    // SAFETY: By the invariant of `Folder` the pointer is to a living box; see above for `m`.
    unsafe { data.as_ref().show(SeqFile::from_raw(m)) };
}
