//! Generates Rust code from the types in an object's debug information (BTF): a module for each
//! structure with the place of each field, and a constant for each name of an enumeration.

use std::fmt::Write;
use std::path::Path;

use libbpf_rs::btf::types::{Array, Composite, Enum, Int, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize};

/// The text of a module, which needs `Field` and `Array` beside it.
pub fn generate(object: &Path) -> String {
    let btf = Btf::from_path(object).expect("debug information");
    let mut text = String::new();
    for found in btf.type_by_kind::<Struct<'_>>() {
        let Some(name) = text_of(found.name()) else {
            continue;
        };
        writeln!(text, "/// `struct {name}`.\npub mod {name} {{").expect("text");
        writeln!(text, "    use super::{{Array, Field}};").expect("text");
        writeln!(text, "    pub const SIZE_OF: usize = {};", found.size()).expect("text");
        members(&btf, found.into(), 0, &mut text);
        text.push_str("}\n");
    }
    for found in btf.type_by_kind::<Enum<'_>>() {
        let names: Vec<_> = found.iter().collect();
        for member in &names {
            let (name, value) = (text_of(member.name).expect("a name"), member.value);
            writeln!(text, "pub const {name}: usize = {value};").expect("text");
        }
        if let Some(name) = text_of(found.name()) {
            let lower = names.iter().filter_map(|member| text_of(member.name));
            let lower: Vec<_> = lower.map(|name| name.to_lowercase()).collect();
            let (constant, length) = (name.to_uppercase(), lower.len());
            writeln!(text, "/// The names of `enum {name}`, in small letters.").expect("text");
            writeln!(
                text,
                "pub const {constant}_NAMES: [&str; {length}] = {lower:?};"
            )
            .expect("text");
        }
    }
    text
}

/// Writes the fields of a structure or union. Fields of a structure without a name belong to the
/// structure that contains it.
fn members(btf: &Btf<'_>, found: Composite<'_>, base: usize, text: &mut String) {
    for member in found.iter() {
        let MemberAttr::Normal { offset } = member.attr else {
            panic!("{:?} is a bit field", member.name);
        };
        let at = base + offset as usize / 8;
        let of: BtfType<'_> = btf.type_by_id(member.ty).expect("a type");
        let of = of.skip_mods_and_typedefs();
        let Some(name) = text_of(member.name) else {
            members(btf, Composite::try_from(of).expect("a structure"), at, text);
            continue;
        };
        let name = name.to_uppercase();
        if let Some(rust) = value(of) {
            writeln!(
                text,
                "    pub const {name}: Field<{rust}> = Field::at({at});"
            )
            .expect("text");
        } else {
            let (stride, length) = structures(of);
            let array = format!("Array {{ at: {at}, stride: {stride}, length: {length} }}");
            writeln!(text, "    pub const {name}: Array = {array};").expect("text");
        }
    }
}

/// The Rust type of an integer or of an array of them; `None` for structures and arrays of these.
fn value(found: BtfType<'_>) -> Option<String> {
    if let Ok(int) = Int::try_from(found) {
        let signed = matches!(int.encoding, libbpf_rs::btf::types::IntEncoding::Signed);
        return Some(format!("{}{}", if signed { 'i' } else { 'u' }, int.bits));
    }
    let array = Array::try_from(found).ok()?;
    let element = value(array.contained_type().skip_mods_and_typedefs())?;
    Some(format!("[{element}; {}]", array.capacity()))
}

/// Size and number of the structures in an array of any number of dimensions. A single structure
/// counts as one.
fn structures(found: BtfType<'_>) -> (usize, usize) {
    if let Ok(one) = Composite::try_from(found) {
        return (one.size(), 1);
    }
    let array = Array::try_from(found).expect("an array");
    let (size, length) = structures(array.contained_type().skip_mods_and_typedefs());
    (size, length * array.capacity())
}

fn text_of(name: Option<&std::ffi::OsStr>) -> Option<&str> {
    name.and_then(std::ffi::OsStr::to_str)
        .filter(|name| !name.is_empty())
}
