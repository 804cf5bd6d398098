//! How much of the kernel's memory a configuration takes, without asking the kernel: `check` needs no rights.

use libbpf_rs::MapType;

use super::load::{self, path_of};
use super::{KernelError, layout};
use crate::config::Config;
use crate::maps::layout::{flow, flow_key};
use crate::table::Match;

/// What a map takes besides its content, which begins and ends at pages.
const MAP: u64 = 8 << 10;
/// The kernel's `struct htab_elem` before the key, and the link that its allocator puts before each element.
const ELEMENT: u64 = 48 + 8;
/// `struct bucket` of a hash map, of which there are a power of two.
const BUCKET: u64 = 16;
/// The sizes that the kernel's allocator has for elements (`kernel/bpf/memalloc.c`).
const SIZES: [u64; 11] = [16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096];

/// ::ffff:0.0.0.0, RFC 4291 §2.5.5.2.
const ALL_OF_IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];

/// Memory of the kernel in bytes, without the programs, which take less than one MB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Tables that are made whole, whatever the file says.
    pub tables: u64,
    /// Limiters, addresses, tags, and what is watched: at most.
    pub entries: u64,
}

impl Footprint {
    /// The memory of a gate with this configuration on this machine.
    ///
    /// # Errors
    /// If the programs of this build cannot be read.
    pub fn of(config: &Config) -> Result<Self, KernelError> {
        let counts = Counts::of(config);
        let mut sum = Self {
            tables: 0,
            entries: 0,
        };
        let object = load::for_this_machine(false)?;
        for map in object.maps() {
            let name = map.name().to_string_lossy();
            if path_of("".as_ref(), "".as_ref(), &name).is_none() {
                continue;
            }
            let (room, key) = (u64::from(map.max_entries()), u64::from(map.key_size()));
            let value = eights(map.value_size().into());
            let whole = match map.map_type() {
                MapType::Hash => room.next_power_of_two() * BUCKET,
                MapType::ArrayOfMaps => room * 8,
                MapType::PercpuArray => room * value * processors(),
                _ => room * value,
            };
            if name == "page_of_limiters" {
                sum.entries += (MAP + whole) * counts.limiters.div_ceil(room).max(1);
                continue;
            }
            sum.tables += MAP + whole;
            sum.entries += counts.of_map(&name) * allocated(ELEMENT + eights(key) + value);
        }
        // The table of flows is made whole, with all of its elements.
        if counts.flows > 0 {
            let each =
                ELEMENT - 8 + eights(flow_key::SIZE_OF as u64) + eights(flow::SIZE_OF as u64);
            let buckets = counts.flows.next_power_of_two() * BUCKET;
            sum.entries += MAP + counts.flows * each + buckets;
        }
        Ok(sum)
    }
}

/// How many entries the maps get at most.
#[derive(Default)]
struct Counts {
    limiters: u64,
    prefixes4: u64,
    prefixes6: u64,
    links: u64,
    bound: u64,
    ports: u64,
    lines: u64,
    flows: u64,
}

impl Counts {
    fn of(config: &Config) -> Self {
        let subscribers = config.subscribers.len() as u64;
        let mut counts = Self {
            limiters: 2 * subscribers,
            ports: config.attachments.len() as u64,
            ..Self::default()
        };
        if let Some(watch) = &config.watch {
            counts.flows = watch.flows.into();
            counts.lines = subscribers.min(layout::WATCHED as u64);
        }
        for subscriber in &config.subscribers {
            counts.bound += u64::from(!subscriber.declared.from.is_anywhere());
            for what in &subscriber.declared.matches {
                match what {
                    Match::Prefix(prefix) if prefix.is_ipv4() => counts.prefixes4 += 1,
                    Match::Prefix(prefix) => {
                        counts.prefixes6 += 1;
                        // What contains all of IPv4 is looked up for both.
                        counts.prefixes4 += u64::from(prefix.contains(ALL_OF_IPV4));
                    }
                    _ => counts.links += 1,
                }
            }
        }
        counts
    }

    fn of_map(&self, name: &str) -> u64 {
        match name {
            "seats4" => self.prefixes4,
            "seats6" => self.prefixes6,
            "seats_link" => self.links,
            "bindings" => self.bound,
            "ports" => self.ports,
            "lines" => self.lines,
            _ => 0,
        }
    }
}

/// The next multiple of 8 bytes, as in maps.
fn eights(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// What the allocator takes for an element.
fn allocated(bytes: u64) -> u64 {
    let fit = SIZES.into_iter().find(|&size| size >= bytes);
    fit.unwrap_or_else(|| bytes.next_multiple_of(4096))
}

fn processors() -> u64 {
    libbpf_rs::num_possible_cpus().unwrap_or(1) as u64
}
