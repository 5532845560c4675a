//! Mooring's batch interface, version 1, as Rust sees it. Copy this file into a guest of your own.

/// What the host has written for one call; addresses are those of this module's memory.
#[repr(C)]
pub struct Request {
    abi: u32,
    nodes: u32,
    pod: u32,
    pod_bytes: u32,
    config: u32,
    config_bytes: u32,
    answers: u32,
    text: u32,
    text_bytes: u32,
    columns: u32,
}

/// One column: where it is, its length in bytes, and the same of its dictionary.
#[repr(C)]
struct Column {
    data: u32,
    data_bytes: u32,
    dictionary: u32,
    dictionary_bytes: u32,
}

impl Request {
    /// The request at an address that the host gave.
    pub fn at(address: u32) -> &'static mut Request {
        unsafe { &mut *(address as *mut Request) }
    }

    /// What `guestConfig` says.
    pub fn config(&self) -> &str {
        core::str::from_utf8(slice(self.config, self.config_bytes)).unwrap_or("")
    }

    /// A column of 64-bit numbers, by its place in `mooring_columns`.
    pub fn numbers(&self, place: usize) -> &[i64] {
        let column = self.column(place);
        slice(column.data, column.data_bytes / 8)
    }

    /// Where `mooring_filter` puts its answers: 0 for a node that will do, the number of a reason otherwise.
    pub fn verdicts(&mut self) -> &mut [i32] {
        unsafe { core::slice::from_raw_parts_mut(self.answers as *mut i32, self.nodes as usize) }
    }

    /// Where `mooring_score` puts its answers.
    pub fn scores(&mut self) -> &mut [i64] {
        unsafe { core::slice::from_raw_parts_mut(self.answers as *mut i64, self.nodes as usize) }
    }

    /// Reasons, each ending in a zero byte, or what went wrong.
    pub fn say(&mut self, text: &'static str) {
        self.text = text.as_ptr() as u32;
        self.text_bytes = text.len() as u32;
    }

    fn column(&self, place: usize) -> &Column {
        assert!(place < self.columns as usize);
        let first = (self as *const Request as usize + core::mem::size_of::<Request>()) as *const Column;
        unsafe { &*first.add(place) }
    }
}

fn slice<T>(address: u32, length: u32) -> &'static [T] {
    match length {
        0 => &[],
        _ => unsafe { core::slice::from_raw_parts(address as *const T, length as usize) },
    }
}

/// Where the host writes its requests: it asks for more room when it needs more, and never goes back to the old one.
static mut ROOM: Vec<u64> = Vec::new();

#[no_mangle]
pub extern "C" fn mooring_alloc(bytes: u32) -> u32 {
    let room = vec![0u64; (bytes as usize).div_ceil(8)];
    unsafe {
        ROOM = room;
        (*core::ptr::addr_of!(ROOM)).as_ptr() as u32
    }
}

/// A text as `mooring_columns` returns it: its address in the high half, its length in the low one.
pub fn packed(text: &'static str) -> u64 {
    (text.as_ptr() as u64) << 32 | text.len() as u64
}
