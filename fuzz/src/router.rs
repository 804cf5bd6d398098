//! Limits as routers write them.

use tidegate_advise::router::{self, Limit, Vendor};
use tidegate_advise::setting::{Kind, Setting};
use tidegate_limiter::Rate;

/// Any text is refused with its place, or gives a limit that can be simulated; what is written of it is read again.
pub fn router(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let found = match router::read(&text) {
        Ok(found) => found,
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
            return;
        }
    };
    assert!(Rate::LIMITABLE.contains(&found.rate));
    assert!((1..=text.lines().count()).contains(&found.line));
    let Limit::Policer { burst: Some(burst) } = found.limit else {
        return;
    };
    let setting = Setting {
        rate: found.rate,
        kind: Kind::Policer { burst },
        overhead: found.overhead,
    };
    let Some(line) = router::write(found.vendor, &setting) else {
        return;
    };
    let again = router::read(&line).expect("what is written is read");
    // Rates of nftables are whole bytes a second.
    if found.vendor != Vendor::Nft && burst > 0 {
        assert_eq!(
            (again.rate, again.limit),
            (found.rate, found.limit),
            "{line}"
        );
    }
}
