//! Fetches a video without showing it, and reports what a viewer would have seen.
//!
//! ```text
//! cargo run -p tidegate-serve --example watch -- http://127.0.0.1:8080/video.mp4
//! ```

use std::error::Error;
use std::time::Duration;

use tidegate_serve::player::{Arrivals, Audience, Patience, Player, Transport, Trust, video_url};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("name the URL of a video")?;
    let seconds = Duration::from_secs;
    let audience = Audience {
        urls: vec![video_url(&url)?],
        from: Vec::new(),
        viewers: 1,
        arrivals: Arrivals::Once,
        seed: 0,
        player: Player {
            transport: Transport::new(seconds(10), None, Some(&Trust::System))?,
            watch: Some(seconds(30)),
            buffer: Duration::from_secs(30),
            range: None,
            patience: Patience {
                start: seconds(2),
                restart: seconds(5),
            },
            start_up: seconds(40),
            rate: None,
        },
    };
    for viewed in audience.watch(std::future::pending()).await {
        println!("{viewed:#?}");
    }
    Ok(())
}
