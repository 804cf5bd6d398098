//! `tidegate web`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  tidegate web               then open the address that it prints, and drop a capture on the page
  tidegate web captures/     lists the captures in this folder, and reads them without the browser
  tidegate web huge.pcap     the same with one capture
  tidegate web --port 0      on any free port
  tidegate web --page dist   the page in a folder, such as `make web` builds
  tidegate web --gate unix:/run/tidegate/api.sock    also shows this gate, live

A capture that is dropped on the page is read in the browser, by the engine of `tidegate detect` compiled to
WebAssembly, and is sent nowhere. Captures in the folders that are named here are read by this program. It
listens on 127.0.0.1 only, and reads nothing outside of these folders: links are not followed.
";

/// Show captures in the browser: verdicts, stories and pictures.
///
/// Serves Tidegate's page on this machine. A capture that is dropped on it is analysed in the browser.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Web {
    /// Folders whose captures the page lists, or single captures
    #[arg(value_name = "FOLDER")]
    pub captures: Vec<PathBuf>,
    /// The port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8410)]
    pub port: u16,
    /// Serve the page in this folder instead of the one in the program
    #[arg(long, value_name = "FOLDER")]
    pub page: Option<PathBuf>,
    /// Show the gate whose API listens here: unix:PATH, or an address and port of this machine
    #[arg(long, value_name = "ADDRESS")]
    pub gate: Option<String>,
    /// The file with the token that the gate's API needs; the page never sees it
    #[arg(long, value_name = "FILE", requires = "gate")]
    pub gate_token: Option<PathBuf>,
    /// Let the page change limits of the gate's subscribers, not only show them
    #[arg(long, requires = "gate")]
    pub gate_change: bool,
}
