//! Tidegate for Python. `tidegate/_native.pyi` describes what is here; the modules in Python beside it are what users import.

mod arrow;
mod capsule;
mod cover;
mod explain;
mod lab;
mod limiter;
mod problem;
mod reading;
mod rows;
mod source;
mod table;
mod wait;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<rows::Batch>()?;
    module.add_class::<rows::Batches>()?;
    module.add_class::<rows::Tables>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(rows::read, module)?)?;
    module.add_function(wrap_pyfunction!(explain::explain, module)?)?;
    module.add_function(wrap_pyfunction!(lab::run, module)?)?;
    module.add_function(wrap_pyfunction!(lab::examples, module)?)?;
    module.add_function(wrap_pyfunction!(limiter::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(cover::cover, module)?)?;
    module.add_function(wrap_pyfunction!(source::captures_in, module)?)?;
    module.add_function(wrap_pyfunction!(source::named_like_a_capture, module)?)?;
    module.add_function(wrap_pyfunction!(keep_memory, module)?)
}

#[pyfunction]
fn keep_memory() {
    tidegate_trace::keep_memory();
}
