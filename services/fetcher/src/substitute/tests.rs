use super::{
    Substitute::{Challenge, Firewall, NotFound, Parked},
    *,
};

/// Returns a page of a title and a body.
fn page(title: &str, body: &str) -> String {
    format!("<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>")
}

fn found(html: &str) -> Option<Substitute> {
    by_body(html.as_bytes())
}

/// Text of an article, of 2,000 letters.
fn article() -> String {
    format!("<p>{}</p>", "word ".repeat(500))
}

#[test]
fn pages_of_providers_are_recognized_by_their_markers() {
    let pages = [
        ("<title>Just a moment...</title><script>window._cf_chl_opt={cvId:'3'};</script>", Challenge),
        ("<script id=\"anubis_challenge\" type=\"application/json\">{}</script><p>Loading...", Challenge),
        (
            "<html><head><META NAME=\"robots\" CONTENT=\"noindex,nofollow\"><script src=\"/_Incapsula_Resource?SW=1\">",
            Challenge,
        ),
        ("<iframe>Request unsuccessful. Incapsula incident ID: 1-2</iframe>", Challenge),
        (
            "<p id=\"cmsg\">Please enable JS</p><script src=\"https://ct.captcha-delivery.com/c.js\"></script>",
            Challenge,
        ),
        ("<div id=\"px-captcha\"></div>", Challenge),
        ("<meta http-equiv=\"refresh\" content=\"5; URL='/x?bm-verify=AAQ'\" />", Challenge),
        ("<title>You are being redirected...</title><script>var s={},sucuri_cloudproxy_js='';</script>", Challenge),
        ("<meta http-equiv=\"refresh\" content=\"0;/.well-known/sgcaptcha/?r=%2F\">", Challenge),
        (
            "<title>Request Rejected</title>The requested URL was rejected. Please consult with your administrator.",
            Firewall,
        ),
        ("<html data-adblockkey=\"MFww\" lang=\"en\"><body><a href=/x>Related links</a>", Parked),
        ("<script>window.onload=function(){window.location.href=\"/lander\"}</script>", Parked),
        ("<a href=\"https://www.hugedomains.com/domain_profile.cfm?d=a.test\">Buy a.test</a>", Parked),
    ];
    for (html, substitute) in pages {
        assert_eq!(found(html), Some(substitute), "{html}");
    }
}

#[test]
fn a_page_with_a_marker_and_text_of_its_own_is_a_page() {
    let shown = ["window._cf_chl_opt", "id=\"anubis_challenge\"", "sedoparking.com/", "Incapsula incident ID"];
    for marker in shown {
        assert!(found(&page("How it works", marker)).is_some(), "{marker}");
        assert_eq!(found(&page("How it works", &format!("<pre>{marker}</pre>{}", article()))), None, "{marker}");
    }
    let common = "<script src=\"/_Incapsula_Resource?SW=1\"></script><script src=\"/cdn-cgi/challenge-platform/x.js\">";
    assert_eq!(found(&page("App", &format!("<div id=root></div>{common}</script>"))), None, "in all pages of a site");
}

#[test]
fn the_end_of_a_marker_is_none_without_one_of_its_beginnings() {
    let link = |href: &str| page("Welcome", &format!("<a href=\"{href}\">more</a>"));
    for (alone, after) in [
        ("/forsale/", "https://www.afternic.com"),
        ("/sgcaptcha/", "/.well-known"),
        (".captcha-delivery.com/x", "https://geo"),
        (".captcha-delivery.com/x", "https://ct"),
    ] {
        assert_eq!(found(&link(alone)), None, "{alone}");
        assert!(found(&link(&format!("{alone}{after}{alone}"))).is_some(), "the second time, after {after}");
    }
}

#[test]
fn a_short_page_whose_title_says_that_it_does_not_exist_is_none() {
    let titles = [
        "404 Not Found",
        "Page not found",
        "Page not found – Example Blog",
        "Example Shop | Page Not Found",
        "404: This page could not be found.",
        "Error 404",
        "404 Error | Example",
        "Oops! That page can&#8217;t be found. - Example",
        "Seite nicht gefunden | Beispiel",
        "Fehler 404",
        "Page introuvable - Exemple",
        "Página no encontrada",
        "Страница не найдена — Пример",
        "ページが見つかりません｜例",
        "页面不存在",
    ];
    let menu = "<nav><ul><li>About us</li></ul></nav><a href=/>Home</a>".repeat(200);
    for title in titles {
        assert_eq!(
            found(&page(title, &format!("{menu}<h1>Oops</h1><p>Try the search.</p>"))),
            Some(NotFound),
            "{title}"
        );
        assert_eq!(found(&page(title, &article())), None, "{title}: with an article");
    }
}

#[test]
fn a_title_that_is_not_a_message_alone_is_that_of_a_page() {
    let titles = [
        "HTTP 404",
        "List of pages not found in the archive",
        "Not found in translation",
        "How to design a page not found page",
        "Error handling",
        "404",
        "Peugeot 404 | Cars",
        "Lost and found",
        "",
    ];
    for title in titles {
        assert_eq!(found(&page(title, "<h1>Welcome</h1><p>A few words.</p>")), None, "{title}");
    }
    assert_eq!(found(&page("404", "<h1>404</h1><p>This page does not exist.</p>")), Some(NotFound));
    assert_eq!(found("<p>Page not found</p>"), None, "no title");
}

#[test]
fn text_of_links_scripts_and_navigation_does_not_make_a_message_longer() {
    let long = "x".repeat(MAX_MESSAGE_CHARS + 1);
    for (open, close) in [("<a href=/>", "</a>"), ("<script>", "</script>"), ("<nav><nav>", "</nav></nav>")] {
        assert_eq!(found(&page("Not found", &format!("{open}{long}{close}"))), Some(NotFound), "{open}");
    }
    for (open, close) in [("<p>", "</p>"), ("<form>", "</form>"), ("<a href=/>open <p>", ""), ("</nav>", "")] {
        assert_eq!(found(&page("Not found", &format!("{open}{long}{close}"))), None, "{open}");
    }
}

#[test]
fn large_pages_are_not_read() {
    let padded = |bytes: usize| page("Not found", &"<br>".repeat(bytes / 4));
    assert_eq!(found(&padded(MAX_MESSAGE_BYTES - 200)), Some(NotFound));
    assert_eq!(found(&padded(MAX_MESSAGE_BYTES)), None);
}

#[test]
fn a_challenge_is_recognized_by_the_headers_of_its_provider() {
    let with =
        |name: &'static str, value: &'static str| by_headers(|header| (header == name).then_some(value.as_bytes()));
    for (name, value) in [
        ("cf-mitigated", "challenge"),
        ("x-amzn-waf-action", "captcha"),
        ("x-vercel-mitigated", "Challenge"),
        ("sg-captcha", "challenge; x"),
    ] {
        assert_eq!(with(name, value), Some(Challenge), "{name}");
    }
    for (name, value) in [("cf-mitigated", ""), ("x-vercel-mitigated", "deny"), ("server", "challenge")] {
        assert_eq!(with(name, value), None, "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(body: Vec<u8>, title in ".{0,80}") {
        let _ = by_body(&body);
        let _ = by_body(page(&title, "<p>404").as_bytes());
    }
}
