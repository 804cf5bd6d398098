//! The desk for JavaScript.

use std::io::{self, Read};

use wasm_bindgen::prelude::*;

use crate::{Desk, Files, Live, Reply};

#[wasm_bindgen]
extern "C" {
    /// Copies bytes of a file that the worker holds; returns how many. The worker defines it.
    #[wasm_bindgen(catch, js_namespace = globalThis, js_name = tidegateRead)]
    fn read_file(capture: u32, offset: f64, into: &mut [u8]) -> Result<u32, JsValue>;

    /// Tells the page what share of a long task is done. It answers whether it wants to see more.
    #[wasm_bindgen(js_namespace = globalThis, js_name = tidegateProgress)]
    fn tell_progress(share: f64) -> bool;

    /// Shows the page a simulation that runs.
    #[wasm_bindgen(js_namespace = globalThis, js_name = tidegateLive)]
    fn show_live(told: &str, numbers: js_sys::Array);
}

/// The files that a person dropped on the page.
struct Dropped;

impl Files for Dropped {
    fn open(&self, capture: u32) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(DroppedFile { capture, offset: 0 }))
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
}

impl Read for DroppedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = read_file(self.capture, self.offset as f64, buffer);
        let count = count.map_err(|error| io::Error::other(text(&error)))?;
        self.offset += u64::from(count);
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
            desk: Desk::new(Dropped),
        }
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
