//! Archives of web pages (HAR).

use tidegate_lab::page::{MOST_BYTES, MOST_OBJECTS, Page};

/// Any text is refused with a reason, or gives a page that a browser of the lab can visit: each object waits for an earlier one, and for
/// no more bytes than that has.
pub fn har(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let page = match Page::from_har(&text) {
        Ok(page) => page,
        Err(reason) => {
            assert!(!reason.is_empty());
            return;
        }
    };
    let objects = page.objects();
    assert!((1..=MOST_OBJECTS).contains(&objects.len()));
    for (index, object) in objects.iter().enumerate() {
        assert!((1..=MOST_BYTES).contains(&object.bytes) && object.request > 0);
        if let Some(after) = object.after {
            assert!(after.object < index && after.bytes <= objects[after.object].bytes);
        }
    }
    // The work and the delays are bounded, so that the times of a visit can be added.
    let delays = objects.iter().filter_map(|object| object.after);
    let delays = delays.map(|after| after.delay).chain([page.work()]);
    let waits = objects.iter().map(|object| object.wait);
    assert!(
        delays
            .chain(waits)
            .all(|time| time <= 2_000_000_000_000_000)
    );
    Page::new(objects.to_vec()).expect("a page of these objects");
}
