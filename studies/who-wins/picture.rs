//! The winners as one picture: a panel for each bottleneck, a field for each round trip and buffer.

use std::fmt::{Error, Write as _};

use super::{BOTTLENECKS, BUFFERS, Grid, RTTS, SENDERS};

/// Colours of the senders, distinct for colour-blind readers too [Okabe and Ito 2008].
const COLOURS: [&str; SENDERS.len()] = [
    "#999999", "#0072b2", "#d55e00", "#f0e442", "#cc79a7", "#009e73", "#e69f00",
];
const FIELD: (usize, usize) = (66, 40);
const LEFT: usize = 70;
const TOP: usize = 70;
const GAP: usize = 84;

/// The picture. A field has the colour of its winner, the fuller the larger the share, and names both.
pub fn svg(found: &[Grid]) -> Result<String, Error> {
    let (panel_width, panel_height) = (FIELD.0 * RTTS.len(), FIELD.1 * BUFFERS.len());
    let columns = 3;
    let width = LEFT + columns * (panel_width + GAP);
    let height = TOP + found.len().div_ceil(columns) * (panel_height + GAP + 14) + 10;
    let mut out = String::new();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\">\n<title>The sender with the largest share behind each bottleneck</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
    )?;
    for (index, (name, colour)) in SENDERS.iter().zip(COLOURS).enumerate() {
        let x = LEFT + index * 90;
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"14\" width=\"14\" height=\"14\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"26\">{name}</text>",
            x + 20
        )?;
    }
    for (index, (bottleneck, grid)) in BOTTLENECKS.iter().zip(found).enumerate() {
        let x = LEFT + index % columns * (panel_width + GAP);
        let y = TOP + index / columns * (panel_height + GAP + 14);
        writeln!(
            out,
            "<text x=\"{x}\" y=\"{}\" font-weight=\"bold\">{}</text>",
            y - 10,
            bottleneck.name
        )?;
        for (row, (cells, buffer)) in grid.iter().zip(BUFFERS).enumerate() {
            let top = y + row * FIELD.1;
            writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} BDP</text>",
                x - 5,
                top + FIELD.1 / 2 + 4,
                buffer as f64 / 100.0
            )?;
            for (column, cell) in cells.iter().enumerate() {
                let (winner, share) = cell.winner();
                let (name, colour) = winner.map_or(("even", "#dddddd"), |winner| {
                    (SENDERS[winner], COLOURS[winner])
                });
                let left = x + column * FIELD.0;
                writeln!(
                    out,
                    "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{:.2}\" \
                     stroke=\"#ffffff\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
                     <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.0} %</text>",
                    FIELD.0,
                    FIELD.1,
                    colour,
                    0.15 + 0.7 * share,
                    left + FIELD.0 / 2,
                    top + 17,
                    name,
                    left + FIELD.0 / 2,
                    top + 32,
                    share * 100.0
                )?;
            }
        }
        for (column, rtt) in RTTS.iter().enumerate() {
            writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{rtt} ms</text>",
                x + column * FIELD.0 + FIELD.0 / 2,
                y + panel_height + 16
            )?;
        }
    }
    writeln!(out, "</svg>")?;
    Ok(out)
}
