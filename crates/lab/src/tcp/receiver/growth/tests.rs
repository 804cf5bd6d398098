use super::*;
use crate::MILLISECOND;

/// What captures of Linux 6.18 show in slow start, 10 segments and then 20, and 20 of the third round
/// trip: the window grows with the first six, and with 32 from the second of the third on.
#[test]
fn it_grows_as_that_of_linux() {
    let mut growth = Growth::new(1448, 6 << 20);
    let rtt = 40 * MILLISECOND;
    let (mut byte, mut grown) = (1, Vec::new());
    for (round, segments) in [10, 20, 40].into_iter().enumerate() {
        for _ in 0..segments {
            byte += 1448;
            grown.push(growth.take(1448));
            growth.read(round as u64 * rtt, byte, Some(rtt));
        }
    }
    let expected = (0..70).map(|number| number < 6 || (31..63).contains(&number));
    assert_eq!(grown, expected.collect::<Vec<_>>());
}

#[test]
fn it_stays_within_the_largest() {
    let mut growth = Growth::new(1448, 100_000);
    for round in 1..100 {
        growth.take(1448);
        growth.read(round * MILLISECOND, round * round * 1_000_000, Some(0));
    }
    assert_eq!(growth.clamp, 100_000);
    assert!(!Growth::new(1448, 3000).take(1448));
    assert!(
        !Growth::new(1448, 1 << 20).take(100),
        "short ones do not count"
    );
}
