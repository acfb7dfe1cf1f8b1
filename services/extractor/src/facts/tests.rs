use serde_json::{Value, json};
use url::Url;

use super::*;
use crate::{Extracted, PageInput, extract};

fn extracted(html: &str, headers: &[(String, String)]) -> Extracted {
    let url = Url::parse("http://a.test/d/page").unwrap();
    let input = PageInput { url: &url, site: None, content_type: None, headers, body: html.as_bytes() };
    extract(&input, &ExtractorConfig { facts: true, ..ExtractorConfig::default() })
}

fn facts(html: &str) -> Facts {
    *extracted(html, &[]).facts.unwrap()
}

fn json_ld(objects: &Value) -> String {
    format!("<script type=application/ld+json>{objects}</script>")
}

#[test]
fn facts_are_collected_on_request_only_and_change_nothing_else() {
    let html = "<meta property=og:title content=T><p itemscope><b itemprop=n>x</b> y<a href=/z title=t>z</a>";
    let url = Url::parse("http://a.test/").unwrap();
    let input = PageInput { url: &url, site: None, content_type: None, headers: &[], body: html.as_bytes() };
    let without = extract(&input, &ExtractorConfig::default());
    let with = extract(&input, &ExtractorConfig { facts: true, ..ExtractorConfig::default() });
    assert_eq!(without.facts, None);
    assert!(with.facts.is_some());
    assert_eq!(Extracted { facts: None, ..with }, without);
}

#[test]
fn meta_elements_are_in_order_with_repetitions() {
    let found = facts(
        "<meta property=og:image content=/1.png><meta name=' Keywords ' content='a,\n b'><meta charset=utf-8>
         <meta property=og:image content=/2.png><template><meta name=x content=y></template><meta name=z><meta content=w>",
    );
    let meta: Vec<_> = found.meta.iter().map(|meta| (&*meta.name, &*meta.content)).collect();
    assert_eq!(meta, [("og:image", "/1.png"), ("keywords", "a, b"), ("og:image", "/2.png")]);
}

#[test]
fn links_name_versions_in_other_languages_feeds_and_licences() {
    let found = facts(
        "<base href=/b/><link rel=alternate hreflang=de-AT href=de><link rel=alternate hreflang=x-default href=/>
         <link rel='alternate' type='application/rss+xml' href=feed title=' N  ews'><link rel=alternate hreflang=fr href=mailto:x>
         <link rel=license href=/l><a rel='nofollow License' href='//cc.test/by'>CC</a><a rel=license href=/l>again</a>",
    );
    let alternates: Vec<_> = found.alternates.iter().map(|found| (&*found.language, &*found.url)).collect();
    assert_eq!(alternates, [("de-AT", "http://a.test/b/de"), ("x-default", "http://a.test/")]);
    let feeds: Vec<_> = found.feeds.iter().map(|feed| (&*feed.url, &*feed.media_type, &*feed.title)).collect();
    assert_eq!(feeds, [("http://a.test/b/feed", "application/rss+xml", "N ews")]);
    assert_eq!(found.licenses, ["http://a.test/l", "http://cc.test/by"]);
}

#[test]
fn objects_of_json_ld_are_as_written_and_common_errors_around_them_are_removed() {
    let object = json!({"@type": "Thing", "name": "a", "n": 1.5, "list": [null, {"x": true}]});
    for script in [
        object.to_string(),
        format!("<!-- {object} -->"),
        format!("//<![CDATA[\n{object}\n//]]>"),
        format!("{object};"),
        object.to_string().replace("\"a\"", "\"a\n\"").replace(",\"n\"", ",\n\"n\""),
    ] {
        let found = facts(&format!("<script type='application/ld+json'>{script}</script>"));
        let mut found = found.json_ld[0].clone();
        let name = found["name"].as_str().unwrap().trim().to_owned();
        found.insert("name".to_owned(), Value::from(name));
        assert_eq!(Value::Object(found), object, "{script}");
    }
    let two = json_ld(&json!([object, 1, object]));
    assert_eq!(facts(&two).json_ld.len(), 2);
    assert_eq!(
        facts(&format!("<script>{object}</script><script type=application/ld+json>{{</script>{two}")).json_ld.len(),
        2
    );
}

#[test]
fn microdata_is_converted_as_the_standard_says() {
    // The example of WHATWG HTML 5.5.1, whose lists end their items by themselves.
    let found = facts(
        "<article itemscope itemtype='http://schema.org/BlogPosting' itemid='/id'><h1 itemprop='headline name'>Pro<b>gress</b></h1>
         <p><time itemprop=datePublished datetime=2013-08-29>today</time> <link itemprop=url href='?comments=0'></p><p>All <img
         itemprop=image src=i.png> text</p><ul><li itemprop=tag>one<li itemprop=tag>two</ul>
         <section itemprop=comment itemscope itemtype='http://schema.org/UserComments'><link itemprop=url href='#c1'>
         <footer><p>By: <span itemprop=creator itemscope itemtype='http://schema.org/Person'><span itemprop=name>Greg</span></span></p></footer>
         </section></article><p itemprop=outside>no</p>",
    );
    let expected = json!([{
        "type": ["http://schema.org/BlogPosting"],
        "id": "http://a.test/id",
        "properties": {
            "headline": ["Progress"], "name": ["Progress"], "datePublished": ["2013-08-29"],
            "url": ["http://a.test/d/page?comments=0"], "image": ["http://a.test/d/i.png"], "tag": ["one", "two"],
            "comment": [{
                "type": ["http://schema.org/UserComments"],
                "properties": {
                    "url": ["http://a.test/d/page#c1"],
                    "creator": [{"type": ["http://schema.org/Person"], "properties": {"name": ["Greg"]}}],
                },
            }],
        },
    }]);
    assert_eq!(json!(found.microdata), expected);
}

#[test]
fn dates_and_authors_are_those_of_the_article_before_those_of_the_page() {
    let article = json!({"@graph": [
        {"@type": "WebPage", "datePublished": "2001-01-01", "author": "Page"},
        {"@type": ["NewsArticle"], "datePublished": "2024-05-01T10:00:00+02:00", "dateModified": "2024-05-02",
         "author": [{"@id": "#me"}, {"@type": "Person", "name": "Bo"}], "license": "/l"},
        {"@type": "Person", "@id": "#me", "name": " Ann  Lee"},
        {"@type": "WebSite", "name": "Site"},
    ]});
    let meta = "<meta name=author content=Meta><meta property=article:published_time content=2010-10-10>";
    let found = facts(&format!("{meta}{}", json_ld(&article)));
    assert_eq!(found.published.as_deref(), Some("2024-05-01T10:00:00+02:00"));
    assert_eq!(found.modified.as_deref(), Some("2024-05-02"));
    assert_eq!(found.authors, ["Ann Lee", "Bo"]);
    assert_eq!(found.site_name.as_deref(), Some("Site"));
    assert_eq!(found.licenses, ["http://a.test/l"]);

    let page = json_ld(&json!({"@type": "WebPage", "datePublished": "2001-01-01", "author": "Page"}));
    let found = facts(&format!("{meta}{page}"));
    assert_eq!((found.published.as_deref(), &found.authors[..]), (Some("2010-10-10"), &["Meta".to_owned()][..]));
    let found = facts(&page);
    assert_eq!((found.published.as_deref(), &found.authors[..]), (Some("2001-01-01"), &["Page".to_owned()][..]));
    let microdata = "<div itemscope itemtype=https://schema.org/Recipe><i itemprop=author>Cook</i>
        <meta itemprop=datePublished content='Wed, 01 May 2024 10:20:30 GMT'></div>";
    let found = facts(microdata);
    assert_eq!(
        (found.published.as_deref(), &found.authors[..]),
        (Some("2024-05-01T10:20:30Z"), &["Cook".to_owned()][..])
    );
    let linked = "<a rel=author href=/ann>Ann <b>Lee</b></a><a href=/>x</a><a rel='nofollow author' href=/bo>Bo";
    assert_eq!(facts(linked).authors, ["Ann Lee", "Bo"]);
    let address = "<meta property=article:author content='http://b.test/ann'>";
    assert_eq!(facts(&format!("{address}{linked}")).authors, ["Ann Lee", "Bo"], "an address is no name");
    assert_eq!(facts("<time datetime=2020-02-02>then</time>").published.as_deref(), Some("2020-02-02"));
}

#[test]
fn statements_on_the_use_come_from_elements_and_headers() {
    let headers = [
        ("Content-Signal", "search=yes,  ai-train=no"),
        ("content-usage", "train-ai=n"),
        ("x-robots-tag", "otherbot: noai, orbweaver: noimageai"),
        ("tdm-reservation", "0"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let html = "<meta name=robots content='index, NoAI'><meta name=TDM-reservation content=1><meta name=tdm-policy content=/p>";
    let usage = extracted(html, &headers).facts.unwrap().usage;
    assert_eq!((usage.noai, usage.noimageai, usage.tdm_reservation), (true, true, Some(true)));
    assert_eq!(usage.tdm_policy.as_deref(), Some("http://a.test/p"));
    assert_eq!(usage.content_signal.as_deref(), Some("search=yes, ai-train=no"));
    assert_eq!(usage.content_usage.as_deref(), Some("train-ai=n"));
    let usage = extracted("", &headers).facts.unwrap().usage;
    assert_eq!((usage.noai, usage.tdm_reservation, usage.tdm_policy), (false, Some(false), None));
}

#[test]
fn a_language_is_detected_in_text_and_absent_if_in_doubt() {
    let german =
        "Der Fluss entspringt in den Bergen und fließt nach vielen Windungen durch das Tal in das Meer. ".repeat(3);
    assert_eq!(facts(&german).detected_language.as_deref(), Some("de"));
    let chinese = "这条河发源于山区，流经许多弯道，穿过山谷流入大海。我们在河边走了很久，看到了许多鸟。".repeat(3);
    assert_eq!(facts(&chinese).detected_language.as_deref(), Some("zh"));
    for text in ["", "OK", "12345 67890"] {
        assert_eq!(facts(text).detected_language, None, "{text}");
    }
}

#[test]
fn facts_of_hostile_pages_are_bounded_and_readable_as_json() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(126), close.repeat(126));
    let pages = [
        "<meta name=a content=b>".repeat(100_000),
        format!("<meta name=a content='{}'>", "\u{1}x\"".repeat(5000)).repeat(200),
        json_ld(&json!({"a": "x".repeat(1 << 20)})),
        format!("<script type=application/ld+json>{}</script>", deep("{\"a\":", "}")),
        format!("<script type=application/ld+json>{}</script>", deep("[", "]")),
        format!("<script type=application/ld+json>[{}1]</script>", "{},".repeat(100_000)),
        "<div itemscope itemprop='a b c d'>".repeat(100_000),
        format!("{}{}", "<div itemscope itemprop=a><p itemprop='x y z'>".repeat(50), "text ".repeat(100_000)),
        "<li itemscope itemprop=a></ul>".repeat(100_000),
        format!("<div itemscope>{}", "</b>".repeat(100_000)),
        format!("<p itemscope itemprop='{}'>", "n ".repeat(8000)).repeat(100),
        "<script type=application/ld+json>".to_owned(),
    ];
    for html in pages {
        let page = extracted(&html, &[]);
        let facts = page.facts.unwrap();
        let json = serde_json::to_string(&*facts).unwrap();
        let start = &html[..html.floor_char_boundary(60)];
        assert!(json.len() < 3 * MAX_FACTS_BYTES, "{} bytes: {start}", json.len());
        let nested = format!("{{\"document\":{json}}}");
        let read: Value = serde_json::from_str(&nested).unwrap_or_else(|error| panic!("{error}: {start}"));
        assert_eq!(read["document"], serde_json::to_value(&*facts).unwrap());
    }
    assert!(extracted(&json_ld(&json!({"a": "x".repeat(1 << 20)})), &[]).truncated.facts);
    assert!(!extracted(&json_ld(&json!({"a": "x".repeat(1 << 10)})), &[]).truncated.facts);
}

proptest::proptest! {
    #[test]
    fn any_markup_of_items_is_a_page(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "<div itemscope>", "<p itemprop=a>", "<li itemprop='b c' itemscope>", "</div>", "</p>", "</li>", "</ul>", "x", " ",
                "<meta itemprop=m content=c>", "<img itemprop=i src=s>", "<svg>", "</svg>", "<template>", "</template>", "<noscript>",
                "</noscript>", "<script type=application/ld+json>", "{\"@type\":\"A\"}", "</script>", "<time datetime=2020-01-01>",
                "<a rel=license href=l>", "</a>",
            ]),
            0..60,
        ),
    ) {
        let found = facts(&pieces.concat());
        let json = serde_json::to_string(&found).unwrap();
        proptest::prop_assert_eq!(&serde_json::from_str::<Facts>(&json).unwrap(), &found);
    }
}
