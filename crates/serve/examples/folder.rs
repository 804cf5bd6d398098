//! Serves a folder of videos, paced, until Ctrl-C.
//!
//! ```text
//! cargo run -p tidegate-serve --example folder -- videos/ 127.0.0.1:8080
//! ```

use std::error::Error;

use tidegate_serve::server::{Config, LogFormat, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut config = Config::new(arguments.next().ok_or("name a folder of videos")?.into());
    config.index = true;
    if let Some(address) = arguments.next() {
        config.listen = vec![address.parse()?];
    }
    let log = (LogFormat::Common, Box::new(std::io::stdout()) as Box<_>);
    let server = Server::bind(config, Some(log)).await?;
    if let Some(remark) = server.remark() {
        eprintln!("{remark}");
    }
    for (address, _) in server.addresses()? {
        eprintln!("serving at http://{address}/");
    }
    server
        .run(async { drop(tokio::signal::ctrl_c().await) })
        .await;
    Ok(())
}
