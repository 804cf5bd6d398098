//! Files to a store that speaks the protocol of Amazon S3.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ClientConfigKey, MultipartUpload, ObjectStoreExt, RetryConfig};
use tokio::runtime::Runtime;

/// Larger files are sent in parts of this size. It bounds the memory. Stores take 10,000 parts.
const PART: u64 = 16 << 20;
/// How long a store may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long it may take for a request without a body.
const ANSWER: Duration = Duration::from_secs(60);
/// The slowest uplink that bodies of requests pass in time, in bytes per second. The client's timeouts count from the
/// beginning of a request, also that for reads. A connection on which nothing is acknowledged ends much sooner: the
/// client sets `TCP_USER_TIMEOUT` to 30 seconds.
const SLOWEST: u64 = 32_000;
/// A file that failed is sent again later. So requests are tried again only for a moment.
const RETRY: Duration = Duration::from_secs(5);

/// A bucket, or what is below a prefix in it.
pub struct Bucket {
    store: AmazonS3,
    prefix: Key,
    runtime: Runtime,
}

impl Bucket {
    /// A bucket, with the credentials, region and endpoint of the environment (`AWS_ACCESS_KEY_ID` and so on). Nothing is asked of
    /// the store yet: it may be away.
    pub fn new(name: &str, prefix: &str) -> anyhow::Result<Self> {
        // The client takes the process' cryptography. If there is one already, it is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the thread that ships files")?;
        let bounds = [
            (ClientConfigKey::ConnectTimeout, CONNECT),
            (ClientConfigKey::Timeout, time_for(PART)),
        ];
        let bounded = |builder: AmazonS3Builder, (key, time): (ClientConfigKey, Duration)| {
            let time = format!("{} seconds", time.as_secs());
            builder.with_config(AmazonS3ConfigKey::Client(key), time)
        };
        let store = bounds
            .into_iter()
            .fold(AmazonS3Builder::from_env(), bounded)
            .with_bucket_name(name)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: 2,
                retry_timeout: RETRY,
            })
            .build()
            .context("cannot use the S3 store: check the variables AWS_… of the environment")?;
        let prefix = Key::parse(prefix).context("an S3 store cannot have this prefix")?;
        Ok(Self {
            store,
            prefix,
            runtime,
        })
    }

    /// Sends a file under its name. The object appears when it is complete, and replaces one of the same name.
    pub fn put(&self, file: &Path) -> io::Result<()> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let key = self.prefix.clone().join(&*name);
        let mut file = File::open(file)?;
        self.runtime.block_on(async {
            let first = part(&mut file)?;
            if (first.len() as u64) < PART {
                let bytes = first.len() as u64;
                within(bytes, self.store.put(&key, first.into())).await?;
                return Ok(());
            }
            let mut upload = within(0, self.store.put_multipart(&key)).await?;
            let sent = parts(&mut *upload, first, file).await;
            if sent.is_err() {
                // Otherwise the store would keep the parts that came. It may be away by now.
                let _ = within(0, upload.abort()).await;
            }
            sent
        })
    }
}

async fn parts(upload: &mut dyn MultipartUpload, first: Vec<u8>, mut file: File) -> io::Result<()> {
    let mut next = first;
    while !next.is_empty() {
        within(next.len() as u64, upload.put_part(next.into())).await?;
        next = part(&mut file)?;
    }
    within(0, upload.complete()).await?;
    Ok(())
}

/// How long a request that sends this number of bytes may take.
fn time_for(bytes: u64) -> Duration {
    ANSWER + Duration::from_secs(bytes / SLOWEST)
}

/// Waits for a request that sends this number of bytes, at most for [`time_for`] them.
async fn within<T>(
    bytes: u64,
    request: impl Future<Output = object_store::Result<T>>,
) -> io::Result<T> {
    let time = time_for(bytes);
    match tokio::time::timeout(time, request).await {
        Ok(done) => Ok(done?),
        Err(_) => {
            let text = format!("the store has not answered within {} s", time.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
    }
}

/// The next part of a file, empty at its end.
fn part(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(PART).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_passes_a_slow_uplink_in_time() {
        // 512 kbit/s, with headers and retransmissions on top.
        let needed = Duration::from_secs(PART * 8 / 512_000);
        assert!(time_for(PART) > 2 * needed, "{:?}", time_for(PART));
        // A store that answers nothing does not hold up the others for long.
        assert_eq!(time_for(0), ANSWER);
    }
}
