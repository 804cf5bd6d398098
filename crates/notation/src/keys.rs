//! Keys of files, each described once: for checking, for `schema` commands, for the documentation.

/// A key of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What its values are.
    pub value: &'static str,
    /// The value if it is not written; empty if the key is needed.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

impl Key {
    /// The default as a line of TOML, where it is a value and not a description such as `the last`.
    pub fn written_default(&self) -> Option<String> {
        // An address with a number in place of its last part is a description too.
        let described =
            ["", "none", "never"].contains(&self.default) || self.default.ends_with(".N");
        let is_policy = self.default.starts_with('{');
        if described || (self.default.contains(' ') && !is_policy) {
            return None;
        }
        let bare = is_policy
            || self.default.starts_with('[')
            || ["true", "false"].contains(&self.default)
            || self.default.parse::<f64>().is_ok();
        let quotes = if bare { "" } else { "\"" };
        Some(format!("{} = {quotes}{}{quotes}", self.name, self.default))
    }
}

/// The keys of a table of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// The table, and the kind where that decides.
    pub name: &'static str,
    /// What the table is.
    pub doc: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// Names a [`Section`]: its constant, its table and what that is; then its keys, each with its values,
/// default and meaning. `use PATH;` in place of a key takes one that several sections share.
#[macro_export]
macro_rules! section {
    (@keys [$($done:expr,)*]) => {
        &[$($done),*]
    };
    (@keys [$($done:expr,)*] use $key:path; $($rest:tt)*) => {
        $crate::section!(@keys [$($done,)* $key,] $($rest)*)
    };
    (@keys [$($done:expr,)*] $key:literal: $value:literal, $default:literal, $doc:literal; $($rest:tt)*) => {
        $crate::section!(
            @keys
            [$($done,)* $crate::Key { name: $key, value: $value, default: $default, doc: $doc },]
            $($rest)*
        )
    };
    ($constant:ident = $name:literal, $about:literal; $($keys:tt)*) => {
        pub(super) const $constant: $crate::Section = $crate::Section {
            name: $name,
            doc: $about,
            keys: $crate::section!(@keys [] $($keys)*),
        };
    };
}

/// Every key, as in the documentation.
pub fn markdown(sections: &[Section]) -> String {
    let mut text = String::new();
    for (number, section) in sections.iter().enumerate() {
        let space = if number > 0 { "\n" } else { "" };
        let Section { name, doc, keys } = section;
        text += &format!("{space}### `{name}`\n\n{doc}\n\n");
        text += "| Key | Value | Default | Meaning |\n|---|---|---|---|\n";
        for key in *keys {
            let default = match key.default {
                "" => "needed".to_owned(),
                default => format!("`{default}`"),
            };
            let Key {
                name, value, doc, ..
            } = key;
            text += &format!("| `{name}` | {value} | {default} | {doc} |\n");
        }
    }
    text
}
