// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared objects loaded into this process.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// A loaded shared object; unloaded on drop.
#[derive(Debug)]
pub struct Library(NonNull<c_void>);

// SAFETY: the loader's functions may be called from any thread, and the handle is only passed to
// them.
unsafe impl Send for Library {}
// SAFETY: as above; no method changes the handle.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a shared object and its dependencies. Other objects cannot see its symbols.
    ///
    /// # Errors
    /// Returns the dynamic loader's message, such as `invalid ELF header`.
    ///
    /// # Safety
    /// Loading runs the object's constructors, which the caller must trust.
    pub unsafe fn open(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| "the name contains a NUL byte".to_owned())?;
        // SAFETY: the name is NUL-terminated; the caller trusts the constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(last_error)
    }

    /// Returns the address of a symbol, valid while the object is loaded.
    ///
    /// # Errors
    /// Returns the dynamic loader's message if there is no such symbol.
    pub fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the object is loaded, and the name is NUL-terminated.
        let address = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        NonNull::new(address).ok_or_else(last_error)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by `open` and is closed once.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

/// Returns the dynamic loader's last error on this thread.
fn last_error() -> String {
    // SAFETY: returns null or a string that stays valid until the next loader call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no message from the loader".to_owned();
    }
    // SAFETY: not null, so it is a string, which is copied before the loader is called again.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_the_loader() {
        // SAFETY: neither file is an object, so no code runs.
        let (missing, text) = unsafe {
            (Library::open(Path::new("/none/lib.so")), Library::open(Path::new("/proc/self/maps")))
        };
        let missing = missing.expect_err("there is none");
        assert!(missing.contains("/none/lib.so"), "{missing}");
        text.expect_err("it is not an object");
    }
}
