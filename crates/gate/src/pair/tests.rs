use proptest::prelude::*;

use super::*;

fn carried() -> impl Strategy<Value = Carried> {
    let word = prop_oneof![Just(0u64), any::<u64>()];
    let state = prop::collection::vec(word, 0..300);
    ("\\PC{1,40}", any::<bool>(), any::<(u64, u64)>(), state).prop_map(
        |(name, down, (limits, age), words)| Carried {
            name,
            direction: if down { Direction::Down } else { Direction::Up },
            limits,
            age,
            state: words.into_iter().flat_map(u64::to_le_bytes).collect(),
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(all in prop::collection::vec(carried(), 0..5), cut in any::<prop::sample::Index>()) {
        let mut writer = Writer::default();
        all.iter().for_each(|one| writer.add(one));
        let bytes = writer.into_bytes();
        let read: Result<Vec<_>, _> = Reader::new(&bytes).expect("a form").collect();
        prop_assert_eq!(read.as_ref(), Ok(&all));
        // Cut off anywhere, it ends.
        let cut = &bytes[..cut.index(bytes.len() + 1)];
        if let Ok(reader) = Reader::new(cut) {
            prop_assert!(reader.count() <= all.len());
        }
    }

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [MAGIC.as_slice(), &bytes].concat();
        let _ = Reader::new(&bytes).expect("a form").count();
        prop_assert!(Reader::new(&bytes[1..]).is_err());
    }
}
