//! Programs of another version of tidegate stay in the kernel when a package is updated. Those of this version replace them.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::Program;

use super::{KernelError, attach, content, load};
use crate::path::Renewal;

/// The pinned programs that are not of this version.
pub(super) fn outdated(pins: &Path) -> Vec<&'static str> {
    let mut names = attach::programs();
    names.retain(|name| content::is_outdated(pins, name));
    names
}

/// Replaces these programs. The maps stay, and each packet meets the old program or the new one.
pub(super) fn renew(pins: &Path) -> Renewal {
    let mut renewal = Renewal::default();
    for name in outdated(pins) {
        match replace(pins, name) {
            Ok(()) => renewal.replaced.push(name.to_owned()),
            Err(error) => renewal.kept.push(format!("{name} ({error})")),
        }
    }
    renewal
}

/// Replaces a program wherever it is. If the process is killed, the next one does all of it again: the note comes last.
fn replace(pins: &Path, name: &str) -> Result<(), KernelError> {
    let path = content::pin_of(pins, name);
    let [new, spare] =
        ["new", "spare"].map(|what| content::pin_of(pins, &format!("{name}_{what}")));
    let _ = fs::remove_file(&new);
    load::load_program(pins, name, &new)?;
    let program =
        Program::fd_from_pinned_path(&new).map_err(|source| KernelError::pin(&new, source))?;
    let replaced = attach::replace(pins, name, program.as_fd(), &spare);
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced?;
    fs::rename(&new, &path).map_err(|source| KernelError::pin(&path, source))?;
    content::note(pins, name);
    Ok(())
}
