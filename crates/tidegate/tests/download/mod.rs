//! Downloads of the lab, and what `tidegate explain` tells of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::program::run;

/// A download of 2 MB through a bottleneck, seen where it is sent.
const DOWNLOAD: &str = r#"
title = "a download"
duration = "12s"
[[element]]
name = "server"
kind = "tap"
[[element]]
name = "line"
kind = "link"
rate = "100mbit"
queue = "1MB"
[[flow]]
name = "seen"
cc = "cubic"
path = ["server", "line", "bottleneck"]
"#;
pub const BULK: &str = r#"traffic = { kind = "video", chunk = "2MB", chunks = 1, pause = "1s" }"#;
pub const SEES_BOTH_WAYS: &str = r#"back = ["server"]"#;

/// A capture of a download: keys of its flow, and of its bottleneck.
pub struct Captured {
    folder: tempfile::TempDir,
    pub path: PathBuf,
}

impl Captured {
    pub fn new(flow: &[&str], bottleneck: &str) -> Self {
        let scenario = format!(
            "{DOWNLOAD}{}\n[[element]]\nname = \"bottleneck\"\n{bottleneck}\n",
            flow.join("\n")
        );
        Self::at("server", &scenario)
    }

    /// What a tap of a scenario saw.
    pub fn at(tap: &str, scenario: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("download.toml");
        fs::write(&file, scenario).expect("written");
        let results = folder.path().join("results");
        let text = |path: &Path| path.to_str().expect("text").to_owned();
        let (code, _, err) = run(&["lab", "run", &text(&file), "-o", &text(&results)]);
        assert_eq!(code, 0, "{err}");
        let path = results.join(format!("{tap}.pcap"));
        assert!(path.exists());
        Self { folder, path }
    }

    pub fn explain(&self, options: &[&str]) -> String {
        let path = self.path.to_str().expect("text");
        let mut arguments = vec!["explain", path];
        arguments.extend(options);
        let (code, out, err) = run(&arguments);
        assert_eq!((code, err.as_str()), (0, ""));
        out
    }

    /// The story, the fields and the picture, each checked for what must hold for all.
    pub fn told(&self) -> Told {
        let picture = self.folder.path().join("picture.svg");
        let picture = picture.to_str().expect("text");
        let story = self.explain(&["--svg", picture]);
        let json = self.explain(&["--json"]);
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let svg = fs::read_to_string(picture).expect("the picture");
        for jargon in [
            "held against",
            "nats",
            "R²",
            "code ",
            "tokens on loss",
            "-3004",
            "−3004",
            "NaN",
            "inf ",
        ] {
            assert!(!story.contains(jargon), "{jargon} in {story}");
        }
        let lost = json["transfer"]["lost_packets"].as_u64().expect("a number");
        let too_few = story.to_lowercase().contains("too few losses");
        assert!(lost > 0 || !too_few, "{story}");
        for title in [
            "What to do",
            "Evidence",
            "What the capture does not tell",
            "Figures",
        ] {
            assert!(
                story.contains(&format!("\n{title}\n")),
                "{title} in {story}"
            );
        }
        let headline = json["headline"].as_str().expect("text");
        assert_eq!(story.lines().next(), Some(headline));
        assert!(
            headline.ends_with('.') && headline.len() < 200,
            "{headline}"
        );
        assert!(svg.contains("sequence number") && svg.ends_with("</svg>\n"));
        let told = Told { story, json, svg };
        told.advises_all();
        told.weighs_all();
        told
    }
}

/// What `explain` says: in words, in fields, and in a picture.
pub struct Told {
    pub story: String,
    pub json: Value,
    pub svg: String,
}

impl Told {
    pub fn says(&self, parts: &[&str]) -> &Self {
        // Line breaks are the terminal's affair.
        let story: Vec<&str> = self.story.split_whitespace().collect();
        let story = story.join(" ");
        for part in parts {
            assert!(story.contains(part), "{part} in {}", self.story);
        }
        self
    }

    /// The panels that are there, and those that are not.
    pub fn shows(&self, shown: &[&str], hidden: &[&str]) -> &Self {
        for title in shown {
            assert!(self.svg.contains(&format!(">{title}")), "{title}");
        }
        for title in hidden {
            assert!(!self.svg.contains(&format!(">{title}")), "{title}");
        }
        self
    }

    fn advises_all(&self) {
        let advice = self.json["advice"].as_array().expect("a list");
        for party in ["operator", "provider", "user"] {
            let is_given = advice.iter().any(|advice| advice["party"] == party);
            assert!(is_given, "{party} in {}", self.story);
        }
    }

    /// Each hypothesis is the verdict or a part of it, is left, or has a sentence that says why not.
    fn weighs_all(&self) {
        let names = |list: &str, key: &str| -> Vec<String> {
            let list = self.json[list].as_array().expect("a list");
            let name = |value: &Value| value.get(key).unwrap_or(value).as_str().map(str::to_owned);
            list.iter().filter_map(name).collect()
        };
        let mut weighed = names("ruled_out", "cause");
        weighed.extend(names("left", "cause"));
        weighed.extend(names("shares", "cause"));
        weighed.push(self.verdict().to_owned());
        for cause in [
            "policer",
            "queue",
            "aqm",
            "shaper-burst",
            "random-loss",
            "receive-window",
            "application",
            "sender",
            "round-trips",
        ] {
            assert!(
                weighed.iter().any(|name| name == cause),
                "{cause} in {}",
                self.story
            );
        }
    }

    pub fn verdict(&self) -> &str {
        self.json["verdict"].as_str().expect("text")
    }
}
