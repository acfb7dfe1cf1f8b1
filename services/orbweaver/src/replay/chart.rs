//! Chart of rate and memory over a run, as an SVG file.

use std::{fmt::Write as _, fs, io, path::Path};

/// Figures at one time of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the start.
    pub(super) at: f64,
    /// URLs so far.
    pub(super) urls: u64,
    /// Resident memory, in bytes.
    pub(super) rss_bytes: u64,
}

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 240.0;
const MARGIN: f64 = 60.0;

/// Draws the samples into a file.
pub(super) fn write(path: &Path, title: &str, samples: &[Sample]) -> io::Result<()> {
    let fresh = path.with_extension("svg.new");
    fs::write(&fresh, draw(title, samples))?;
    fs::rename(fresh, path)
}

#[allow(clippy::cast_precision_loss, reason = "a picture")]
fn draw(title: &str, samples: &[Sample]) -> String {
    let rates = samples.windows(2).map(|pair| {
        let seconds = (pair[1].at - pair[0].at).max(1e-9);
        (pair[1].urls as f64 / 1e6, (pair[1].urls - pair[0].urls) as f64 / seconds / 1e3)
    });
    let memory = samples.iter().map(|sample| (sample.urls as f64 / 1e6, sample.rss_bytes as f64 / 1e6));
    let (width, height) = (WIDTH + 2.0 * MARGIN, 2.0 * (HEIGHT + MARGIN) + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"16\">{title}</text>\n"
    );
    panel(&mut svg, MARGIN, "thousand URLs per second", "#1f6fb2", &rates.collect::<Vec<_>>());
    panel(&mut svg, HEIGHT + 2.0 * MARGIN, "resident memory, MB", "#b2471f", &memory.collect::<Vec<_>>());
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, top: f64, name: &str, colour: &str, points: &[(f64, f64)]) {
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max).max(1e-9);
    let (x_most, y_most) =
        (most(&mut points.iter().map(|point| point.0)), most(&mut points.iter().map(|point| point.1)));
    let mut line = String::new();
    for (x, y) in points {
        let _ = write!(line, "{:.1},{:.1} ", MARGIN + x / x_most * WIDTH, top + HEIGHT - y / y_most * HEIGHT);
    }
    let (right, bottom) = (MARGIN + WIDTH, top + HEIGHT);
    let _ = write!(
        svg,
        "<path d=\"M{MARGIN},{top}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\n\
         <polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n\
         <text x=\"{MARGIN}\" y=\"{}\">{name}</text>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{y_most:.0}</text>\n\
         <text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{x_most:.1} million URLs</text>\n",
        top - 6.0,
        MARGIN - 6.0,
        top + 12.0,
        MARGIN - 6.0,
        bottom + 18.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_a_point_a_sample_and_holds_no_nonsense_when_there_are_few() {
        for count in [0, 1, 50] {
            let sample = |n: u32| Sample { at: f64::from(n), urls: u64::from(n) * 1000, rss_bytes: 1 << 20 };
            let svg = draw("replay", &(0..count).map(sample).collect::<Vec<_>>());
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("<polyline").count(), 2);
            let points = svg.split("points=\"").nth(2).unwrap().split('"').next().unwrap();
            assert_eq!(points.split_whitespace().count(), count as usize);
        }
    }
}
