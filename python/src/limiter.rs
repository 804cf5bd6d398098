//! A limiter, given the times and sizes of packets.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_limiter::{
    BurstControl, Fate, Limiter, LimiterConfig, PacketMeta, PhantomQueuesConfig, PolicerConfig,
    PolicyTree, Program, Rate, ShaperConfig,
};
use tidegate_notation::quantity;
use tidegate_table::{Column, Row, columns};

use crate::capsule::failed;
use crate::table::{Filling, Table};
use crate::wait::interruptible;

/// Packets between two looks for Ctrl-C.
const PACKETS_A_LOOK: usize = 65_536;

/// What became of a packet.
struct Offered {
    time_ns: u64,
    bytes: u32,
    queue: u16,
    leaves_ns: Option<u64>,
}

impl Row for Offered {
    const TITLE: &'static str = "a packet that was offered to a limiter";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

const COLUMNS: &[Column<Offered>] = columns! { Offered;
    time_ns: Integer ["ns"] "When it came." = |r| r.time_ns;
    bytes: Integer32 ["B"] "Its size." = |r| r.bytes;
    queue: Integer16 [""] "Its queue." = |r| r.queue;
    passed: Truth [""] "Whether it passed." = |r| r.leaves_ns.is_some();
    leaves_ns: Integer ["ns"] "When it left the limiter; missing if it was dropped." = |r| r.leaves_ns;
};

/// What a limiter does with packets. See `tidegate.limiter`.
///
/// # Errors
/// The configuration is wrong, or the arrays do not fit together.
#[pyfunction]
#[pyo3(signature = (scheme, rate, depth, queues, times, sizes, queue))]
#[expect(
    clippy::too_many_arguments,
    reason = "the arguments of a function in Python"
)]
pub fn simulate(
    py: Python<'_>,
    scheme: &str,
    rate: &str,
    depth: &str,
    queues: u16,
    times: Integers,
    sizes: Integers,
    queue: Option<Integers>,
) -> PyResult<Table> {
    let config = config(scheme, rate, depth, queues).map_err(PyValueError::new_err)?;
    let queue = queue.map_or_else(|| vec![0; times.0.len()], |queue| queue.0);
    let packets = packets(&times.0, &sizes.0, &queue, queues).map_err(PyValueError::new_err)?;
    let stop = AtomicBool::new(false);
    interruptible(py, &stop, || {
        let mut table = Filling::new(Vec::new());
        table.add(&offer(&config, packets, &stop), &[])?;
        Ok(table.finish())
    })?
    .map_err(failed)
}

/// A copy of an array.
pub struct Integers(Vec<i64>);

impl<'py> FromPyObject<'_, 'py> for Integers {
    type Error = PyErr;

    fn extract(array: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // Without values there may be no memory either, which PyO3 does not take.
        if array.len()? == 0 {
            return Ok(Self(Vec::new()));
        }
        PyBuffer::get(&array)?.to_vec(array.py()).map(Self)
    }
}

fn config(scheme: &str, rate: &str, depth: &str, queues: u16) -> Result<LimiterConfig, String> {
    let rate: Rate = rate.parse().map_err(|error| format!("rate: {error}"))?;
    let depth = quantity::bytes(depth).map_err(|error| format!("depth: {error}"))?;
    let policy = match queues {
        1 => PolicyTree::queue(),
        several => PolicyTree::fair(several).map_err(|error| format!("queues: {error}"))?,
    };
    let program = Program::new(&policy);
    let made = match scheme {
        "policer" => PolicerConfig::new(rate, depth).map(LimiterConfig::from),
        "shaper" => ShaperConfig::new(program, rate)
            .and_then(|config| config.with_queue_bytes(depth))
            .map(LimiterConfig::from),
        "pqp" => PhantomQueuesConfig::new(program, rate, depth).map(LimiterConfig::from),
        "bc-pqp" => PhantomQueuesConfig::new(program, rate, depth)
            .map(|config| config.with_burst_control(BurstControl::Bucket).into()),
        other => return Err(format!("{other} is no scheme")),
    };
    made.map_err(|error| error.to_string())
}

fn packets(
    times: &[i64],
    sizes: &[i64],
    queue: &[i64],
    queues: u16,
) -> Result<Vec<Offered>, String> {
    if times.len() != sizes.len() || times.len() != queue.len() {
        return Err(format!(
            "{} times, {} sizes and {} queues: each packet has one of each",
            times.len(),
            sizes.len(),
            queue.len()
        ));
    }
    let mut before = 0;
    let packets = times.iter().zip(sizes).zip(queue).enumerate();
    let packet = |(number, ((&time, &size), &queue))| {
        let wrong = |what: &str| format!("packet {number}: {what}");
        let time_ns = u64::try_from(time).map_err(|_| wrong("its time is below 0"))?;
        if time_ns < before {
            return Err(wrong(
                "it comes before the packet in front of it: sort by time",
            ));
        }
        before = time_ns;
        let bytes = u32::try_from(size).map_err(|_| wrong("its size is not one of a packet"))?;
        let queue = u16::try_from(queue).ok().filter(|queue| *queue < queues);
        Ok(Offered {
            time_ns,
            bytes,
            queue: queue.ok_or_else(|| wrong("there is no such queue"))?,
            leaves_ns: None,
        })
    };
    packets.map(packet).collect()
}

/// Offers the packets in turn. Those that wait leave when the limiter lets them. If the flag is set, it ends soon, with packets
/// that nobody will see.
fn offer(config: &LimiterConfig, mut packets: Vec<Offered>, stop: &AtomicBool) -> Vec<Offered> {
    let start = packets.first().map_or(0, |packet| packet.time_ns);
    let mut limiter = Limiter::<usize>::new(config, start);
    let is_stopped =
        |number: usize| number.is_multiple_of(PACKETS_A_LOOK) && stop.load(Ordering::Relaxed);
    let release = |limiter: &mut Limiter<usize>, until: u64, packets: &mut [Offered]| {
        while let Some(at) = limiter.poll_timeout().filter(|at| *at <= until) {
            while let Some(number) = limiter.poll_release(at) {
                if is_stopped(number) {
                    return;
                }
                packets[number].leaves_ns = Some(at);
            }
        }
    };
    for number in 0..packets.len() {
        if is_stopped(number) {
            return Vec::new();
        }
        let now = packets[number].time_ns;
        release(&mut limiter, now, &mut packets);
        let meta = PacketMeta {
            bytes: packets[number].bytes,
            queue: packets[number].queue,
            ..PacketMeta::default()
        };
        packets[number].leaves_ns = match limiter.offer(now, &meta, number) {
            Fate::Pass(_) | Fate::Mark(..) | Fate::Ce(_) => Some(now),
            Fate::Drop(_) | Fate::Wait => None,
        };
    }
    release(&mut limiter, u64::MAX, &mut packets);
    packets
}
