use std::collections::HashMap;
use tidegate_trace::{annotate::*, detect::*, flow::*, read::Capture};
struct S {
    d: Box<dyn Detector>,
    out: HashMap<u32, (u64, u64, u64, Judgement)>,
    all: u64,
}
impl Sink for S {
    fn transfer(&mut self, t: &Transfer<'_>, m: &Metrics) {
        self.all += 1;
        let j = self.d.judge(t);
        if t.sender.port() == 1234 {
            self.out.insert(
                t.segment,
                (
                    m.data_packets,
                    m.lost_packets,
                    t.sent
                        .iter()
                        .filter(|s| s.repeated != 0 && !s.marks.has(Marks::SPURIOUS_DSACK))
                        .count() as u64,
                    j,
                ),
            );
        }
    }
}
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let name = std::env::args().nth(2).unwrap_or("pd".into());
    let csv = std::fs::read_to_string(format!("{dir}/original-pd.csv")).unwrap();
    let mut want: HashMap<String, Vec<Vec<String>>> = HashMap::new();
    for l in csv.lines().skip(1) {
        let f: Vec<String> = l.split(',').map(|s| s.to_string()).collect();
        want.entry(f[0].clone()).or_default().push(f);
    }
    let (mut n, mut ok0, mut ok2, mut okp, mut okl) = (0, 0, 0, 0, 0);
    for (file, rows) in want {
        let mut c = Capture::new(std::fs::File::open(format!("{dir}/{file}")).unwrap()).unwrap();
        let mut t = FlowTable::new(Settings::default());
        let mut s = S {
            d: by_name(&name).unwrap(),
            out: HashMap::new(),
            all: 0,
        };
        while let Some(f) = c.frame().unwrap() {
            t.frame(&f, &mut s);
        }
        t.finish(&mut s);
        for r in rows {
            n += 1;
            let seg: u32 = r[2].parse().unwrap();
            match s.out.get(&seg) {
                None => println!("MISSING {file} {seg}"),
                Some((p, l, q, j)) => {
                    let c0 = j.verdict.code.number().to_string();
                    let c2 = j.cut.as_ref().unwrap().code.number().to_string();
                    if c0 == r[7] {
                        ok0 += 1
                    }
                    if c2 == r[11] {
                        ok2 += 1
                    }
                    if p.to_string() == r[4] {
                        okp += 1
                    }
                    if q.to_string() == r[5] {
                        okl += 1
                    }
                    if c0 != r[7] || c2 != r[11] || p.to_string() != r[4] || q.to_string() != r[5] {
                        println!(
                            "seg {seg} pdl {q} pk {p}/{} loss {l}/{} code {c0}/{} cut {c2}/{} rate {:?}/{} {file}",
                            r[4], r[5], r[7], r[11], j.verdict.rate_bps, r[8]
                        );
                    }
                }
            }
        }
    }
    println!("n {n} code {ok0} cut2 {ok2} packets {okp} losses {okl}");
}
