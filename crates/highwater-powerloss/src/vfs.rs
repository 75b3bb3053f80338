//! The table of C functions between SQLite and its own file system.

use crate::disk::{self, Change, Content, content, lock};
use rusqlite::ffi;
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::{Arc, Mutex, OnceLock},
};

/// SQLite's file system, to which everything goes in the end.
struct Below(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite registers its file systems once and never frees or changes them, and calls them from every thread.
unsafe impl Send for Below {}
// SAFETY: as above.
unsafe impl Sync for Below {}

static BELOW: OnceLock<Below> = OnceLock::new();

fn below() -> *mut ffi::sqlite3_vfs {
    BELOW.get().map_or(std::ptr::null_mut(), |below| below.0)
}

/// An open file; SQLite gives the memory. The file of the system below lies directly behind it.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    /// From [`Arc::into_raw`]; null for files that need not outlive the process.
    content: *const Mutex<Content>,
}

/// Puts the layer over the default file system of this process. `cut_after` writes and syncs later the power is cut:
/// the process says `power cut reached` on standard error and stands still, to be killed.
///
/// # Errors
/// SQLite's code, if it refuses.
pub fn register(seed: u64, cut_after: Option<u32>) -> Result<(), c_int> {
    disk::begin(seed, cut_after);
    // SAFETY: finds the default; the copy has its size, version and functions, and lives for ever.
    unsafe {
        let found = ffi::sqlite3_vfs_find(std::ptr::null());
        if found.is_null() || BELOW.set(Below(found)).is_err() {
            return Err(ffi::SQLITE_MISUSE);
        }
        let mut layer = *found;
        layer.zName = c"forgetful".as_ptr();
        layer.pNext = std::ptr::null_mut();
        layer.szOsFile += size_of::<File>() as c_int;
        layer.xOpen = Some(open);
        layer.xDelete = Some(delete);
        layer.xAccess = Some(access);
        match ffi::sqlite3_vfs_register(Box::into_raw(Box::new(layer)), 1) {
            ffi::SQLITE_OK => Ok(()),
            code => Err(code),
        }
    }
}

/// The file of the system below.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `register` asked for the room of both.
    unsafe { file.cast::<File>().add(1).cast() }
}

/// What SQLite sees of a file; `None` if it is the real one.
unsafe fn seen<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a Mutex<Content>> {
    // SAFETY: `open` filled it in; it is released at `close`, after which SQLite does not use the file.
    unsafe { (*file.cast::<File>()).content.as_ref() }
}

/// Calls a function of the real file.
macro_rules! forward {
    ($file:expr, $function:ident $(, $argument:expr)*) => {{
        // SAFETY: the real file is open, and the arguments are those that SQLite gave for it.
        unsafe {
            let real = real($file);
            match (*(*real).pMethods).$function {
                Some(function) => function(real $(, $argument)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    const KEPT: c_int = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL;
    // SAFETY: SQLite gives room for both files and a name that outlives them.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let Some(open) = (*below()).xOpen else { return ffi::SQLITE_CANTOPEN };
        let real = real(file);
        (*real).pMethods = std::ptr::null();
        let code = open(below(), name, real, flags, out);
        if code != ffi::SQLITE_OK {
            return code;
        }
        let mut kept = std::ptr::null();
        if !name.is_null() && flags & KEPT != 0 {
            let Some(content) = content(CStr::from_ptr(name).to_bytes(), || load(file)) else {
                close_real(file);
                return ffi::SQLITE_IOERR_READ;
            };
            kept = Arc::into_raw(content);
        }
        (*file.cast::<File>()).content = kept;
        (*file).pMethods = &METHODS;
    }
    ffi::SQLITE_OK
}

/// Reads the real file.
fn load(file: *mut ffi::sqlite3_file) -> Option<Vec<u8>> {
    let mut length = 0;
    if forward!(file, xFileSize, &mut length) != ffi::SQLITE_OK {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let size = c_int::try_from(bytes.len()).ok()?;
    let code = forward!(file, xRead, bytes.as_mut_ptr().cast(), size, 0);
    (size == 0 || code == ffi::SQLITE_OK).then_some(bytes)
}

/// Lets changes reach the real file.
fn apply(file: *mut ffi::sqlite3_file, changes: &[Change]) -> c_int {
    for change in changes {
        let code = match change {
            Change::Write { offset, bytes } => {
                forward!(file, xWrite, bytes.as_ptr().cast(), bytes.len() as c_int, *offset as i64)
            }
            Change::Cut { length } => forward!(file, xTruncate, *length as i64),
        };
        if code != ffi::SQLITE_OK {
            return code;
        }
    }
    ffi::SQLITE_OK
}

/// The latest change may reach the disk before it is synced.
fn hurry(file: *mut ffi::sqlite3_file, content: &Content) -> c_int {
    content.unsynced.last().map_or(ffi::SQLITE_OK, |change| apply(file, &disk::early(change)))
}

fn close_real(file: *mut ffi::sqlite3_file) -> c_int {
    forward!(file, xClose)
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: made by `Arc::into_raw` in `open` or null, and not used after this.
    unsafe {
        let kept = (*file.cast::<File>()).content;
        if !kept.is_null() {
            drop(Arc::from_raw(kept));
        }
    }
    close_real(file)
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, size: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite gives room for `size` bytes.
    let (seen, to) = unsafe { (seen(file), std::slice::from_raw_parts_mut(to.cast::<u8>(), size as usize)) };
    let Some(content) = seen else {
        return forward!(file, xRead, to.as_mut_ptr().cast(), size, offset);
    };
    let content = lock(content);
    let start = content.bytes.len().min(offset as usize);
    let found = &content.bytes[start..content.bytes.len().min(start + to.len())];
    to[..found.len()].copy_from_slice(found);
    to[found.len()..].fill(0);
    if found.len() == to.len() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    size: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite gives `size` bytes.
    let (seen, from) = unsafe { (seen(file), std::slice::from_raw_parts(from.cast::<u8>(), size as usize)) };
    let Some(content) = seen else {
        return forward!(file, xWrite, from.as_ptr().cast(), size, offset);
    };
    if disk::is_last() {
        disk::stop();
    }
    let mut content = lock(content);
    content.write(offset as usize, from);
    hurry(file, &content)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: the file is open.
    let Some(content) = (unsafe { seen(file) }) else { return forward!(file, xTruncate, length) };
    if disk::is_last() {
        disk::stop();
    }
    let mut content = lock(content);
    content.cut(length as u64);
    hurry(file, &content)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let Some(content) = (unsafe { seen(file) }) else { return forward!(file, xSync, flags) };
    let mut content = lock(content);
    if disk::is_last() {
        apply(file, &disk::torn(&content.unsynced));
        disk::stop();
    }
    let changes = std::mem::take(&mut content.unsynced);
    // The system keeps what it was given when a process is killed, so nobody has to wait for a disk.
    apply(file, &changes)
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: the file is open.
    let Some(content) = (unsafe { seen(file) }) else { return forward!(file, xFileSize, out) };
    // SAFETY: SQLite gives room for a number.
    unsafe { *out = lock(content).bytes.len() as i64 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock_file(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    forward!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    forward!(file, xUnlock, level)
}

unsafe extern "C" fn is_reserved(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    forward!(file, xCheckReservedLock, out)
}

unsafe extern "C" fn control(file: *mut ffi::sqlite3_file, what: c_int, argument: *mut c_void) -> c_int {
    match what {
        // These lengthen the real file or map it.
        ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE | ffi::SQLITE_FCNTL_MMAP_SIZE => {
            ffi::SQLITE_NOTFOUND
        }
        _ => forward!(file, xFileControl, what, argument),
    }
}

unsafe extern "C" fn sector(file: *mut ffi::sqlite3_file) -> c_int {
    forward!(file, xSectorSize)
}

unsafe extern "C" fn characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    forward!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    forward!(file, xShmMap, page, size, extend, out)
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, offset: c_int, n: c_int, flags: c_int) -> c_int {
    forward!(file, xShmLock, offset, n, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: the real file is open.
    unsafe {
        let real = real(file);
        if let Some(barrier) = (*(*real).pMethods).xShmBarrier {
            barrier(real);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    forward!(file, xShmUnmap, delete)
}

/// Version 2: with the shared index, without files mapped into memory, which would pass the layer by.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(is_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives a name; the system below is there.
    unsafe {
        disk::forget(CStr::from_ptr(name).to_bytes());
        (*below()).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |delete| delete(below(), name, sync))
    }
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name and room for a number; the system below is there.
    unsafe {
        // An empty file counts as none, as it does below.
        if flags == ffi::SQLITE_ACCESS_EXISTS
            && let Some(length) = disk::length(CStr::from_ptr(name).to_bytes())
        {
            *out = c_int::from(length > 0);
            return ffi::SQLITE_OK;
        }
        (*below()).xAccess.map_or(ffi::SQLITE_IOERR_ACCESS, |access| access(below(), name, flags, out))
    }
}
