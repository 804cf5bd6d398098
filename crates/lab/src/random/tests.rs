use super::*;

/// The system's library is right except for the last digits, which is enough for a reference.
#[test]
fn series_agree_with_the_mathematical_library() {
    for step in 1..2000 {
        let x = f64::from(step) * f64::from(step) / 1234.5;
        assert!(
            (ln(x) - x.ln()).abs() <= 4e-16 * (1.0 + x.ln().abs()),
            "ln {x}"
        );
        let y = f64::from(step - 1000) / 17.0;
        assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "exp {y}");
    }
    assert!((ln(f64::MIN_POSITIVE) - f64::MIN_POSITIVE.ln()).abs() < 1e-12);
}

fn mean(count: u32, mut value: impl FnMut() -> f64) -> f64 {
    (0..count).map(|_| value()).sum::<f64>() / f64::from(count)
}

#[test]
fn distributions_have_their_moments() {
    let mut random = Random::new(7, Owner::Element(0));
    assert!((mean(200_000, || random.uniform()) - 0.5).abs() < 0.003);
    assert!((mean(200_000, || random.exponential()) - 1.0).abs() < 0.01);
    // Mean, variance and kurtosis of a normal distribution.
    for (power, expected) in [(1, 0.0), (2, 1.0), (4, 3.0)] {
        let moment = mean(200_000, || random.normal().powi(power));
        assert!((moment - expected).abs() < 0.06, "{power}: {moment}");
    }
}

#[test]
fn pareto_keeps_its_mean_and_bounds() {
    let mut random = Random::new(7, Owner::Application(3));
    for (shape, max) in [(0.8, 1e6), (1.0, 1e6), (1.2, 1e7), (2.5, 1e7)] {
        let pareto = BoundedPareto::with_mean(50_000.0, shape, max);
        let mut largest = 0f64;
        let got = mean(400_000, || {
            let value = pareto.sample(&mut random);
            assert!(value >= pareto.min * 0.999_999 && value <= max * 1.000_001);
            largest = largest.max(value);
            value
        });
        assert!((got / 50_000.0 - 1.0).abs() < 0.04, "shape {shape}: {got}");
        assert!(
            largest > 50_000.0 * 4.0,
            "shape {shape} has a tail: {largest}"
        );
    }
}

#[test]
fn streams_are_independent() {
    let first = |owner| Random::new(1, owner).bits();
    let mut seen: Vec<u32> = (0..1000)
        .map(|index| first(Owner::Element(index)))
        .collect();
    seen.extend((0..1000).map(|index| first(Owner::Application(index))));
    seen.extend((0..1000).map(|part| first(Owner::Connection(0, part))));
    seen.sort_unstable();
    let before = seen.len();
    seen.dedup();
    // Among 3000 of 2^32 numbers, two are equal with a probability below 1 in 900.
    assert_eq!(seen.len(), before);
    assert_ne!(
        Random::new(1, Owner::Element(0)).bits(),
        Random::new(2, Owner::Element(0)).bits()
    );
}
