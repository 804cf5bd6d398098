use super::{LANES, Lanes, Loop, Plain, Vector, run};

/// Everything that a vector can do, with values and with what was made of them before.
struct Everything(Vec<Lanes>);

impl Loop for Everything {
    type Result = (Vec<Lanes>, [u32; LANES], [f64; LANES], Vec<bool>);

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Result {
        let mut found = Vec::new();
        let (mut counts, mut sums, mut never) = ([0; LANES], [0.0; LANES], Vec::new());
        let table: [f32; 9] = std::array::from_fn(|i| i as f32 / 3.0);
        let mut before = V::all(1.5);
        for values in &self.0 {
            let values = V::new(values);
            let (sum, difference) = (values.plus(before), values.minus(before));
            let below = values.is_below(before);
            let near = difference.is_below(V::all(2.0));
            V::count(V::and(below, near), &mut counts);
            V::count(V::or(below, near), &mut counts);
            values.times(sum).add_to(&mut sums);
            never.extend([values.is_never_below(-7.0), values.is_never_below(-9.0)]);
            let all = [sum, difference, values.least(before), values.most(before)];
            found.extend(all.map(V::values));
            found.push(values.look_up(&table).values());
            before = values.or_where(below, sum);
        }
        (found, counts, sums, never)
    }
}

fn values() -> Everything {
    // From -8 to 12, in no order.
    let value = |i: usize| (i * 37 % 101) as f32 / 5.0 - 8.0;
    Everything(
        (0..24)
            .map(|row| std::array::from_fn(|lane| value(row * LANES + lane)))
            .collect(),
    )
}

#[test]
fn every_width_comes_to_the_same_bits() {
    let plain = values().run::<Plain>();
    assert!(plain.3.contains(&true) && plain.3.contains(&false));
    assert!(plain.1.iter().all(|&count| count > 0));
    assert!(run(values()) == plain);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        assert!(super::x86::eight_wide(values()) == plain);
    }
}

#[test]
fn places_outside_a_table_are_those_at_its_ends() {
    struct LookUp(Lanes);
    impl Loop for LookUp {
        type Result = Lanes;
        #[inline(always)]
        fn run<V: Vector>(self) -> Lanes {
            V::new(&self.0).look_up(&[3.0, 4.0, 5.0]).values()
        }
    }
    let mut places = [1.9; LANES];
    places[..5].copy_from_slice(&[-1e30, f32::NEG_INFINITY, f32::INFINITY, 1e30, f32::NAN]);
    let found = run(LookUp(places));
    assert_eq!(found[..6], [3.0, 3.0, 5.0, 5.0, 3.0, 4.0]);
}
