//! The one schema of Tidegate's results: what a row holds, what each column means, and how rows
//! become CSV, JSON or Parquet.

mod column;
mod flow;
mod lab;
#[cfg(target_os = "linux")]
mod lab_kernel;
mod packet;
mod segment;
mod write;

pub use column::{Column, Kind, Value};
pub use flow::FlowRow;
pub use lab::{
    LabElementRow, LabFlowRow, LabPointRow, LabSampleRow, LabTransferRow, LabWindowRow, Simulation,
};
#[cfg(target_os = "linux")]
pub use lab_kernel::LabKernelRow;
pub use packet::PacketRow;
pub use segment::SegmentRow;
pub use write::{Format, Writer};

/// Something that has columns.
pub trait Row: Sized + 'static {
    /// What a row is, for people.
    const TITLE: &'static str;

    /// Its columns, in order.
    fn columns() -> &'static [Column<Self>];
}
