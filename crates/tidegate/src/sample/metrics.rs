//! Counts of a running sampler for Prometheus, on this machine only.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Context;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tidegate_sample::Counters;

/// The media type of the text.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the counts at `/metrics` from a thread, until the process ends. Returns the address.
pub fn serve(address: SocketAddr, counters: Arc<Counters>) -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let address = listener.local_addr().context("cannot listen")?;
    listener.set_nonblocking(true).context("cannot listen")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the thread of the metrics")?;
    let page = move || {
        let counters = Arc::clone(&counters);
        async move { ([(CONTENT_TYPE, TEXT)], text(counters)).into_response() }
    };
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, Router::new().route("/metrics", get(page))).await
    };
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            if let Err(error) = runtime.block_on(serve) {
                eprintln!("tidegate: the metrics ended: {error}");
            }
        })
        .context("cannot start the thread of the metrics")?;
    Ok(address)
}

/// All metrics as text.
fn text(counters: Arc<Counters>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(counters)));
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Scrape(Arc<Counters>);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counters = &self.0;
        let all: [(&str, &str, &AtomicU64); 9] = [
            ("packets", "Packets that were written", &counters.packets),
            (
                "dropped_packets",
                "Packets that the kernel dropped because the ring was full",
                &counters.dropped,
            ),
            (
                "discarded_packets",
                "Packets that were not written because the disk was full",
                &counters.discarded,
            ),
            ("files", "Files that were completed", &counters.files),
            (
                "file_bytes",
                "Bytes of files that were completed",
                &counters.bytes,
            ),
            (
                "rows",
                "Rows that were added to the dataset",
                &counters.rows,
            ),
            (
                "lost_periods",
                "Periods whose rows could not be written, because the disk was full or their times cannot be right",
                &counters.lost_periods,
            ),
            (
                "removed_files",
                "Files, or periods with rows, that were removed to make room",
                &counters.removed,
            ),
            (
                "lowered_shares",
                "How often the sampled share was lowered",
                &counters.lowered,
            ),
        ];
        for (name, help, count) in all {
            let count = ConstCounter::new(count.load(Ordering::Relaxed));
            let name = format!("tidegate_sample_{name}");
            let kind = count.metric_type();
            count.encode(encoder.encode_descriptor(&name, help, None, kind)?)?;
        }
        let unmoved = ConstGauge::new(counters.unmoved.load(Ordering::Relaxed));
        let help = "Files that could not be moved to where --to says, and wait";
        let kind = unmoved.metric_type();
        unmoved.encode(encoder.encode_descriptor(
            "tidegate_sample_unmoved_files",
            help,
            None,
            kind,
        )?)?;
        let share = ConstGauge::new(counters.fraction());
        let help = "The share of flows, or of clients, that is sampled now";
        let kind = share.metric_type();
        share.encode(encoder.encode_descriptor("tidegate_sample_share", help, None, kind)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_in_the_text() {
        let counters = Arc::new(Counters::default());
        counters.packets.store(17, Ordering::Relaxed);
        counters.lost_periods.store(3, Ordering::Relaxed);
        let text = text(counters);
        assert!(
            text.contains("\ntidegate_sample_packets_total 17\n"),
            "{text}"
        );
        assert!(text.contains("\ntidegate_sample_share 0.0\n"), "{text}");
        assert!(
            text.contains("\ntidegate_sample_lost_periods_total 3\n"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }
}
