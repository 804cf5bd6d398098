//! Files to a store that speaks the protocol of Amazon S3.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ClientConfigKey, MultipartUpload, ObjectStoreExt, RetryConfig};
use tokio::runtime::Runtime;

/// Larger files are sent in parts of this size. It bounds the memory. Stores take 10,000 parts.
const PART: u64 = 16 << 20;
/// How long a store may take to accept a connection, and for a request.
const BOUNDS: [(ClientConfigKey, &str); 2] = [
    (ClientConfigKey::ConnectTimeout, "5 seconds"),
    (ClientConfigKey::Timeout, "60 seconds"),
];
/// A file that failed is sent again later. So requests are tried again only for a moment.
const RETRY: std::time::Duration = std::time::Duration::from_secs(5);

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
        let bounded = |builder: AmazonS3Builder, (key, time): (ClientConfigKey, &str)| {
            builder.with_config(AmazonS3ConfigKey::Client(key), time)
        };
        let store = BOUNDS
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
                self.store.put(&key, first.into()).await?;
                return Ok(());
            }
            let mut upload = self.store.put_multipart(&key).await?;
            let sent = parts(&mut *upload, first, file).await;
            if sent.is_err() {
                // Otherwise the store would keep the parts that came. It may be away by now.
                let _ = upload.abort().await;
            }
            sent
        })
    }
}

async fn parts(upload: &mut dyn MultipartUpload, first: Vec<u8>, mut file: File) -> io::Result<()> {
    let mut next = first;
    while !next.is_empty() {
        upload.put_part(next.into()).await?;
        next = part(&mut file)?;
    }
    upload.complete().await?;
    Ok(())
}

/// The next part of a file, empty at its end.
fn part(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(PART).read_to_end(&mut bytes)?;
    Ok(bytes)
}
