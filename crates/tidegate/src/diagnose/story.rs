//! A diagnosis as text.

use std::io::{self, Write};

use tidegate_story::between::told;

use super::Account;
use crate::table::Paint;

pub(super) fn write(out: &mut impl Write, account: &Account, paint: Paint) -> io::Result<()> {
    let told = told(&account.names, &account.diagnosis);
    let painted = if told.alarming {
        paint.alarm(&told.headline)
    } else {
        paint.bold(&told.headline)
    };
    writeln!(out, "{painted}\n")?;
    for line in &told.captures {
        writeln!(out, "{line}")?;
    }
    if let Some(clocks) = &told.clocks {
        writeln!(out, "{clocks}")?;
    }
    for way in &told.ways {
        writeln!(out, "\n{}", paint.bold(&way.heading))?;
        for (name, text) in &way.lines {
            writeln!(out, "  {name:<13} {text}")?;
        }
    }
    Ok(())
}
