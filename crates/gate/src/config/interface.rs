//! The interfaces where packets are taken.

use std::collections::HashMap;

use super::fields::Fields;
use super::keys::INTERFACE;
use super::problem::Sink;
use crate::table::{Attachment, Direction, Hook};

/// All places where packets are taken.
pub(super) fn attachments<'a>(f: &Fields<'a>, sink: &'a Sink) -> Vec<Attachment> {
    let directions = Direction::BOTH.map(|direction| (direction.name(), direction));
    let mut found: Vec<Attachment> = Vec::new();
    let mut names: HashMap<&str, ()> = HashMap::new();
    let nodes = f.tables("interface");
    if nodes.is_empty() && f.node("interface").is_none() {
        f.missing("interface");
    }
    for node in nodes {
        let Some(f) = Fields::new(node, "an interface", &[INTERFACE], sink) else {
            continue;
        };
        let Some(name) = f.text("name") else {
            if f.node("name").is_none() {
                f.missing("name");
            }
            continue;
        };
        // IFNAMSIZ is 16 with the zero behind; the kernel refuses these characters.
        let good = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
        if name.is_empty()
            || name.len() > 15
            || [".", ".."].contains(&name)
            || !name.chars().all(good)
        {
            f.wrong_key("name", format!("'{name}' cannot be an interface's name"));
            continue;
        }
        if names.insert(name, ()).is_some() {
            f.wrong_key(
                "name",
                format!("the interface {name} is listed twice: give it all its keys in one place"),
            );
            continue;
        }
        // auto is tc: it works everywhere, and leaves a driver's offloads alone.
        let hooks = [
            ("auto", Hook::TcIngress),
            ("tc", Hook::TcIngress),
            ("xdp", Hook::XdpNative),
            ("xdp-generic", Hook::XdpGeneric),
        ];
        let hook = f.word("hook", &hooks).unwrap_or(Hook::TcIngress);
        let sides = [("core", Direction::Down), ("access", Direction::Up)];
        let side = f.word("side", &sides);
        let ingress = f.word("ingress", &directions);
        let egress = f.word("egress", &directions);
        let nat = f.truth("nat").unwrap_or(false);
        if f.node("side").is_some() && (f.node("ingress").is_some() || f.node("egress").is_some()) {
            f.wrong_key(
                "side",
                "`side` says it all: leave out `ingress` and `egress`, or `side`",
            );
            continue;
        }
        if ["side", "ingress", "egress"]
            .iter()
            .all(|key| f.node(key).is_none())
        {
            f.missing("side");
        }
        if egress.is_some() && hook != Hook::TcIngress {
            f.wrong_key("egress", "XDP sees only what comes in: use the hook `tc`, or limit this direction where it comes in");
        }
        if ingress.is_some() && ingress == egress {
            f.wrong_key(
                "egress",
                "what comes in and what goes out cannot both be the same direction",
            );
        }
        let (comes, goes) = (side.or(ingress), egress);
        if nat && hook != Hook::TcIngress {
            f.wrong_key("nat", "XDP sees packets before the kernel can say which connection they belong to: use the hook `tc`");
        }
        if nat && (comes == Some(Direction::Up) || goes == Some(Direction::Down)) {
            f.wrong_key("nat", "`nat` is for the interface with the public address: packets to subscribers come in there (side = \"core\", or ingress = \"down\" and egress = \"up\")");
        }
        let mut add = |hook, direction| {
            found.push(Attachment {
                interface: name.to_owned(),
                hook,
                direction,
            });
        };
        if let Some(direction) = comes {
            add(if nat { Hook::NatIngress } else { hook }, direction);
        }
        if let Some(direction) = goes {
            let hook = if nat { Hook::NatEgress } else { Hook::TcEgress };
            add(hook, direction);
        }
    }
    found
}
