//! Headroom: keeps a share of every node's CPU free, and prefers the node with the most free CPU.
//!
//! `guestConfig` is the share in percent, 10 by default.

mod abi;

use abi::Request;

#[no_mangle]
pub extern "C" fn mooring_columns() -> u64 {
    abi::packed("allocatable:cpu requested:cpu pod_request:cpu")
}

/// The CPU of a node that remains free, in percent.
fn left(request: &Request, node: usize) -> i64 {
    let (allocatable, requested) = (request.numbers(0)[node], request.numbers(1)[node]);
    match allocatable {
        0 => 0,
        _ => (allocatable - requested - request.numbers(2)[0]) * 100 / allocatable,
    }
}

#[no_mangle]
pub extern "C" fn mooring_filter(address: u32) -> i32 {
    let request = Request::at(address);
    let share = match request.config() {
        "" => 10,
        text => match text.trim().parse() {
            Ok(share) => share,
            Err(_) => {
                request.say("guestConfig must be a number of percent");
                return 1;
            }
        },
    };
    for node in 0..request.numbers(0).len() {
        request.verdicts()[node] = (left(request, node) < share) as i32;
    }
    request.say("not enough CPU headroom\0");
    0
}

#[no_mangle]
pub extern "C" fn mooring_score(address: u32) -> i32 {
    let request = Request::at(address);
    for node in 0..request.numbers(0).len() {
        request.scores()[node] = left(request, node).clamp(0, 100);
    }
    0
}
