//! The desk for JavaScript.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wasm_bindgen::prelude::*;

use crate::{Desk, Files, Live, Reply};

#[wasm_bindgen]
extern "C" {
    /// Copies bytes of a file that the worker holds; returns how many. The worker defines it.
    #[wasm_bindgen(catch, js_namespace = globalThis, js_name = tidegateRead)]
    fn read_file(capture: u32, offset: f64, into: &mut [u8]) -> Result<u32, JsValue>;

    /// Whether the rest of the file is on its way, and nothing of it is here yet. The worker defines it.
    #[wasm_bindgen(js_namespace = globalThis, js_name = tidegateWaits)]
    fn waits() -> bool;

    /// Tells the page what share of a long task is done. It answers whether it wants to see more.
    #[wasm_bindgen(js_namespace = globalThis, js_name = tidegateProgress)]
    fn tell_progress(share: f64) -> bool;

    /// Shows the page a simulation that runs.
    #[wasm_bindgen(js_namespace = globalThis, js_name = tidegateLive)]
    fn show_live(told: &str, numbers: js_sys::Array);
}

impl Dropped {
    fn resume(&self) {
        self.pauses.store(false, Ordering::Relaxed);
    }
}

/// The files that a person dropped on the page.
#[derive(Default)]
struct Dropped {
    /// Asked after every frame, so it is kept on this side.
    pauses: Arc<AtomicBool>,
}

impl Files for Dropped {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(DroppedFile {
            capture,
            offset: 0,
            pauses: Arc::clone(&self.pauses),
        }))
    }

    fn pauses(&self) -> bool {
        self.pauses.load(Ordering::Relaxed)
    }

    fn progress(&self, share: f64) -> bool {
        tell_progress(share)
    }

    fn show(&self, live: Live) {
        let numbers = live.numbers.iter();
        let numbers = numbers.map(|numbers| js_sys::Float64Array::from(&numbers[..]));
        show_live(&live.told, numbers.collect());
    }
}

struct DroppedFile {
    capture: u32,
    offset: u64,
    pauses: Arc<AtomicBool>,
}

impl Read for DroppedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = read_file(self.capture, self.offset as f64, buffer);
        let count = count.map_err(|error| io::Error::other(text(&error)))?;
        self.offset += u64::from(count);
        self.pauses.store(waits(), Ordering::Relaxed);
        Ok((count as usize).min(buffer.len()))
    }
}

/// What an exception of JavaScript says.
fn text(error: &JsValue) -> String {
    let said = error.as_string();
    said.unwrap_or_else(|| "the browser cannot read the file".to_owned())
}

/// Answers the page.
#[wasm_bindgen]
pub struct Engine {
    desk: Desk<Dropped>,
}

#[wasm_bindgen]
impl Engine {
    /// An engine that has read nothing.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript calls it")]
    pub fn new() -> Self {
        Self {
            desk: Desk::new(Dropped::default()),
        }
    }

    /// Begins to read a capture, whose file the worker holds.
    ///
    /// # Errors
    /// What is wrong, as a sentence for people.
    pub fn begin(&mut self, capture: u32, name: String) -> Result<(), JsValue> {
        Ok(self.desk.begin(capture, name)?)
    }

    /// Reads on, until the worker has to wait for the file. At the end of the capture the answer is its report in JSON.
    pub fn proceed(&mut self) -> Option<String> {
        self.desk.files().resume();
        self.desk.proceed()
    }

    /// Answers a request in JSON with a text, an array of numbers or bytes, or throws a sentence.
    ///
    /// # Errors
    /// What is wrong, as a sentence for people.
    pub fn answer(&mut self, request: &str) -> Result<JsValue, JsValue> {
        match self.desk.answer(request) {
            Ok(Reply::Text(text)) => Ok(text.into()),
            Ok(Reply::Numbers(numbers)) => Ok(js_sys::Float64Array::from(&numbers[..]).into()),
            Ok(Reply::Bytes(bytes)) => Ok(js_sys::Uint8Array::from(&bytes[..]).into()),
            Err(error) => Err(error.into()),
        }
    }
}
