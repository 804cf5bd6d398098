use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

impl Sketch {
    pub(in crate::fair_policer) fn with_hashes(hashes: [(u64, u64); Self::ROWS]) -> Self {
        let mut sketch = Self::new(0);
        sketch.hashes = hashes;
        sketch
    }

    /// The flow's counters, for the tests of what counts by them.
    pub(in crate::fair_policer) fn places(&self, flow: u32) -> [usize; Self::ROWS] {
        std::array::from_fn(|row| self.place(row, flow))
    }
}

proptest! {
    /// With half of the slots in use and flows that meet, removed in any order.
    #[test]
    fn a_table_counts_as_a_map(steps in prop::collection::vec((0u32..20, 0u64..5, any::<bool>()), 1..400)) {
        let mut table = FlowTable::new(8);
        let mut map: HashMap<u32, u64> = HashMap::new();
        for (flow, bytes, add) in steps {
            // Multiples that the hash does not spread, so that there are runs over the end.
            let flow = flow.wrapping_mul(0x9e37_79b1u32.wrapping_mul(0x1234_5679));
            if add {
                if bytes == 0 || (map.len() >= 8 && !map.contains_key(&flow)) {
                    continue;
                }
                table.add(flow, bytes);
                *map.entry(flow).or_default() += bytes;
            } else {
                let bytes = bytes.min(table.of(flow));
                table.subtract(flow, bytes);
                if let Some(count) = map.get_mut(&flow) {
                    *count -= bytes;
                }
                map.retain(|_, count| *count > 0);
            }
            for flow in map.keys() {
                prop_assert_eq!(table.of(*flow), map[flow]);
            }
            let used = table.slots.iter().filter(|slot| slot.bytes > 0).count();
            prop_assert_eq!(used, map.len());
        }
    }

    #[test]
    fn a_sketch_is_never_below_the_truth(seed: u64, adds in prop::collection::vec((0u32..5_000, 1u64..1_500), 1..2_000)) {
        let mut sketch = Sketch::new(seed);
        let mut map: HashMap<u32, u64> = HashMap::new();
        for (flow, bytes) in adds {
            sketch.update(flow, |count| count + bytes);
            *map.entry(flow).or_default() += bytes;
        }
        for (flow, bytes) in map {
            prop_assert!(sketch.of(flow) >= bytes);
        }
    }
}

#[test]
fn rows_of_a_sketch_differ_and_use_all_counters() {
    let sketch = Sketch::new(1);
    let mut used = [[0u32; 1_024]; 4];
    let mut alike = 0;
    for flow in 0..102_400 {
        let places = sketch.places(flow);
        for (row, &place) in places.iter().enumerate() {
            used[row][place] += 1;
        }
        alike += u32::from(places[0] == places[1]);
    }
    // 100 in each by chance, with a standard deviation of 10; in both rows the same place for one
    // flow in 1024.
    assert!(used.iter().flatten().all(|count| (40..170).contains(count)));
    assert!((50..170).contains(&alike), "{alike}");
    assert_ne!(Sketch::new(2).places(1), sketch.places(1), "another seed");
}
