//! Mooring's batch interface, version 1, for Rust. Copy this file into your guest.

/// The request of one call, which the host writes. Addresses are in this module's memory.
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

/// One column: its address and length in bytes, and those of its dictionary.
#[repr(C)]
struct Column {
    data: u32,
    data_bytes: u32,
    dictionary: u32,
    dictionary_bytes: u32,
}

impl Request {
    /// Return the request at an address.
    pub fn at(address: u32) -> &'static mut Request {
        unsafe { &mut *(address as *mut Request) }
    }

    /// Return `guestConfig`.
    pub fn config(&self) -> &str {
        core::str::from_utf8(slice(self.config, self.config_bytes)).unwrap_or("")
    }

    /// Return a column of 64-bit numbers by its index in `mooring_columns`.
    pub fn numbers(&self, place: usize) -> &[i64] {
        let column = self.column(place);
        slice(column.data, column.data_bytes / 8)
    }

    /// Return the results of `mooring_filter`: 0 for a feasible node, else the number of a reason.
    pub fn verdicts(&mut self) -> &mut [i32] {
        unsafe { core::slice::from_raw_parts_mut(self.answers as *mut i32, self.nodes as usize) }
    }

    /// Return the results of `mooring_score`.
    pub fn scores(&mut self) -> &mut [i64] {
        unsafe { core::slice::from_raw_parts_mut(self.answers as *mut i64, self.nodes as usize) }
    }

    /// Set the zero-terminated reasons, or an error message.
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

/// Allocate the buffer for requests. The host allocates a larger one when needed, and does not reuse the old one.
static mut ROOM: Vec<u64> = Vec::new();

#[no_mangle]
pub extern "C" fn mooring_alloc(bytes: u32) -> u32 {
    let room = vec![0u64; (bytes as usize).div_ceil(8)];
    unsafe {
        ROOM = room;
        (*core::ptr::addr_of!(ROOM)).as_ptr() as u32
    }
}

/// Pack a text for `mooring_columns`: the address in the high half, the length in the low half.
pub fn packed(text: &'static str) -> u64 {
    (text.as_ptr() as u64) << 32 | text.len() as u64
}
