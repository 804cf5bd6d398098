//! Tests that the programs' C code decides in user space, under sanitizers, as it does in the
//! kernel.

use std::process::{Command, Stdio};

use super::*;
use crate::kernel::layout::{Field, Record, plan, rules, seat, seats, shape};

/// The input of the program of host.c for one limiter, and the answers that it must give.
#[derive(Default)]
struct Host {
    input: Vec<u8>,
    expected: Vec<u8>,
}

impl Host {
    /// The content of the maps.
    fn add_maps(&mut self, pair: &mut Pair<'_>) {
        let kernel = pair.gate.kernel();
        let read = |map, key: u32| {
            let found = kernel.map(map).lookup(&key.to_ne_bytes(), MapFlags::ANY);
            found.unwrap().unwrap()
        };
        let current = u32::from_ne_bytes(read("current", 0).try_into().unwrap());
        let plan = read("plans", pair.seat.plan);
        // Numbers begin at 1, and the reserved numbers have no entries.
        let part = |map, number: Field<u32>, size| match number.of(&plan).checked_sub(1) {
            Some(number) if number < kernel.map(map).max_entries() => read(map, number),
            _ => vec![0; size],
        };
        self.input.push(b'M');
        self.input.extend(read("settings", current));
        self.input.extend(&plan);
        self.input
            .extend(part("shapes", plan::SHAPE, shape::SIZE_OF));
        self.input
            .extend(part("rule_sets", plan::RULES, rules::SIZE_OF));
        let down = |field: Field<u32>| field.within(seats::WAY, 0);
        let seat = Record::new(seats::SIZE_OF)
            .with(down(seat::LIMITER), pair.seat.limiter)
            .with(down(seat::PLAN), pair.seat.plan)
            .with(down(seat::VERSION), pair.seat.version)
            .with(down(seat::KNOWN), 1);
        self.input.extend(seat.into_bytes());
    }

    /// A packet, how many of its bytes can be read, and whether it is dropped.
    fn packet(&mut self, now: Nanos, frame: &[u8], readable: usize, dropped: bool) {
        let given = &frame[..readable.min(frame.len())];
        self.input.extend(now.to_ne_bytes());
        self.input.extend((frame.len() as u32).to_ne_bytes());
        self.input.extend((given.len() as u32).to_ne_bytes());
        self.input.extend(given);
        self.expected.push(u8::from(dropped));
    }

    fn check(self, program: &std::path::Path, seed: u64) {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // This fails if a sanitizer ends the program, which prints the reason.
            scope.spawn(move || {
                let _ = stdin.write_all(&self.input);
            });
            child.wait_with_output().unwrap()
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {said}");
        let all = self.expected.len();
        assert_eq!(output.stdout.len(), all, "seed {seed}");
        let first = (0..all).find(|&at| output.stdout[at] != self.expected[at]);
        assert_eq!(first, None, "seed {seed}: the first of {all} that differs");
    }
}

fn compiled(folder: &std::path::Path) -> PathBuf {
    let program = folder.join("host");
    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new("cc")
        .args(["-O1", "-g", "-Wall", "-Werror"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .args(["-I", env!("LIBBPF_INCLUDE")])
        .arg(format!("-I{root}/bpf"))
        .arg(format!("{root}/src/kernel/tests/same/host.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc: {said}");
    program
}

#[test]
fn the_same_c_decides_the_same_outside_of_the_kernel() {
    let Some(mut gate) = gate("the_same_c_decides_the_same_outside_of_the_kernel") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    let (mut sent, mut dropped) = (0, 0);
    for seed in 700..740 {
        let mut random = Pcg64::seed_from_u64(seed);
        let policy = draw_policy(&mut random);
        let rate = draw_rate(&mut random);
        let size = draw_size(&mut random, rate);
        let means = match seed % 4 {
            0 => Means::Policer { burst: size },
            _ => Means::PhantomQueues {
                size,
                control: draw_control(&mut random),
            },
        };
        let plan = draw_plan(&mut random, rate, means, &policy);
        let mut sequence = Sequence::new(&mut random, seed, rate.bits_per_second());
        let mut pair = Pair::new(&mut gate, plan);
        let mut host = Host::default();
        host.add_maps(&mut pair);
        for number in 0..2_000 {
            if random.random_ratio(1, 300) {
                sequence.rate = switch(&mut pair, &mut random);
                host.add_maps(&mut pair);
            }
            let (now, mut flow, mut bytes) = sequence.next();
            // Two packets may come at one time, by two processors.
            let together = 1 + number % 2;
            host.input.push([b'P', b'T'][number % 2]);
            for _ in 0..together {
                let before = pair.sent.1;
                assert!(pair.offer(now, flow, bytes), "seed {seed}, packet {number}");
                let frame = &pair.frames[usize::from(flow)][..14 + usize::from(bytes)];
                host.packet(now, frame, 64, pair.sent.1 > before);
                (_, flow, bytes) = sequence.next();
            }
        }
        // Frames with random bytes, about which the kernel's program decides as well.
        for _ in 0..500 {
            let (now, flow, _) = sequence.next();
            let length = random.random_range(14..200);
            let mut junk = pair.frames[usize::from(flow)][..length].to_vec();
            for _ in 0..random.random_range(0..6) {
                let most = junk.len().min(42);
                junk[random.random_range(12..most)] = random.random();
            }
            let time = now.to_ne_bytes();
            let kernel = pair.gate.kernel();
            kernel
                .update("test_time", &0u32.to_ne_bytes(), &time)
                .unwrap();
            let drops = run(&pair.xdp, &junk) == 1;
            host.input.push(b'P');
            host.packet(now, &junk, junk.len(), drops);
        }
        (sent, dropped) = (sent + pair.sent.0, dropped + pair.sent.1);
        host.check(&program, seed);
    }
    assert!(
        dropped * 20 > sent && dropped * 20 < sent * 19,
        "{dropped} of {sent}"
    );
}
