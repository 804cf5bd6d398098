//! The files of the page, in the program or in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// A page has few files. A folder with more is the wrong one.
const MOST_FILES: usize = 1000;

/// The files of the page by their paths. All are in memory, so that a request can name no other file.
pub struct Page {
    files: BTreeMap<String, Vec<u8>>,
}

impl Page {
    /// The page of a folder, or else the one in the program.
    ///
    /// # Errors
    /// The folder has no page, or the program was built without one.
    pub fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        match folder {
            Some(folder) => {
                read(folder, "", &mut files)?;
                if !files.contains_key("index.html") {
                    bail!(
                        "{}: there is no page here: `make web` builds it, in crates/web/page/dist",
                        folder.display()
                    );
                }
            }
            None if FILES.is_empty() => bail!(
                "this program was built without the page: run `make web` and build the program again, or name the \
                 folder of a page with --page"
            ),
            None => {
                let all = FILES.iter();
                files.extend(all.map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())));
            }
        }
        Ok(Self { files })
    }

    /// Tells the page what else this server has: `captures`, `gate`.
    pub fn tell(&mut self, serves: &[&str]) {
        if let Some(index) = self.files.get_mut("index.html")
            && !serves.is_empty()
        {
            let text = String::from_utf8_lossy(index);
            let serves = serves.join(" ");
            let mark = format!("<meta name=\"tidegate-serves\" content=\"{serves}\" />\n  </head>");
            *index = text.replacen("</head>", &mark, 1).into_bytes();
        }
    }

    /// Answers a request.
    pub fn answer(&self, method: &Method, path: &str) -> Response {
        if method != Method::GET && method != Method::HEAD {
            return (
                StatusCode::METHOD_NOT_ALLOWED,
                [(header::ALLOW, "GET, HEAD")],
            )
                .into_response();
        }
        let name = match path.strip_prefix('/') {
            Some("") | None => "index.html",
            Some(name) => name,
        };
        match self.files.get(name) {
            Some(bytes) => ([(header::CONTENT_TYPE, kind(name))], bytes.clone()).into_response(),
            None => (StatusCode::NOT_FOUND, "there is no such file\n").into_response(),
        }
    }
}

fn read(folder: &Path, before: &str, files: &mut BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
    let unreadable = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().with_context(unreadable)?;
        // Links could lead out of the folder.
        if name.starts_with('.') || kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            read(&entry.path(), &format!("{before}{name}/"), files)?;
        } else if files.len() < MOST_FILES {
            let bytes = fs::read(entry.path());
            let bytes = bytes.with_context(|| format!("cannot read {}", entry.path().display()))?;
            files.insert(format!("{before}{name}"), bytes);
        } else {
            bail!(
                "{}: more than {MOST_FILES} files: this is not the page",
                folder.display()
            );
        }
    }
    Ok(())
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
