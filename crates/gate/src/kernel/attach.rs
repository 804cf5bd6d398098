//! Programs on interfaces. The name of a pin says what it is: hook, direction and interface.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, Program, TC_EGRESS, TC_INGRESS, TcHook};
use nix::net::if_::{if_indextoname, if_nametoindex};

use super::sys::{self, LinkTarget};
use super::{KernelError, TcKind, content, load};
use crate::table::{Attachment, Direction, Hook};

const HOOKS: [(Hook, &str); 6] = [
    (Hook::TcIngress, "tci"),
    (Hook::TcEgress, "tce"),
    (Hook::XdpNative, "xdp"),
    (Hook::XdpGeneric, "xdpg"),
    (Hook::NatIngress, "nati"),
    (Hook::NatEgress, "nate"),
];

fn hex(interface: &str) -> String {
    interface
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The name of a pin. The BPF file system allows no dots, which names of interfaces may contain.
fn name_of(attachment: &Attachment, how: &str) -> String {
    let hook = HOOKS.iter().find(|(hook, _)| *hook == attachment.hook);
    let hook = hook.map_or("", |&(_, name)| name);
    let direction = attachment.direction.name();
    let interface = hex(&attachment.interface);
    [how, hook, direction, &interface].join("-")
}

fn parse(name: &str) -> Option<Attachment> {
    let mut parts = name.split('-').skip(1);
    let (hook, direction, hex) = (parts.next()?, parts.next()?, parts.next()?);
    let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let interface: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    Some(Attachment {
        interface: String::from_utf8(interface?).ok()?,
        hook: HOOKS.iter().find(|(_, name)| *name == hook)?.0,
        direction: Direction::BOTH
            .into_iter()
            .find(|one| one.name() == direction)?,
    })
}

fn path_of(pins: &Path, attachment: &Attachment, how: &str) -> PathBuf {
    pins.join("links").join(name_of(attachment, how))
}

fn failed(what: &'static str, attachment: &Attachment) -> impl Fn(io::Error) -> KernelError {
    let interface = attachment.interface.clone();
    move |source| KernelError::Attach {
        what,
        interface: interface.clone(),
        source,
    }
}

/// Programs for packets down and up, with a link layer and without.
const TC: [&str; 4] = ["tc_down", "tc_up", "tc_down_ip", "tc_up_ip"];
const XDP: [&str; 4] = ["xdp_down", "xdp_up", "xdp_down_ip", "xdp_up_ip"];

/// What the kernel runs at a hook, and where.
fn place_of(attachment: &Attachment) -> Result<([&'static str; 4], LinkTarget), KernelError> {
    Ok(match attachment.hook {
        Hook::TcIngress => (TC, LinkTarget::TcxIngress),
        Hook::TcEgress => (TC, LinkTarget::TcxEgress),
        Hook::NatIngress => (content::NAT, LinkTarget::TcxIngress),
        Hook::NatEgress => (content::NAT, LinkTarget::TcxEgress),
        Hook::XdpNative => (XDP, LinkTarget::XdpNative),
        Hook::XdpGeneric => (XDP, LinkTarget::XdpGeneric),
        Hook::DpdkIngress | Hook::DpdkEgress => {
            return Err(KernelError::NoHook(attachment.hook.name()));
        }
    })
}

pub(super) fn program_of(attachment: &Attachment) -> Result<&'static str, KernelError> {
    let ethernet = sys::is_ethernet(&attachment.interface)
        .map_err(failed("reading the link layer", attachment))?;
    let (all, _) = place_of(attachment)?;
    let up = usize::from(attachment.direction == Direction::Up);
    Ok(all[up + 2 * usize::from(!ethernet)])
}

/// The names of all programs.
pub(super) fn programs() -> Vec<&'static str> {
    [TC, XDP, content::NAT].concat()
}

/// Whether a gate with other pins is attached by tcx at a place. At XDP, and with filters, the kernel refuses
/// a second one. Names of programs need CAP_SYS_ADMIN; without it, this finds none.
fn is_taken(pins: &Path, interface: u32, place: LinkTarget) -> bool {
    let mut attached = sys::attached(interface, place);
    let ours = names(pins).filter_map(|name| {
        let link = Link::open(pins.join("links").join(name)).ok()?;
        Some(link.info().ok()?.prog_id)
    });
    let ours: Vec<u32> = ours.collect();
    attached.retain(|number| !ours.contains(number));
    let is_a_gate = |name: &str| TC.contains(&name) || content::NAT.contains(&name);
    !attached.is_empty()
        && ProgInfoIter::default()
            .any(|info| attached.contains(&info.id) && is_a_gate(&info.name.to_string_lossy()))
}

pub(super) fn attach(
    pins: &Path,
    attachment: &Attachment,
    tc: TcKind,
    beside: bool,
) -> Result<(), KernelError> {
    let interface = if_nametoindex(attachment.interface.as_str())
        .map_err(|_| KernelError::Interface(attachment.interface.clone()))?;
    for how in ["link", "clsact"] {
        let path = path_of(pins, attachment, how);
        if path.exists() {
            if is_live(&path, how, attachment) {
                return Err(KernelError::Attached(attachment.interface.clone()));
            }
            // This pin belongs to an interface that is gone, or that came back.
            let _ = fs::remove_file(path);
            let live = |(pinned, how): (Attachment, String)| {
                how == "clsact"
                    && pinned.interface == attachment.interface
                    && is_live(&path_of(pins, &pinned, &how), &how, &pinned)
            };
            if !pinned(pins).into_iter().any(live) {
                let _ = fs::remove_file(marker(pins, attachment));
            }
        }
    }
    let program = load::program(pins, program_of(attachment)?)?;
    let (_, place) = place_of(attachment)?;
    let at_tc = !attachment.hook.is_xdp();
    if at_tc && !beside && is_taken(pins, interface, place) {
        return Err(KernelError::OtherGate(attachment.interface.clone()));
    }
    if !at_tc || tc != TcKind::Clsact {
        match sys::link(program.as_fd(), interface, place) {
            Ok(link) => {
                let path = path_of(pins, attachment, "link");
                return sys::pin(link.as_fd(), &path)
                    .map_err(failed("pinning a program", attachment));
            }
            // The kernel has no tcx.
            Err(error)
                if at_tc
                    && tc == TcKind::Best
                    && matches!(
                        error.raw_os_error(),
                        Some(nix::libc::EINVAL | nix::libc::EOPNOTSUPP)
                    ) => {}
            Err(source) => return Err(failed("attaching a program", attachment)(source)),
        }
    }
    // A filter holds its program, but does not say who made it. The pin does.
    let path = path_of(pins, attachment, "clsact");
    sys::pin(program.as_fd(), &path).map_err(failed("pinning a program", attachment))?;
    let attached = sys::make_clsact(interface).and_then(|is_new| {
        if is_new {
            let _ = fs::remove_file(marker(pins, attachment));
            sys::pin(program.as_fd(), &marker(pins, attachment))?;
        }
        let mut hook = described(program.as_fd(), interface, attachment);
        hook.attach().map_err(io::Error::other)
    });
    attached.map(drop).map_err(|error| {
        let _ = fs::remove_file(path);
        remove_unused(pins, interface, attachment);
        failed("attaching a filter", attachment)(error)
    })
}

/// Has another program of this name take the packets where the pinned one does, at once. `spare` is a path for pins on their
/// way.
pub(super) fn replace(
    pins: &Path,
    name: &str,
    program: BorrowedFd<'_>,
    spare: &Path,
) -> Result<(), KernelError> {
    for (attachment, how) in pinned(pins) {
        let path = path_of(pins, &attachment, &how);
        let Some(present) = present_name(&path, &how, &attachment) else {
            continue;
        };
        let there = Attachment {
            interface: present,
            ..attachment.clone()
        };
        if program_of(&there)? != name {
            continue;
        }
        let replaced = match how.as_str() {
            "link" => Link::open(&path)
                .map_err(io::Error::other)
                .and_then(|link| sys::replace(link.as_fd(), program)),
            _ => replace_filter(&attachment, program).and_then(|()| {
                // These pins hold the former program.
                let mut pins = [path, marker(pins, &attachment)].into_iter();
                pins.try_for_each(|pin| repin(program, &pin, spare))
            }),
        };
        replaced.map_err(failed("replacing a program", &attachment))?;
    }
    Ok(())
}

fn replace_filter(attachment: &Attachment, program: BorrowedFd<'_>) -> io::Result<()> {
    let interface = if_nametoindex(attachment.interface.as_str())?;
    let mut hook = described(program, interface, attachment);
    hook.replace(true);
    hook.attach().map(drop).map_err(io::Error::other)
}

/// Pins a program in place of another one.
fn repin(program: BorrowedFd<'_>, path: &Path, spare: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let _ = fs::remove_file(spare);
    sys::pin(program, spare)?;
    fs::rename(spare, path)
}

/// Handle and priority of the gate's filters.
const HANDLE: u32 = 0x71de;
const PRIORITY: u32 = 0x71d;

fn described(program: BorrowedFd<'_>, interface: u32, attachment: &Attachment) -> TcHook {
    let mut hook = TcHook::new(program);
    hook.ifindex(interface as i32)
        .attach_point(match attachment.hook {
            Hook::TcEgress | Hook::NatEgress => TC_EGRESS,
            _ => TC_INGRESS,
        })
        .handle(HANDLE + u32::from(attachment.direction == Direction::Up))
        .priority(PRIORITY);
    hook
}

/// The pin that says that the gate made the queueing discipline of an interface.
fn marker(pins: &Path, attachment: &Attachment) -> PathBuf {
    let hex = hex(&attachment.interface);
    pins.join("links").join(format!("qdisc-{hex}"))
}

/// The present name of the interface that a program is still on. An interface may have come back without
/// it, and a filter goes with its queueing discipline. A link knows the interface's number, so it is found
/// under another name too; a filter is looked for under the name that it was attached by.
fn present_name(path: &Path, how: &str, attachment: &Attachment) -> Option<String> {
    let named = || if_nametoindex(attachment.interface.as_str()).ok();
    let number = if how == "link" {
        let link = Link::open(path).and_then(|link| link.info()).ok()?;
        match link.info {
            libbpf_rs::query::LinkTypeInfo::Tcx(tcx) => tcx.ifindex,
            libbpf_rs::query::LinkTypeInfo::Xdp(xdp) => xdp.ifindex,
            _ => named()?,
        }
    } else {
        let number = named()?;
        let program = Program::fd_from_pinned_path(path).ok()?;
        let filter = described(program.as_fd(), number, attachment).query();
        filter.is_ok().then_some(number)?
    };
    // Links of interfaces that are gone have number 0, for which nix gives an empty name.
    let name = if_indextoname(number).ok()?.into_string().ok()?;
    (!name.is_empty()).then_some(name)
}

fn is_live(path: &Path, how: &str, attachment: &Attachment) -> bool {
    present_name(path, how, attachment).is_some()
}

pub(super) fn detach(pins: &Path, attachment: &Attachment) -> Result<(), KernelError> {
    let path = path_of(pins, attachment, "link");
    if path.exists() {
        // Other processes may have the link open, so it is detached explicitly.
        let link = Link::open(&path).map_err(|source| KernelError::pin(&path, source))?;
        let detached = link.detach();
        fs::remove_file(&path).map_err(|source| KernelError::pin(&path, source))?;
        return detached
            .map_err(|source| failed("detaching a program", attachment)(io::Error::other(source)));
    }
    let path = path_of(pins, attachment, "clsact");
    if path.exists() {
        let program = Program::fd_from_pinned_path(&path)
            .map_err(|source| KernelError::pin(&path, source))?;
        fs::remove_file(&path).map_err(|source| KernelError::pin(&path, source))?;
        if let Ok(interface) = if_nametoindex(attachment.interface.as_str()) {
            let mut hook = described(program.as_fd(), interface, attachment);
            let detached = hook.detach();
            // Another program may have removed it already, with its queueing discipline or alone.
            let gone = detached.is_err() && hook.query().is_err();
            remove_unused(pins, interface, attachment);
            if !gone {
                detached.map_err(|source| {
                    failed("detaching a filter", attachment)(io::Error::other(source))
                })?;
            }
        }
    }
    Ok(())
}

/// Removes the queueing discipline of an interface, if the gate made it and has no filter left on it.
fn remove_unused(pins: &Path, interface: u32, attachment: &Attachment) {
    let path = marker(pins, attachment);
    let ours = |name: &str| {
        name.starts_with("clsact-")
            && parse(name).is_some_and(|other| other.interface == attachment.interface)
    };
    if path.exists() && !names(pins).any(|name| ours(&name)) {
        let _ = fs::remove_file(path);
        let _ = sys::remove_clsact(interface);
    }
}

fn names(pins: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(pins.join("links"))
        .into_iter()
        .flatten()
        .flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Everything that is pinned, and how, whether it is still on its interface or not.
fn pinned(pins: &Path) -> Vec<(Attachment, String)> {
    let mut all: Vec<_> = names(pins)
        .filter_map(|name| {
            let attachment = parse(&name)?;
            Some((attachment, name.split('-').next()?.to_owned()))
        })
        .collect();
    all.sort_by(|(one, _), (other, _)| {
        (&one.interface, one.hook as u8).cmp(&(&other.interface, other.hook as u8))
    });
    all
}

/// What is attached now, and the present name of its interface.
pub(super) fn attachments(pins: &Path) -> Vec<(Attachment, String)> {
    let all = pinned(pins).into_iter();
    all.filter_map(|(attachment, how)| {
        let name = present_name(&path_of(pins, &attachment, &how), &how, &attachment)?;
        Some((attachment, name))
    })
    .collect()
}

/// Detaches everything that is pinned.
pub(super) fn detach_all(pins: &Path) -> Result<(), KernelError> {
    let mut result = Ok(());
    for (attachment, _) in pinned(pins) {
        result = result.and(detach(pins, &attachment));
    }
    result
}
