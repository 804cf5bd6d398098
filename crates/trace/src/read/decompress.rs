//! Decompression: gzip, xz and zstd, by their C libraries or without C.

use std::io::{self, BufReader, Cursor, Read};

/// The largest dictionary that a compressed capture may ask for (xz -9 uses 64 MiB, zstd --ultra
/// 128 MiB), so that a hostile header cannot ask for gigabytes.
#[cfg(any(feature = "xz", feature = "xz-rust"))]
const MAX_DICTIONARY: u64 = 256 << 20;
#[cfg(feature = "zstd")]
const MAX_ZSTD_WINDOW_LOG: u32 = 27;

/// Wraps the input in the decompressor that its first bytes ask for.
pub(super) fn decompress(
    mut input: Box<dyn Read + Send>,
) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut magic = [0u8; 6];
    let mut have = 0;
    while have < magic.len() {
        match input.read(&mut magic[have..]) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let whole = Cursor::new(magic).take(have as u64).chain(input);
    Ok(match magic {
        [0x1f, 0x8b, ..] => (
            Box::new(flate2::bufread::MultiGzDecoder::new(buffered(whole))),
            true,
        ),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => (xz(whole)?, true),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (zstd(whole)?, true),
        _ => (Box::new(whole), false),
    })
}

#[cfg(feature = "xz")]
fn xz(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    use liblzma::{bufread::XzDecoder, stream};
    let stream = stream::Stream::new_stream_decoder(MAX_DICTIONARY, stream::CONCATENATED)?;
    Ok(Box::new(XzDecoder::new_stream(buffered(input), stream)))
}

#[cfg(feature = "zstd")]
fn zstd(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered(input))?;
    decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
    Ok(Box::new(decoder))
}

#[cfg(all(feature = "xz-rust", not(feature = "xz")))]
fn xz(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let limit = (MAX_DICTIONARY >> 10) as u32;
    let reader = lzma_rust2::XzReader::new_mem_limit(buffered(input), true, limit);
    Ok(Box::new(Pieces(reader)))
}

/// Reads a little at a time: a decoder that meets damage keeps back what the same call decoded before it.
#[cfg(all(feature = "xz-rust", not(feature = "xz")))]
struct Pieces<R>(R);

#[cfg(all(feature = "xz-rust", not(feature = "xz")))]
impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(4096);
        self.0.read(&mut buffer[..most])
    }
}

#[cfg(all(feature = "zstd-rust", not(feature = "zstd")))]
fn zstd(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(super::zstd::Frames::new(buffered(input))))
}

#[cfg(not(any(feature = "xz", feature = "xz-rust")))]
fn xz(_: impl Read) -> io::Result<Box<dyn Read + Send>> {
    Err(unsupported("xz", "xz -d"))
}

#[cfg(not(any(feature = "zstd", feature = "zstd-rust")))]
fn zstd(_: impl Read) -> io::Result<Box<dyn Read + Send>> {
    Err(unsupported("zstd", "zstd -d"))
}

#[cfg(not(all(
    any(feature = "xz", feature = "xz-rust"),
    any(feature = "zstd", feature = "zstd-rust")
)))]
fn unsupported(format: &str, command: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "compressed with {format}, which this build cannot read: decompress it first with `{command}`"
        ),
    )
}

fn buffered<R: Read>(input: R) -> BufReader<R> {
    BufReader::with_capacity(64 << 10, input)
}
