//! Figures and tables of papers, measured again: a folder each, with the claim, the command and
//! what it prints. Here is what they share, and what their test calls.

#[path = "annotator-accuracy/accuracy.rs"]
pub mod accuracy;
#[path = "flach16-agreement/agreement.rs"]
pub mod agreement;
#[path = "bcpqp-figure4/rates.rs"]
pub mod bcpqp;
mod cores;
pub mod experiment;
pub mod lab;
pub mod schemes;
#[path = "flach16-table3/table3.rs"]
pub mod table3;
#[path = "flach16-table3-lab/table3_lab.rs"]
pub mod table3_lab;
#[path = "verdict/verdict.rs"]
pub mod verdict;
