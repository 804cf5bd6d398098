use super::*;
use crate::MILLISECOND;

const MS: Nanos = MILLISECOND;

/// One segment each 10 ms over a round trip of 50 ms: five are delivered in the time from the
/// sending of a segment to its acknowledgement, which is five intervals.
#[test]
fn a_steady_flow_has_its_rate() {
    let mut rate = Delivery::new(0);
    let mut out = std::collections::VecDeque::new();
    let mut latest = None;
    for step in 0..40u64 {
        let now = step * 10 * MS;
        if step >= 5
            && let Some((sent_at, snapshot)) = out.pop_front()
        {
            let mut sample = RateSample::default();
            rate.delivered += 1;
            rate.on_delivered(sent_at, snapshot, &mut sample);
            rate.complete(now, 1, Some(50 * MS), false, &mut sample);
            latest = sample.over;
        }
        let nothing_out = out.is_empty();
        out.push_back((now, rate.on_sent(now, nothing_out, 1)));
    }
    assert_eq!(latest, Some((5, 50 * MS)));
}

/// Ten segments sent over 90 ms, acknowledged all at once: the send phase is the longer, and
/// keeps the rate from being overestimated.
#[test]
fn compressed_acknowledgements_do_not_inflate_it() {
    let mut rate = Delivery::new(0);
    let sent: Vec<_> = (0..10u64)
        .map(|step| (step * 10 * MS, rate.on_sent(step * 10 * MS, step == 0, 1)))
        .collect();
    let mut first = RateSample::default();
    rate.delivered += 1;
    rate.on_delivered(sent[0].0, sent[0].1, &mut first);
    rate.complete(100 * MS, 1, None, false, &mut first);
    let mut rest = RateSample::default();
    for &(at, snapshot) in &sent[1..] {
        rate.delivered += 1;
        rate.on_delivered(at, snapshot, &mut rest);
    }
    rate.complete(101 * MS, 9, None, false, &mut rest);
    let (segments, interval) = rest.over.unwrap();
    assert_eq!(segments, 10);
    assert!(interval >= 90 * MS, "{interval}");
}

#[test]
fn shorter_than_any_round_trip_is_no_sample() {
    let mut rate = Delivery::new(0);
    let snapshot = rate.on_sent(0, true, 1);
    let mut sample = RateSample::default();
    rate.delivered += 1;
    rate.on_delivered(0, snapshot, &mut sample);
    rate.complete(20 * MS, 1, Some(50 * MS), false, &mut sample);
    assert_eq!(sample.over, None);
    assert_eq!(sample.prior_delivered(), 1);
}

#[test]
fn silence_of_the_application_marks_samples_until_its_end_is_delivered() {
    let mut rate = Delivery::new(0);
    rate.app_limited_until = Some(1);
    let limited = rate.on_sent(0, true, 1);
    let mut sample = RateSample::default();
    rate.delivered = 2;
    rate.on_delivered(0, limited, &mut sample);
    rate.complete(50 * MS, 1, None, false, &mut sample);
    assert!(sample.app_limited());
    assert_eq!(rate.app_limited_until, None);
}
