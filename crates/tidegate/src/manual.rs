//! What the program says of itself: columns, completions, manual pages.

use std::fs;
use std::io::{self, Write};

use anyhow::Context;
use clap::CommandFactory;
use tidegate_dataset::Origin;
use tidegate_lab::rows::{
    LabConnectionRow, LabElementRow, LabFlowRow, LabPointRow, LabSampleRow, LabTransferRow,
    LabWindowRow,
};
use tidegate_table::Row;
use tidegate_trace::rows::{ClientRow, FlowRow, PacketRow, PairRow, SegmentRow};

use crate::cli::{Cli, Columns, Completions, Man, Rows};
use crate::exit::Exit;
use crate::output::Output;

pub fn columns(options: &Columns) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    let list = match options.by {
        Rows::Segment => list::<SegmentRow>,
        Rows::Flow => list::<FlowRow>,
        Rows::Client => list::<ClientRow>,
        Rows::Packet => list::<PacketRow>,
        Rows::Dataset => list::<Origin>,
        Rows::Pair => list::<PairRow>,
        Rows::LabPoint => list::<LabPointRow>,
        Rows::LabFlow => list::<LabFlowRow>,
        Rows::LabWindow => list::<LabWindowRow>,
        Rows::LabElement => list::<LabElementRow>,
        Rows::LabSample => list::<LabSampleRow>,
        Rows::LabTransfer => list::<LabTransferRow>,
        Rows::LabConnection => list::<LabConnectionRow>,
        #[cfg(target_os = "linux")]
        Rows::LabKernel => list::<tidegate_testbed::LabKernelRow>,
        #[cfg(target_os = "linux")]
        Rows::ShellWindow => list::<tidegate_testbed::shell::ShellWindowRow>,
        #[cfg(target_os = "linux")]
        Rows::ShellElement => list::<tidegate_testbed::shell::ShellElementRow>,
    };
    list(&mut out, options.markdown)?;
    out.commit()?;
    Ok(Exit::Done)
}

fn list<R: Row>(out: &mut Output, markdown: bool) -> io::Result<()> {
    let columns = R::columns();
    if markdown {
        writeln!(
            out,
            "A row is {}.\n\n| Column | Type | Unit | Meaning |\n|---|---|---|---|",
            R::TITLE
        )?;
        for column in columns {
            let (name, kind) = (column.name, format!("{:?}", column.kind).to_lowercase());
            writeln!(
                out,
                "| `{name}` | {kind} | {} | {} |",
                column.unit, column.doc
            )?;
        }
    } else {
        let width = columns
            .iter()
            .map(|column| column.name.len())
            .max()
            .unwrap_or(0);
        for column in columns {
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!("[{}] ", column.unit)
            };
            writeln!(out, "{:width$}  {unit}{}", column.name, column.doc)?;
        }
    }
    Ok(())
}

pub fn completions(options: &Completions) -> anyhow::Result<Exit> {
    let mut out = Output::stdout();
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "tidegate", &mut script);
    out.write_all(&script)?;
    out.commit()?;
    Ok(Exit::Done)
}

pub fn man(options: &Man) -> anyhow::Result<Exit> {
    let mut command = Cli::command();
    command.build();
    match &options.dir {
        None => {
            let mut out = Output::stdout();
            clap_mangen::Man::new(command).render(&mut out)?;
            out.commit()?;
        }
        Some(folder) => {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot write to {}", folder.display()))?;
            clap_mangen::generate_to(command, folder)
                .with_context(|| format!("cannot write to {}", folder.display()))?;
        }
    }
    Ok(Exit::Done)
}
