use super::*;

/// The options found in [`plain`] with these bytes for options.
fn parse(options: &[u8]) -> Options {
    is_plain(ethernet(&with(options))).options
}

fn with(options: &[u8]) -> Vec<u8> {
    assert!(options.len().is_multiple_of(4));
    let mut bytes = encode(&plain());
    bytes.splice(54..54, options.iter().copied());
    bytes[17] += options.len() as u8;
    bytes[46] += (options.len() as u8 / 4) << 4;
    bytes
}

#[test]
fn all_that_a_syn_has() {
    let frame = TcpFrame {
        flags: Flags::SYN,
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps {
            value: 0xdead_beef,
            echo: 1,
        }),
        ..plain()
    };
    let found = is_plain(ethernet(&encode(&frame)));
    assert_eq!(found.headers, 60);
    assert_eq!(
        found.options,
        Options {
            mss: Some(1460),
            window_scale: Some(7),
            timestamps: Some(Timestamps {
                value: 0xdead_beef,
                echo: 1
            }),
            ..Options::default()
        }
    );
}

#[test]
fn timestamps_alone_and_behind_other_options() {
    let value = [0, 0, 0, 5, 0, 0, 0, 6];
    for head in [&[1, 1, 8, 10][..], &[8, 10], &[1, 8, 10], &[3, 3, 2, 8, 10]] {
        let mut options = [head, &value].concat();
        options.resize(options.len().next_multiple_of(4), 0);
        assert_eq!(
            parse(&options).timestamps,
            Some(Timestamps { value: 5, echo: 6 }),
            "{head:?}"
        );
    }
}

fn block(start: u8, end: u8) -> [u8; 8] {
    [0, 0, 0, start, 0, 0, 0, end]
}

#[test]
fn one_to_four_sack_blocks() {
    let all = [block(1, 2), block(3, 4), block(5, 6), block(7, 8)].concat();
    for n in 1..=4 {
        let options = [&[1, 1, 5, 2 + 8 * n as u8], &all[..8 * n]].concat();
        let expected = [1..2, 3..4, 5..6, 7..8];
        assert_eq!(
            parse(&options).sacks,
            Sacks::new(expected.into_iter().take(n))
        );
    }
    // Behind timestamps, where the fast path has been taken.
    let options = [
        &[1, 1, 8, 10][..],
        &[0, 0, 0, 5, 0, 0, 0, 6],
        &[1, 1, 5, 10],
        &block(3, 9),
    ];
    let found = parse(&options.concat());
    assert_eq!(found.timestamps, Some(Timestamps { value: 5, echo: 6 }));
    assert_eq!(found.sacks, Sacks::new(std::iter::once(3..9)));
    assert!(!found.cut);
}

#[test]
fn of_two_sack_options_the_second_counts() {
    let options = [
        &[1, 1, 5, 18][..],
        &block(1, 2),
        &block(3, 4),
        &[1, 1, 5, 10],
        &block(5, 6),
    ];
    assert_eq!(
        parse(&options.concat()).sacks,
        Sacks::new(std::iter::once(5..6))
    );
}

#[test]
fn a_sack_option_with_an_odd_length_is_passed_over() {
    let options = [
        &[5, 10][..],
        &block(3, 4),
        &[5, 11],
        &block(1, 2),
        &[0, 0, 0],
    ];
    let options = [&options.concat()[..], &[0]].concat();
    assert_eq!(parse(&options).sacks, Sacks::new(std::iter::once(3..4)));
}

#[test]
fn options_of_impossible_length_end_the_walk() {
    for length in [0, 1] {
        let options = [&[2, 4, 5, 0xb4][..], &[99, length, 1, 1], &[3, 3, 7, 0]];
        let found = parse(&options.concat());
        assert_eq!((found.mss, found.window_scale), (Some(1460), None));
    }
    // Longer than what is left, or without a length at all.
    assert_eq!(parse(&[1, 8, 10, 1]).timestamps, None);
    assert_eq!(parse(&[1, 1, 1, 8]).timestamps, None);
    assert_eq!(parse(&[2, 4, 5, 0xb4, 99, 200, 0, 0]).mss, Some(1460));
}

#[test]
fn known_options_of_wrong_length_are_passed_over() {
    let found = parse(&[2, 3, 5, 3, 4, 7, 7, 8, 4, 1, 1, 1]);
    assert_eq!(found, Options::default());
}

#[test]
fn nothing_counts_behind_the_end_of_options() {
    assert_eq!(parse(&[0, 0, 0, 0, 2, 4, 5, 0xb4]).mss, None);
}

#[test]
fn a_snapshot_of_58_bytes_cuts_the_options() {
    let bytes = with(
        &[
            [1, 1, 8, 10].as_slice(),
            &block(5, 6),
            &[1, 1, 5, 10],
            &block(7, 8),
        ]
        .concat(),
    );
    let found = |end: usize| {
        let packet = decode_as(LinkType::ETHERNET, &bytes[..end], bytes.len()).unwrap();
        assert_eq!(packet.payload, 100);
        packet.options
    };
    // Four bytes of options: not even the timestamp.
    assert!(found(58).cut);
    assert_eq!(found(58).timestamps, None);
    // The timestamp, but not what follows.
    assert!(found(68).cut);
    assert_eq!(found(68).timestamps, Some(Timestamps { value: 5, echo: 6 }));
    assert!(found(68).sacks.blocks().is_empty());
    assert!(found(54).cut);
    assert!(found(77).cut);
    assert!(!found(78).cut);
    assert_eq!(found(78).sacks, Sacks::new(std::iter::once(7..8)));
}

#[test]
fn of_a_cut_sack_option_the_whole_blocks_count() {
    let bytes = with(&[&[1, 1, 5, 18][..], &block(1, 2), &block(3, 4)].concat());
    let packet = decode_as(LinkType::ETHERNET, &bytes[..54 + 4 + 8 + 3], bytes.len()).unwrap();
    assert!(packet.options.cut);
    assert_eq!(packet.options.sacks, Sacks::new(std::iter::once(1..2)));
}
