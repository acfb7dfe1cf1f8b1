//! Demo web: a field guide, a diary and a workshop about orb-weaving spiders. Three named hosts, three sites.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::reply::Reply;
use crate::text::MONTHS;
use crate::web::Asked;

const GUIDE: &str = "www.orb-weavers.localhost";
const DIARY: &str = "www.meadow-diary.localhost";
const WORKSHOP: &str = "www.silk-workshop.localhost";

/// Species, scientific name and habitat.
const SPECIES: &[(&str, &str, &str)] = &[
    ("Garden cross spider", "Araneus diadematus", "hedges and window frames"),
    ("Four-spot orb weaver", "Araneus quadratus", "tall grass"),
    ("Marbled orb weaver", "Araneus marmoreus", "damp woodland edges"),
    ("Angular orb weaver", "Araneus angulatus", "old orchards"),
    ("Wasp spider", "Argiope bruennichi", "sunny meadows"),
    ("Banded garden spider", "Argiope trifasciata", "dry grassland"),
    ("Lobed argiope", "Argiope lobata", "warm scrub"),
    ("Yellow garden spider", "Argiope aurantia", "vegetable gardens"),
    ("Bridge spider", "Larinioides sclopetarius", "bridges and lamp posts"),
    ("Furrow spider", "Larinioides cornutus", "reeds by the water"),
    ("Walnut orb weaver", "Nuctenea umbratica", "loose bark"),
    ("Missing sector orb weaver", "Zygiella x-notata", "window frames"),
    ("Cucumber green spider", "Araniella cucurbitina", "leaves of lime and oak"),
    ("Long-jawed orb weaver", "Tetragnatha extensa", "rushes"),
    ("European cave spider", "Meta menardi", "cellars and caves"),
    ("Autumn spider", "Metellina segmentata", "low shrubs"),
    ("Cricket-bat spider", "Mangora acalypha", "heather"),
    ("Tree-stump spider", "Cyclosa conica", "shaded conifers"),
    ("Gorse orb weaver", "Agalenatea redii", "gorse and dead flower heads"),
    ("Strawberry spider", "Araneus alsine", "birch and willow"),
    ("Golden silk orb weaver", "Trichonephila clavipes", "warm forest clearings"),
    ("Spiny orb weaver", "Gasteracantha cancriformis", "citrus groves"),
    ("Labyrinth orb weaver", "Metepeira labyrinthea", "open oak woods"),
    ("Feather-legged spider", "Uloborus walckenaerius", "heath"),
];

/// Silks and their purposes.
const SILKS: &[(&str, &str)] = &[
    ("Dragline silk", "the safety line and the frame of the web"),
    ("Capture spiral silk", "the sticky turns that stop an insect"),
    ("Auxiliary spiral silk", "the scaffold that the builder walks on"),
    ("Attachment silk", "the cement that fixes a thread to a leaf"),
    ("Wrapping silk", "the broad bands that a catch is swathed in"),
    ("Egg sac silk", "the tough cover that lasts the winter"),
    ("Aggregate glue", "the droplets along the spiral"),
];

const STEPS: &[&str] = &[
    "The bridge line",
    "The proto-hub",
    "Frame and radii",
    "Counting the radii",
    "The hub",
    "The auxiliary spiral",
    "The capture spiral",
    "The free zone",
    "The signal thread",
    "The stabilimentum",
    "Repair after rain",
    "Eating the web",
];

/// Small web held in memory.
#[derive(Debug)]
pub(crate) struct Demo {
    port: u16,
    pages: HashMap<(&'static str, String), String>,
}

impl Demo {
    /// Creates the demo web as served on `port`.
    pub(crate) fn new(port: u16) -> Self {
        let mut demo = Self { port, pages: HashMap::new() };
        demo.add_guide();
        demo.add_diary();
        demo.add_workshop();
        demo
    }

    /// Returns the URL at which a crawl starts.
    pub(crate) fn start_url(&self) -> String {
        self.url(GUIDE, "/")
    }

    /// Answers a request.
    pub(crate) fn answer(&self, asked: &Asked<'_>) -> Reply {
        let name = asked.host.rsplit_once(':').map_or(asked.host, |(name, _)| name).to_ascii_lowercase();
        let Some(host) = [GUIDE, DIARY, WORKSHOP].into_iter().find(|host| *host == name) else {
            return Reply::plain(421, "this host is not served here\n");
        };
        match asked.target {
            "/robots.txt" => Reply::plain(200, "User-agent: *\nDisallow: /drafts/\n"),
            "/home" => Reply::redirect(301, "/".into()),
            target => match self.pages.get(&(host, target.to_owned())) {
                Some(page) => Reply::html(page.clone()),
                None => Reply::not_found(),
            },
        }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// Adds a page with a title, a text and links (address, text).
    fn add(&mut self, (host, path): (&'static str, String), title: &str, text: &str, links: &[(String, String)]) {
        let mut list = String::new();
        for (href, label) in links {
            let _ = writeln!(list, "<li><a href=\"{href}\">{label}</a></li>");
        }
        let page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
             <meta name=\"description\" content=\"{title}\"></head>\n<body>\n\
             <nav><a href=\"{}\">Field guide</a> <a href=\"{}\">Diary</a> <a href=\"{}\">Workshop</a></nav>\n\
             <main>\n<h1>{title}</h1>\n{text}\n<ul>\n{list}</ul>\n</main>\n</body>\n</html>\n",
            self.url(GUIDE, "/"),
            self.url(DIARY, "/"),
            self.url(WORKSHOP, "/"),
        );
        self.pages.insert((host, path), page);
    }

    fn add_guide(&mut self) {
        let mut index = Vec::new();
        for (number, (name, latin, place)) in SPECIES.iter().enumerate() {
            let (dir, next) = (slug(name), slug(SPECIES[(number + 1) % SPECIES.len()].0));
            index.push((format!("species/{dir}/"), (*name).to_owned()));
            let silk = SILKS[number % SILKS.len()].0;
            let links = [
                ("web.html".into(), format!("The web of {latin}")),
                ("sightings.html".into(), "Where it was seen".into()),
                (format!("../{next}/"), "The next species".into()),
                (self.url(WORKSHOP, &format!("/silk/{}.html", slug(silk))), silk.to_owned()),
            ];
            let text = format!("<p>The {} (<i>{latin}</i>) is met in {place}.</p>", name.to_lowercase());
            self.add((GUIDE, format!("/species/{dir}/")), name, &text, &links);
            let step = STEPS[number % STEPS.len()];
            let text =
                format!("<p>Look for the web of <i>{latin}</i> in {place}, early, while there is dew on it.</p>");
            let links = [
                ("./".into(), (*name).to_owned()),
                (self.url(WORKSHOP, &format!("/web/{}.html", slug(step))), step.to_owned()),
            ];
            self.add((GUIDE, format!("/species/{dir}/web.html")), &format!("The web of {latin}"), &text, &links);
            let month = MONTHS[(number + 6) % MONTHS.len()];
            let text = format!("<p>Most notes on <i>{latin}</i> are from {month}.</p>");
            let links = [
                ("./".into(), (*name).to_owned()),
                (self.url(DIARY, &format!("/{}/", slug(month))), format!("The diary of {month}")),
            ];
            let title = format!("{name}: sightings");
            self.add((GUIDE, format!("/species/{dir}/sightings.html")), &title, &text, &links);
        }
        index.push(("/home".into(), "The old address".into()));
        index.push(("/drafts/key.html".into(), "A draft key, not for robots".into()));
        index.push(("/lost.html".into(), "A page that was lost".into()));
        let text = "<p>A field guide to the spiders that weave round webs.</p>";
        self.add((GUIDE, "/".into()), "Orb weavers: a field guide", text, &index);
        self.add((GUIDE, "/drafts/key.html".into()), "A draft key", "<p>Not finished.</p>", &[]);
    }

    fn add_diary(&mut self) {
        let mut index = Vec::new();
        for (number, month) in MONTHS.iter().enumerate() {
            index.push((format!("/{}/", slug(month)), (*month).to_owned()));
            let weeks: Vec<_> =
                (1..=5).map(|week| (format!("week-{week}.html"), format!("Week {week} of {month}"))).collect();
            let text = format!("<p>Sightings on the meadow in {month}, week by week.</p>");
            self.add((DIARY, format!("/{}/", slug(month))), &format!("Meadow diary: {month}"), &text, &weeks);
            for week in 1..=5 {
                let (name, latin, place) = SPECIES[(number * 5 + week) % SPECIES.len()];
                let text = format!("<p>Week {week} of {month}: a walk to look for <i>{latin}</i> in {place}.</p>");
                let links = [
                    ("./".into(), (*month).to_owned()),
                    (self.url(GUIDE, &format!("/species/{}/", slug(name))), name.to_owned()),
                ];
                let title = format!("{month}, week {week}");
                self.add((DIARY, format!("/{}/week-{week}.html", slug(month))), &title, &text, &links);
            }
        }
        let text = "<p>A year on one meadow, written down by the week.</p>";
        self.add((DIARY, "/".into()), "Meadow diary", text, &index);
    }

    fn add_workshop(&mut self) {
        let mut index = Vec::new();
        for (number, (silk, purpose)) in SILKS.iter().enumerate() {
            let path = format!("/silk/{}.html", slug(silk));
            index.push((path.clone(), (*silk).to_owned()));
            let species: Vec<_> = SPECIES.iter().skip(number).step_by(SILKS.len()).collect();
            let links: Vec<_> = species
                .iter()
                .map(|(name, ..)| (self.url(GUIDE, &format!("/species/{}/", slug(name))), (*name).to_owned()))
                .collect();
            self.add((WORKSHOP, path), silk, &format!("<p>{silk} is {purpose}.</p>"), &links);
        }
        for (number, step) in STEPS.iter().enumerate() {
            let path = format!("/web/{}.html", slug(step));
            index.push((path.clone(), (*step).to_owned()));
            let mut links: Vec<_> =
                (1..=3).map(|trial| (format!("trial-{number}-{trial}.html"), format!("Trial {trial}"))).collect();
            links.push((format!("{}.html", slug(STEPS[(number + 1) % STEPS.len()])), "The next step".into()));
            self.add(
                (WORKSHOP, path),
                step,
                &format!("<p>{step}: how a round web is made, step {}.</p>", number + 1),
                &links,
            );
            for trial in 1..=3 {
                let text = format!("<p>Trial {trial} with thread and a wooden frame: {}.</p>", step.to_lowercase());
                let links = [(format!("{}.html", slug(step)), (*step).to_owned())];
                let path = format!("/web/trial-{number}-{trial}.html");
                self.add((WORKSHOP, path), &format!("{step}: trial {trial}"), &text, &links);
            }
        }
        let text = "<p>Silk, thread and geometry, tried by hand.</p>";
        self.add((WORKSHOP, "/".into()), "Silk workshop", text, &index);
    }
}

fn slug(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_page_of_the_demo_is_reached_and_one_link_is_dead() {
        let demo = Demo::new(8080);
        let href = regex::Regex::new("href=\"([^\"]+)\"").unwrap();
        let start = url::Url::parse(&demo.start_url()).unwrap();
        let (mut seen, mut todo) = (HashSet::from([start.clone()]), vec![start]);
        let (mut pages, mut dead) = (0, Vec::new());
        while let Some(url) = todo.pop() {
            let host = format!("{}:8080", url.host_str().unwrap());
            let reply = demo.answer(&Asked { host: &host, target: url.path(), ..Asked::default() });
            match reply.status {
                200 => pages += 1,
                301 => {}
                _ => dead.push(url.clone()),
            }
            for found in href.captures_iter(&String::from_utf8(reply.body).unwrap()) {
                let link = url.join(&found[1]).unwrap();
                if seen.insert(link.clone()) {
                    todo.push(link);
                }
            }
        }
        assert_eq!(dead.iter().map(url::Url::path).collect::<Vec<_>>(), ["/lost.html"]);
        assert_eq!(pages, demo.pages.len());
        assert_eq!(pages, 203);
    }
}
