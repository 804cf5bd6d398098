//! Calls of the C code in `dpdk/gate.c`.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;

use super::beside::{Limiters, Offered};
use super::error::DpdkError;
use crate::maps::layout::{flow, flow_key, limiter, line};

/// No value of a map is longer, in bytes.
pub(super) const LONGEST: usize = 1 << 14;
/// Counters of a limiter.
pub(super) const COUNTERS: usize = 5;

type Offer = unsafe extern "C" fn(
    *mut *mut c_void,
    u32,
    u64,
    *const Offered,
    u32,
    *mut Offered,
    u32,
    *mut u8,
) -> u32;
type Forget = unsafe extern "C" fn(*mut c_void, u32, unsafe extern "C" fn(usize)) -> u32;
type End = unsafe extern "C" fn(*mut c_void, unsafe extern "C" fn(usize));

unsafe extern "C" {
    fn tidegate_dpdk_init(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn tidegate_dpdk_error(number: c_int) -> *const c_char;
    fn tidegate_dpdk_create(offer: Offer, forget: Forget, end: End) -> c_int;
    fn tidegate_dpdk_workers() -> u32;
    fn tidegate_dpdk_queues(name: *const c_char) -> u32;
    fn tidegate_dpdk_start(
        names: *const *const c_char,
        packets: u32,
        bytes: u32,
        network: u32,
        sleeps: u32,
    ) -> c_int;
    fn tidegate_dpdk_limit(first: u32, second: u32) -> c_int;
    fn tidegate_dpdk_close() -> c_int;
    fn tidegate_dpdk_room(map: u32) -> u32;
    fn tidegate_dpdk_lookup(map: u32, key: *const u8, value: *mut u8) -> u32;
    fn tidegate_dpdk_update(map: u32, keys: *const u8, values: *const u8, count: u32) -> c_int;
    fn tidegate_dpdk_delete(map: u32, key: *const u8) -> c_int;
    fn tidegate_dpdk_next(map: u32, from: u32, key: *mut u8) -> u32;
    fn tidegate_dpdk_reserve(wanted: u32) -> c_int;
    fn tidegate_dpdk_read(number: u32, state: *mut u8) -> c_int;
    fn tidegate_dpdk_forget(number: u32) -> c_int;
    fn tidegate_dpdk_counters(number: u32, to: *mut u64) -> c_int;
    fn tidegate_dpdk_write(number: u32, state: *const u8) -> c_int;
    fn tidegate_dpdk_active(
        from: *mut u32,
        below: u32,
        since: u64,
        numbers: *mut u32,
        limiters: *mut u8,
        count: *mut u32,
    ) -> c_int;
    fn tidegate_dpdk_now() -> u64;
    fn tidegate_dpdk_watch(flows: u32) -> c_int;
    fn tidegate_dpdk_lines(
        from: *mut u32,
        below: u32,
        numbers: *mut u32,
        lines: *mut u8,
        count: *mut u32,
    ) -> c_int;
    fn tidegate_dpdk_flows(
        from: *mut u32,
        subscriber: u32,
        keys: *mut u8,
        flows: *mut u8,
        count: *mut u32,
    ) -> c_int;
    fn tidegate_dpdk_tally(reason: u32, packets: *mut u64, bytes: *mut u64);
    fn tidegate_dpdk_lost(lost: *mut u64);
    fn tidegate_dpdk_links(links: *mut c_int);
    fn tidegate_dpdk_answers() -> c_int;
    fn tidegate_dpdk_hertz() -> u64;
    fn tidegate_dpdk_open(names: *const *const c_char, packets: u32) -> c_int;
    fn tidegate_dpdk_measure(load: *mut Load, packets: u64, limits: u32, cost: *mut Cost) -> c_int;
    #[cfg(test)]
    fn tidegate_dpdk_bursts(core: u32) -> u64;
    #[cfg(test)]
    fn tidegate_dpdk_try(
        now: u64,
        direction: u32,
        frames: *const *mut u8,
        lengths: *const u32,
        count: u32,
        verdicts: *mut c_int,
    ) -> c_int;
}

/// What DPDK says about the number of an error.
fn text_of(number: c_int) -> String {
    // SAFETY: the function returns a string that lives as long as the thread, for any number.
    let text = unsafe { CStr::from_ptr(tidegate_dpdk_error(number)) };
    text.to_string_lossy().into_owned()
}

/// The result of a call: 0, a negative number of an error, or the number of a silent core plus one.
fn checked(what: &'static str, result: c_int) -> Result<(), DpdkError> {
    match result {
        0 => Ok(()),
        core if core > 0 => Err(DpdkError::Silent {
            worker: core as u32 - 1,
        }),
        error if error == -nix::libc::ENOMEM => Err(DpdkError::Memory { what }),
        error => Err(DpdkError::Refused {
            what,
            why: text_of(error),
        }),
    }
}

/// Starts DPDK in this process, once. The arguments begin with the name of the program.
pub(super) fn init(arguments: &[String]) -> Result<(), DpdkError> {
    let words = arguments.iter().map(|word| CString::new(word.as_str()));
    let words: Result<Vec<CString>, _> = words.collect();
    let words = words.map_err(|_| DpdkError::Refused {
        what: "starting DPDK",
        why: "an argument contains a zero byte".into(),
    })?;
    // DPDK keeps the arguments and may change their order.
    let mut words: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let count = words.len() as c_int;
    words.push(std::ptr::null_mut());
    // SAFETY: the words are strings that are never freed, as the list is, and a null pointer ends it.
    match unsafe { tidegate_dpdk_init(count, Vec::leak(words).as_mut_ptr()) } {
        // So it is where no hugepages are reserved, too.
        denied if denied == -nix::libc::EACCES => Err(DpdkError::Denied),
        wrong if wrong == -nix::libc::EINVAL => Err(DpdkError::Arguments {
            why: text_of(wrong),
        }),
        unknown if unknown == -nix::libc::ENODEV => {
            let virtual_ones = arguments.iter().filter_map(|word| {
                let device = word.strip_prefix("--vdev=")?;
                device.split(',').next()
            });
            let names: Vec<&str> = virtual_ones.collect();
            Err(DpdkError::Driver(names.join(" and ")))
        }
        result => checked("starting DPDK", result),
    }
}

/// Makes the memory for plans and limiters.
pub(super) fn create() -> Result<(), DpdkError> {
    // SAFETY: DPDK was started, the caller owns the data path, and both functions do what `dpdk/beside.h` says.
    let made = unsafe { tidegate_dpdk_create(offer, forget_beside, end) };
    checked("making memory for plans and seats", made)
}

/// Answers of a call that opens ports, minus the index of a port: it is missing, or has too few queues.
const NO_PORT: c_int = -10_000;
const FEW_QUEUES: c_int = -20_000;

/// The result of a call that opens these ports.
fn opened(
    devices: [&str; 2],
    open: impl FnOnce(*const *const c_char) -> c_int,
) -> Result<(), DpdkError> {
    let names = devices.map(|name| CString::new(name).unwrap_or_default());
    let pointers = names.each_ref().map(|name| name.as_ptr());
    match open(pointers.as_ptr()) {
        missing if (NO_PORT - 1..=NO_PORT).contains(&missing) => {
            let device = devices[(NO_PORT - missing) as usize].to_owned();
            Err(DpdkError::Port { device })
        }
        few if (FEW_QUEUES - 1..=FEW_QUEUES).contains(&few) => {
            let port = (FEW_QUEUES - few) as usize;
            // SAFETY: DPDK was started, and the name is a string that lives through the call.
            let (queues, cores) = unsafe {
                (
                    tidegate_dpdk_queues(pointers[port]),
                    tidegate_dpdk_workers(),
                )
            };
            Err(DpdkError::Queues {
                device: devices[port].to_owned(),
                queues,
                cores,
            })
        }
        result if result == -nix::libc::ECHILD => Err(DpdkError::Cores),
        result => checked("opening the ports", result),
    }
}

/// How ports and cores are started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Packet buffers for one core.
    pub(super) packets: u32,
    /// What a buffer holds.
    pub(super) bytes: u32,
    /// The index of the port that subscribers are not behind.
    pub(super) network: u32,
    /// Whether cores sleep when nothing comes.
    pub(super) sleeps: bool,
}

/// Opens both ports, and starts the cores.
pub(super) fn start(devices: [&str; 2], how: Start) -> Result<(), DpdkError> {
    // SAFETY: both names are strings that live through the call.
    opened(devices, |names| unsafe {
        let sleeps = u32::from(how.sleeps);
        tidegate_dpdk_start(names, how.packets, how.bytes, how.network, sleeps)
    })
}

/// Opens both ports for measurements, with room for this many packets that wait.
pub(super) fn open(devices: [&str; 2], packets: u32) -> Result<(), DpdkError> {
    // SAFETY: both names are strings that live through the call.
    opened(devices, |names| unsafe {
        tidegate_dpdk_open(names, packets)
    })
}

/// Limits these directions, as bits, of the packets that come in at each port.
pub(super) fn limit(directions: [u32; 2]) -> Result<(), DpdkError> {
    // SAFETY: numbers only.
    checked("changing directions", unsafe {
        tidegate_dpdk_limit(directions[0], directions[1])
    })
}

/// Sends what has come in, ends the cores, and frees all memory. If a core does not end, all stays as it is.
pub(super) fn close() -> Result<(), DpdkError> {
    // SAFETY: no other call is made at the same time, since the caller owns the data path.
    checked("closing the ports", unsafe { tidegate_dpdk_close() })
}

pub(super) fn room(map: u32) -> usize {
    // SAFETY: numbers only.
    unsafe { tidegate_dpdk_room(map) as usize }
}

pub(super) fn lookup(map: u32, key: &[u8]) -> Option<Vec<u8>> {
    let key = Key::of(key);
    let mut value = vec![0; LONGEST];
    // SAFETY: the key is as long as any, and the value is longer than any.
    let bytes = unsafe { tidegate_dpdk_lookup(map, key.bytes(), value.as_mut_ptr()) };
    value.truncate(bytes as usize);
    (bytes > 0).then_some(value)
}

/// A key, aligned, with zeros behind it.
#[repr(align(8))]
struct Key([u8; 32]);

impl Key {
    fn of(key: &[u8]) -> Self {
        let mut bytes = [0; 32];
        let (to, from) = (bytes.iter_mut(), key.iter());
        to.zip(from).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }

    fn bytes(&self) -> *const u8 {
        self.0.as_ptr()
    }
}

/// Writes `count` values. Their sizes are those of the map.
pub(super) fn update(map: u32, keys: &[u8], values: &[u8], count: u32) -> Result<(), DpdkError> {
    // SAFETY: the callers encode keys and values by the structures that the C code is compiled with; the checks in
    // `maps.rs` compare their lengths.
    let result = unsafe { tidegate_dpdk_update(map, keys.as_ptr(), values.as_ptr(), count) };
    checked("writing a map", result)
}

/// Removes a value. Returns whether it was there.
pub(super) fn delete(map: u32, key: &[u8]) -> Result<bool, DpdkError> {
    // SAFETY: the key is as long as any.
    match unsafe { tidegate_dpdk_delete(map, Key::of(key).bytes()) } {
        gone if gone == -nix::libc::ENOENT => Ok(false),
        result => checked("writing a map", result).map(|()| true),
    }
}

/// The next key of a table from a place on, and the place after it.
pub(super) fn next(map: u32, from: u32, bytes: usize) -> Option<(Vec<u8>, u32)> {
    let mut key = Key::of(&[]);
    // SAFETY: there is room for any key.
    let after = unsafe { tidegate_dpdk_next(map, from, key.0.as_mut_ptr()) };
    (after > 0).then(|| (key.0[..bytes].to_vec(), after))
}

/// Makes this number of pages of limiters.
pub(super) fn reserve(pages: u32) -> Result<(), DpdkError> {
    // SAFETY: numbers only.
    checked("making memory for limiters", unsafe {
        tidegate_dpdk_reserve(pages)
    })
}

/// The bytes of a limiter.
pub(super) fn read(limiter: u32, size: usize) -> Result<Vec<u8>, DpdkError> {
    let mut state = vec![0; size.max(LONGEST)];
    // SAFETY: there is room for more than a limiter.
    let result = unsafe { tidegate_dpdk_read(limiter, state.as_mut_ptr()) };
    checked("reading a limiter", result)?;
    state.truncate(size);
    Ok(state)
}

/// Resets a limiter.
pub(super) fn forget(limiter: u32) -> Result<(), DpdkError> {
    // SAFETY: numbers only.
    checked("resetting a limiter", unsafe {
        tidegate_dpdk_forget(limiter)
    })
}

/// The counters of a limiter, if it is reserved.
pub(super) fn counters(limiter: u32) -> Option<[u64; COUNTERS]> {
    let mut counters = [0; COUNTERS];
    // SAFETY: there is room for five counters.
    let result = unsafe { tidegate_dpdk_counters(limiter, counters.as_mut_ptr()) };
    (result == 0).then_some(counters)
}

/// The present time of the cores, in nanoseconds.
pub(super) fn now() -> u64 {
    // SAFETY: no arguments.
    unsafe { tidegate_dpdk_now() }
}

/// Watches at most this many flows; 0: none. A table of another size begins empty.
pub(super) fn watch(flows: u32) -> Result<(), DpdkError> {
    // SAFETY: numbers only.
    checked("watching flows", unsafe { tidegate_dpdk_watch(flows) })
}

/// Most values of a call, `CHUNK` in `dpdk/gate.c`.
const CHUNK: usize = 64;

/// The limiters with these numbers that had packets since a time.
pub(super) fn active(limiters: Range<u32>, since: u64) -> Result<Vec<(u32, Vec<u8>)>, DpdkError> {
    chunks(
        "reading limiters",
        limiters,
        limiter::SIZE_OF,
        |from, below, numbers, values, count| {
            // SAFETY: there is room for CHUNK numbers and limiters, and the call writes no more.
            unsafe { tidegate_dpdk_active(from, below, since, numbers, values, count) }
        },
    )
}

/// Writes a limiter.
pub(super) fn write(number: u32, state: &[u8]) -> Result<(), DpdkError> {
    assert_eq!(state.len(), limiter::SIZE_OF, "a limiter is written whole");
    // SAFETY: there are as many bytes as a limiter has.
    checked("writing a limiter", unsafe {
        tidegate_dpdk_write(number, state.as_ptr())
    })
}

/// Values of this size with numbers of a range, as `call` copies up to CHUNK of them at a time.
fn chunks(
    what: &'static str,
    range: Range<u32>,
    size: usize,
    call: impl Fn(&mut u32, u32, *mut u32, *mut u8, &mut u32) -> c_int,
) -> Result<Vec<(u32, Vec<u8>)>, DpdkError> {
    let mut all = Vec::new();
    let (mut numbers, mut values) = ([0; CHUNK], vec![0; CHUNK * size]);
    let (mut from, mut count) = (range.start, 0);
    while from < range.end {
        let (to, bytes) = (numbers.as_mut_ptr(), values.as_mut_ptr());
        checked(what, call(&mut from, range.end, to, bytes, &mut count))?;
        let values = values.chunks_exact(size).map(<[u8]>::to_vec);
        all.extend(numbers.into_iter().zip(values).take(count as usize));
    }
    Ok(all)
}

/// The lines that had segments of TCP, of subscribers with these numbers.
pub(super) fn lines(subscribers: Range<u32>) -> Result<Vec<(u32, Vec<u8>)>, DpdkError> {
    chunks(
        "reading lines",
        subscribers,
        line::SIZE_OF,
        |from, below, numbers, values, count| {
            // SAFETY: there is room for CHUNK numbers and lines, and the call writes no more.
            unsafe { tidegate_dpdk_lines(from, below, numbers, values, count) }
        },
    )
}

/// Keys and values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The watched flows of a subscriber.
pub(super) fn flows(subscriber: u32) -> Result<Pairs, DpdkError> {
    let mut all = Pairs::new();
    let mut keys = vec![0; CHUNK * flow_key::SIZE_OF];
    let mut values = vec![0; CHUNK * flow::SIZE_OF];
    let (mut from, mut count) = (0, 0);
    loop {
        // SAFETY: there is room for CHUNK keys and flows, and the call writes no more.
        let result = unsafe {
            let (keys, values) = (keys.as_mut_ptr(), values.as_mut_ptr());
            tidegate_dpdk_flows(&mut from, subscriber, keys, values, &mut count)
        };
        checked("reading flows", result)?;
        let pairs = keys
            .chunks_exact(flow_key::SIZE_OF)
            .zip(values.chunks_exact(flow::SIZE_OF));
        let pairs = pairs.map(|(key, value)| (key.to_vec(), value.to_vec()));
        all.extend(pairs.take(count as usize));
        if from == 0 {
            return Ok(all);
        }
    }
}

/// Packets and bytes that were counted for a reason.
pub(super) fn tally(reason: u32) -> (u64, u64) {
    let (mut packets, mut bytes) = (0, 0);
    // SAFETY: both live through the call.
    unsafe { tidegate_dpdk_tally(reason, &mut packets, &mut bytes) };
    (packets, bytes)
}

/// What packets were lost for, in the order of [`lost`].
pub(super) const LOSSES: [&str; 5] = [
    "port_full",
    "port_missed",
    "core_full",
    "port_refused",
    "port_failed",
];

/// The place of packets that came in faster than they were taken.
pub(super) const MISSED: usize = 1;

/// Packets that a port had no room to send, that came in faster than they were taken, that another core had no room for, that a
/// port took for damaged or too long, and that a port failed to send.
pub(super) fn lost() -> [u64; LOSSES.len()] {
    let mut lost = [0; LOSSES.len()];
    // SAFETY: there is room for five numbers.
    unsafe { tidegate_dpdk_lost(lost.as_mut_ptr()) };
    lost
}

/// Whether each port has a link, if that is known.
pub(super) fn links() -> [Option<bool>; 2] {
    let mut links = [0; 2];
    // SAFETY: there is room for two numbers.
    unsafe { tidegate_dpdk_links(links.as_mut_ptr()) };
    links.map(|link| (link >= 0).then_some(link > 0))
}

/// The packets of a measurement, as `struct load` in `dpdk/measure.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Time of the next packet, in 2^-16 ns.
    pub(super) now: u64,
    /// From one packet to the next, likewise.
    pub(super) gap: u64,
    pub(super) aggregates: u32,
    /// Packets to each aggregate in turn; 0: in no order.
    pub(super) each: u32,
    pub(super) drawn: u32,
    /// Bytes of a packet.
    pub(super) bytes: u32,
}

/// What packets cost.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Packets that came.
    pub packets: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Cycles of the processor's time stamp counter.
    pub cycles: u64,
}

/// A burst of packets for the limiters of a core, which are made at the first one. Those that leave are written to `left`, and a 1
/// for each that is dropped. Returns the number of those that leave.
unsafe extern "C" fn offer(
    limiters: *mut *mut c_void,
    most: u32,
    now: u64,
    offered: *const Offered,
    count: u32,
    left: *mut Offered,
    room: u32,
    dropped: *mut u8,
) -> u32 {
    // SAFETY: `limiters` is a core's own, and null or what a call before made. There are `count` packets and as many places for
    // drops, and room for `room` packets that leave.
    unsafe {
        if (*limiters).is_null() {
            *limiters = Box::into_raw(Box::new(Limiters::new(most as usize))).cast();
        }
        let all = &mut *(*limiters).cast::<Limiters>();
        let (offered, dropped) = match count {
            0 => (&[][..], &mut [][..]),
            count => (
                std::slice::from_raw_parts(offered, count as usize),
                std::slice::from_raw_parts_mut(dropped, count as usize),
            ),
        };
        let mut gone = 0;
        all.offer(now, offered, dropped, |one| {
            let has_room = gone < room;
            if has_room {
                left.add(gone as usize).write(one);
                gone += 1;
            }
            has_room
        });
        gone
    }
}

/// Resets a limiter, while its core waits. Calls `free` for each packet that it held, and returns the number of these packets.
unsafe extern "C" fn forget_beside(
    limiters: *mut c_void,
    limiter: u32,
    free: unsafe extern "C" fn(usize),
) -> u32 {
    let mut freed = 0;
    // SAFETY: the limiters were made by `offer`, and their core waits. They hold packets of DPDK.
    unsafe {
        (*limiters.cast::<Limiters>()).forget(limiter, |one| {
            free(one.packet);
            freed += 1;
        });
    }
    freed
}

/// Gives up the limiters of a core. Calls `free` for each packet that they held.
unsafe extern "C" fn end(limiters: *mut c_void, free: unsafe extern "C" fn(usize)) {
    // SAFETY: the limiters were made by `offer`, and no core uses them any more. They hold packets of DPDK.
    unsafe {
        let all = Box::from_raw(limiters.cast::<Limiters>());
        all.into_packets().for_each(|one| free(one.packet));
    }
}

/// Cycles of the time stamp counter in a second.
pub(super) fn hertz() -> u64 {
    // SAFETY: no arguments.
    unsafe { tidegate_dpdk_hertz() }
}

/// Takes packets, which the gate decides about if `limits`.
pub(super) fn measure(load: &mut Load, packets: u64, limits: bool) -> Result<Cost, DpdkError> {
    let mut cost = Cost::default();
    // SAFETY: load and cost live through the call.
    let result = unsafe { tidegate_dpdk_measure(load, packets, u32::from(limits), &mut cost) };
    checked("measuring", result).map(|()| cost)
}

/// Waits until no core decides by what it read before, while packets pass.
pub(super) fn answers() -> Result<(), DpdkError> {
    // SAFETY: no arguments.
    checked("waiting for the cores", unsafe { tidegate_dpdk_answers() })
}

/// Bursts that a core has done.
#[cfg(test)]
pub(super) fn bursts(core: u32) -> u64 {
    // SAFETY: numbers only; there are more cores than tests ask for.
    unsafe { tidegate_dpdk_bursts(core) }
}

/// Decides about frames as the cores do, while none runs. Frames are marked in place.
#[cfg(test)]
pub(super) fn decide(now: u64, direction: u32, frames: &mut [Vec<u8>]) -> Vec<i32> {
    let lengths: Vec<u32> = frames.iter().map(|frame| frame.len() as u32).collect();
    let pointers: Vec<*mut u8> = frames.iter_mut().map(|frame| frame.as_mut_ptr()).collect();
    let mut verdicts = vec![0; frames.len()];
    let count = frames.len() as u32;
    // SAFETY: frames and lengths belong together, and there is room for a verdict on each.
    let result = unsafe {
        let frames = pointers.as_ptr();
        let verdicts = verdicts.as_mut_ptr();
        tidegate_dpdk_try(now, direction, frames, lengths.as_ptr(), count, verdicts)
    };
    assert_eq!(result, 0, "at most 32 frames");
    verdicts
}
