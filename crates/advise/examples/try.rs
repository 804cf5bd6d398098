//! t
use tidegate_advise::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s = situation::Situation { today: setting::Setting { rate: a[1].parse().unwrap(), kind: setting::Kind::Policer { burst: a[2].parse::<tidegate_limiter::Bytes>().unwrap().get() }, overhead: 14 }, rtt: (20_000_000, 100_000_000), flows: a[3].parse().unwrap(), users: a[4].parse().unwrap(), controls: a[5].split(',').map(str::to_owned).collect(), video: None };
    let n = advice::all(&s).0.len();
    let mut e = trial::Effort::for_seconds(&s, n);
    if let Some(x) = a.get(6) { e.seed = x.parse().unwrap(); }
    let t = std::time::Instant::now();
    let ad = advice::advise(&s, e, advice::Means { jobs: 2, ..Default::default() }).unwrap();
    println!("{e:?} {:?} {:?}", t.elapsed(), ad.chosen);
    for o in &ad.options {
        let f = &o.effect;
        println!("{:34} good {:.3} slow {:.3} jain {:?} loss {:.3} retr {:.3} delay {:.3} silent {:.3} peak {:.2} join {:.2} reb {:.2} ({:.2}) page {:.2} {:.2}", o.remedy.words(), f.goodput, f.slowest, f.fairness.map(|x| (x*1000.).round()/1000.), f.loss, f.retransmitted, f.delay_s, f.silent, f.peak, f.join_s, f.rebuffer_s, f.rebuffered, f.page_s, f.page_p95_s);
    }
    for r in &ad.remarks { println!("{r}"); }
    print!("{}", text::text(&ad, &Default::default()));
    std::fs::write("/tmp/adv/a.svg", picture::svg(&ad)).unwrap();
    json::value(&ad, &Default::default());
}
