use proptest::prelude::*;

use super::cube_root;

#[test]
fn bounds_are_exact() {
    for root in (0u64..1000).chain([65_535, 1 << 20, 2_642_244]) {
        let cube = root.pow(3);
        assert_eq!(cube_root(cube), root);
        assert_eq!(cube_root(cube + 1), root.max(u64::from(root == 0)));
        assert_eq!(cube_root(cube.saturating_sub(1)), root.saturating_sub(1));
    }
    assert_eq!(cube_root(u64::MAX), 2_642_245);
}

proptest! {
    #[test]
    fn it_is_the_largest_that_fits(value in any::<u64>()) {
        let root = u128::from(cube_root(value));
        prop_assert!(root.pow(3) <= u128::from(value));
        prop_assert!((root + 1).pow(3) > u128::from(value));
    }
}
