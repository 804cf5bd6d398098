//! What TLS and QUIC cost: viewers are those of `tidegate play`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::clients::VIEWERS;
use super::program::{Kind, Place, Server};

/// Viewers that fetch the whole video at full speed.
const FETCHING: usize = 8;
/// How long each of the paced viewers watches.
const WATCHING: &str = "14s";

/// Ways to pace that are measured.
const WAYS: [&str; 2] = ["trickle", "application-64k"];

/// Processor time in ms for a megabyte, by name: with TLS 1.3 and HTTP/1.1, and with HTTP/3. Handshakes are included.
pub fn measure(place: &Place) -> Result<Vec<(String, f64)>> {
    let mut found = Vec::new();
    for (kind, http) in [
        (Kind::Nginx, "1.1"),
        (Kind::Tidegate("none"), "1.1"),
        (Kind::Tidegate("none"), "3"),
    ] {
        eprintln!("{}, HTTP/{http} with TLS", kind.name());
        let viewers = ["-n", &FETCHING.to_string()];
        let cost = visit(kind, place, "free.mp4", http, &viewers)?;
        found.push((format!("{}.tls.cpu", name(kind, http)), cost));
    }
    let ours = WAYS
        .into_iter()
        .flat_map(|way| ["1.1", "3"].map(|http| (Kind::Tidegate(way), http)));
    for (kind, http) in [(Kind::Nginx, "1.1")].into_iter().chain(ours) {
        eprintln!("{}, HTTP/{http} with TLS, paced", kind.name());
        let count = VIEWERS.to_string();
        let viewers = ["-n", &count, "--arrivals", "spread:1s", "--watch", WATCHING];
        let cost = visit(kind, place, "v.mp4", http, &viewers)?;
        found.push((format!("{}.tls.paced.cpu", name(kind, http)), cost));
    }
    Ok(found)
}

fn name(kind: Kind, http: &str) -> String {
    let version = &http[..1];
    match kind {
        Kind::Tidegate("none") => format!("tidegate.http{version}"),
        Kind::Tidegate(way) => format!("tidegate.http{version}.{way}"),
        other => other.name(),
    }
}

/// The processor time of a server in ms for each megabyte of what these viewers get.
fn visit(kind: Kind, place: &Place, file: &str, http: &str, viewers: &[&str]) -> Result<f64> {
    let server = Server::start(kind, place)?;
    let before = server.cpu();
    let played = Command::new(&place.program)
        .args([
            "play",
            "--quiet",
            "--insecure",
            "--http",
            http,
            "--format",
            "csv",
        ])
        .args(viewers)
        .arg(format!("https://{}/{file}", server.address))
        .stderr(Stdio::inherit())
        .output()?;
    let cpu = server.cpu() - before;
    if !played.status.success() {
        bail!("tidegate play failed");
    }
    let bytes =
        sum(&String::from_utf8_lossy(&played.stdout), "bytes").context("no viewer got anything")?;
    Ok(cpu * 1e9 / bytes)
}

/// The sum of a column of a table in CSV, without quotes.
fn sum(table: &str, column: &str) -> Option<f64> {
    let mut rows = table.lines().map(|row| row.split(','));
    let at = rows.next()?.position(|name| name == column)?;
    let sum: f64 = rows
        .filter_map(|mut row| row.nth(at)?.parse::<f64>().ok())
        .sum();
    (sum > 0.0).then_some(sum)
}

/// A certificate of its own for this machine, and its key. None without OpenSSL.
pub fn certificate(folder: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    fs::create_dir_all(folder)?;
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=bench"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status();
    Ok(made
        .is_ok_and(|status| status.success())
        .then_some((certificate, key)))
}
