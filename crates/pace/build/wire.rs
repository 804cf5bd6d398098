//! Rust for the headers of this crate: their constants and structures. The Rust compiler asserts every size and offset,
//! and `check` compares them with the layout that clang gives the same header.

use std::fmt::Write;

/// A header that both sides share.
pub struct Header {
    pub path: &'static str,
    /// What its constants' names begin with.
    prefix: &'static str,
    /// Its structures, and their names in Rust; later ones may hold earlier ones.
    structures: &'static [(&'static str, &'static str)],
}

/// What the program in the kernel shares with the library.
pub const PROGRAM: Header = Header {
    path: "bpf/pace.h",
    prefix: "PACE_",
    structures: &[("pace_request", "Request"), ("pace", "Record")],
};

/// What the library shares with programs in C.
pub const LIBRARY: Header = Header {
    path: "include/tidegate_pace.h",
    prefix: "TIDEGATE_PACE_",
    structures: &[
        ("tidegate_pace_target", "CTarget"),
        ("tidegate_pace_stats", "CStats"),
    ],
};

impl Header {
    pub fn read(&self) -> String {
        println!("cargo:rerun-if-changed={}", self.path);
        std::fs::read_to_string(self.path).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }
}

/// A structure of the header.
pub struct Structure {
    pub name: &'static str,
    rust: &'static str,
    pub fields: Vec<Field>,
    pub size: usize,
}

/// A field of a structure, and its place in bytes.
pub struct Field {
    pub name: String,
    rust: &'static str,
    pub at: usize,
    size: usize,
}

/// The structures of the header, which have nothing but numbers of 32 and 64 bits and each other in them.
pub fn structures(of: &Header, header: &str) -> Vec<Structure> {
    let path = of.path;
    let mut all: Vec<Structure> = Vec::new();
    for &(name, rust) in of.structures {
        let (_, body) = header
            .split_once(&format!("struct {name} {{"))
            .unwrap_or_else(|| panic!("{path} has no struct {name}"));
        let (body, _) = body.split_once("\n};").expect("the structure ends");
        let (mut fields, mut end, mut align) = (Vec::new(), 0_usize, 1);
        for line in body.lines().filter(|line| line.contains(';')) {
            let (declared, _) = line.split_once(';').expect("one field a line");
            let (kind, field) = declared.trim().rsplit_once(' ').expect("type and name");
            let (rust, size, alignment) = match kind {
                "__u32" | "uint32_t" => ("u32", 4, 4),
                "__u64" | "uint64_t" => ("u64", 8, 8),
                _ => {
                    let held = all
                        .iter()
                        .find(|held| kind == format!("struct {}", held.name));
                    let held = held.unwrap_or_else(|| panic!("{path}: {kind} in {name}"));
                    (held.rust, held.size, 8)
                }
            };
            let at = end.next_multiple_of(alignment);
            (end, align) = (at + size, align.max(alignment));
            fields.push(Field {
                name: field.to_owned(),
                rust,
                at,
                size,
            });
        }
        all.push(Structure {
            name,
            rust,
            fields,
            size: end.next_multiple_of(align),
        });
    }
    all
}

/// Asserts that the program's structures are the same as these.
#[cfg(feature = "clamp")]
pub fn check(structures: &[Structure], object: &std::path::Path) {
    use libbpf_rs::HasSize;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};

    let btf = Btf::from_path(object).expect("the program has debug information");
    for structure in structures {
        let found: Struct<'_> = btf
            .type_by_name(structure.name)
            .expect("the program uses it");
        assert_eq!(found.size(), structure.size, "struct {}", structure.name);
        assert_eq!(found.iter().count(), structure.fields.len());
        for (member, field) in found.iter().zip(&structure.fields) {
            assert_eq!(member.name, Some(field.name.as_ref()));
            let at = match member.attr {
                MemberAttr::Normal { offset } => offset as usize / 8,
                MemberAttr::BitField { .. } => panic!("{} is a bit field", field.name),
            };
            assert_eq!(at, field.at, "{} of struct {}", field.name, structure.name);
        }
    }
}

/// The text of a module: the header's constants and structures.
pub fn generate(of: &Header, header: &str, structures: &[Structure]) -> String {
    let mut text = constants(of, header);
    for structure in structures {
        write(structure, &mut text);
    }
    text
}

/// The header's constants, and assertions for structures that are written in Rust.
pub fn mirror(of: &Header) -> String {
    let header = of.read();
    let each = structures(of, &header);
    let each: String = each.iter().map(asserts).collect();
    constants(of, &header) + &each
}

/// A constant for each `#define PREFIX_NAME number` and `PREFIX_NAME = number,`.
fn constants(of: &Header, header: &str) -> String {
    let mut text = String::new();
    for line in header.lines() {
        let line = line.trim();
        let defined = line.strip_prefix("#define ").unwrap_or(line);
        let Some((name, rest)) = defined.split_once(' ') else {
            continue;
        };
        let Some(name) = name.strip_prefix(of.prefix) else {
            continue;
        };
        let value = rest.trim_start_matches("= ");
        let value = value.split([' ', ',', '\t']).next().unwrap_or_default();
        let digits = value.trim_end_matches(['u', 'l']);
        let rust = match &value[digits.len()..] {
            "" if line.contains(" = ") => "u32",
            "" => "i32",
            "u" => "u32",
            "ull" => "u64",
            other => panic!("{}: {name} ends in {other}", of.path),
        };
        writeln!(
            text,
            "/// See `{}`.\npub(crate) const {name}: {rust} = {digits};",
            of.path
        )
        .expect("text");
    }
    text
}

/// Assertions that a structure in Rust is as in the header.
fn asserts(structure: &Structure) -> String {
    let Structure {
        rust: of,
        fields,
        size,
        ..
    } = structure;
    let each = fields.iter().map(|Field { name, at, .. }| {
        format!("    assert!(std::mem::offset_of!({of}, {name}) == {at});\n")
    });
    let each: String = each.collect();
    format!("const _: () = {{\n    assert!(size_of::<{of}>() == {size});\n{each}}};\n")
}

/// A structure with its fields, and its conversion to and from bytes.
fn write(structure: &Structure, text: &mut String) {
    let Structure {
        rust: of,
        fields,
        size,
        ..
    } = structure;
    let each = |line: &dyn Fn(&Field) -> String| fields.iter().map(line).collect::<String>();
    let declared = each(&|field| format!("    pub(crate) {}: {},\n", field.name, field.rust));
    let asserts = asserts(structure);
    let is_integer = |field: &Field| field.rust.starts_with('u');
    let to_bytes = each(&|field| {
        let Field { name, at, size, .. } = field;
        let call = if is_integer(field) {
            "to_ne_bytes"
        } else {
            "bytes"
        };
        let end = at + size;
        format!("        bytes[{at}..{end}].copy_from_slice(&self.{name}.{call}());\n")
    });
    let of_bytes = each(&|field| {
        let Field { name, rust, at, .. } = field;
        let call = if is_integer(field) {
            "from_ne_bytes"
        } else {
            "read"
        };
        let bytes = format!("*bytes[{at}..].first_chunk().expect(\"as many bytes\")");
        format!("            {name}: {rust}::{call}({bytes}),\n")
    });
    write!(
        text,
        "/// See `bpf/pace.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct {of} {{
{declared}}}

{asserts}
impl {of} {{
    /// As the program has it in memory.
    pub(crate) fn bytes(&self) -> [u8; {size}] {{
        let mut bytes = [0; {size}];
{to_bytes}        bytes
    }}

    /// Of the program's memory.
    pub(crate) fn read(bytes: [u8; {size}]) -> Self {{
        Self {{
{of_bytes}        }}
    }}
}}
"
    )
    .expect("text");
}
