//! Files of videos.

use tidegate_serve::media::{Media, Prefix};

/// Headers of videos: any bytes as the beginning of a file, which may be longer than they are.
pub fn media(data: &[u8]) {
    for length in [data.len() as u64, 1 << 40, u64::MAX] {
        let prefix = Prefix {
            bytes: data,
            length,
        };
        match Media::probe(&prefix) {
            Ok(media) => {
                assert!(!media.duration.is_zero());
                assert!(media.rate().bits_per_second() > 0);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
