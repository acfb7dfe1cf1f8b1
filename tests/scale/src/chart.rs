//! Charts as SVG, readable in light and dark, and numbers as text.

use std::fmt::Write as _;

const STYLE: &str = "<style>.b{fill:#fff}text{font:12px sans-serif;fill:#24292f}.t{font-weight:bold}.g{stroke:#8c959f;\
stroke-width:1;opacity:.5}.s0{fill:#0969da}.s1{fill:#bc4c00}.s2{fill:#1a7f37}.s3{fill:#8250df}\
.l{fill:none;stroke-width:2}.l0{stroke:#0969da}.l1{stroke:#bc4c00}.l2{stroke:#1a7f37}.l3{stroke:#8250df}\
@media(prefers-color-scheme:dark){.b{fill:#0d1117}text{fill:#c9d1d9}.s0{fill:#58a6ff}.s1{fill:#f0883e}.s2{fill:#3fb950}\
.s3{fill:#bc8cff}.l0{stroke:#58a6ff}.l1{stroke:#f0883e}.l2{stroke:#3fb950}.l3{stroke:#bc8cff}}</style>";
const WIDTH: usize = 760;
/// Width of the row labels of bars.
const LABELS: usize = 210;

fn start(title: &str, height: usize, series: &[&str]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n{STYLE}\n\
         <title>{title}</title><rect class=\"b\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"t\" x=\"12\" y=\"20\">{title}</text>\n"
    );
    let mut x = 12;
    for (color, name) in series.iter().enumerate() {
        let _ = writeln!(svg, "<rect class=\"s{color}\" x=\"{x}\" y=\"32\" width=\"10\" height=\"10\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"41\">{name}</text>", x + 15);
        x += 35 + name.len() * 13 / 2;
    }
    svg
}

/// Returns horizontal bars: per row one bar per series, with `label` of its value.
#[must_use]
pub fn bars(title: &str, series: &[&str], rows: &[(String, Vec<f64>)], label: impl Fn(f64) -> String) -> String {
    let step = series.len().max(1) * 14 + 12;
    let mut svg = start(title, 60 + rows.len() * step, series);
    let most = rows.iter().flat_map(|(_, values)| values).fold(f64::MIN_POSITIVE, |most, value| most.max(*value));
    for (row, (name, values)) in rows.iter().enumerate() {
        let top = 54 + row * step;
        let _ = writeln!(svg, "<text x=\"12\" y=\"{}\">{name}</text>", top + series.len() * 7 + 4);
        for (color, &value) in values.iter().enumerate() {
            let (y, width) = (top + color * 14, value / most * (WIDTH - LABELS - 90) as f64);
            let _ =
                write!(svg, "<rect class=\"s{color}\" x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" height=\"12\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\">{}</text>",
                LABELS as f64 + width + 5.0,
                y + 10,
                label(value)
            );
        }
    }
    svg + "</svg>\n"
}

/// Returns lines through ascending values, each spread over the width; the vertical axis begins at 0.
#[must_use]
pub fn lines(title: &str, below: &str, series: &[&str], values: &[Vec<f64>]) -> String {
    let (left, top, right, bottom) = (50.0, 60.0, 740.0, 330.0);
    let mut svg = start(title, 370, series);
    let most = values.iter().flatten().fold(1.0_f64, |most, value| most.max(*value)).ceil();
    for tick in 0..=most as usize {
        let y = bottom - tick as f64 / most * (bottom - top);
        let _ =
            writeln!(svg, "<path class=\"g\" d=\"M{left} {y:.1}H{right}\"/><text x=\"26\" y=\"{y:.1}\">{tick}</text>");
    }
    for (color, values) in values.iter().enumerate() {
        let last = values.len().max(2) - 1;
        let point = |(at, value): (usize, &f64)| {
            let x = left + at as f64 / last as f64 * (right - left);
            format!("{x:.1} {:.1}", bottom - value / most * (bottom - top))
        };
        let points: Vec<_> = values.iter().enumerate().map(point).collect();
        let _ = writeln!(svg, "<path class=\"l l{color}\" d=\"M{}\"/>", points.join("L"));
    }
    svg + &format!("<text x=\"{left}\" y=\"356\">{below}</text>\n</svg>\n")
}

/// Returns a number with a comma after each group of three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
