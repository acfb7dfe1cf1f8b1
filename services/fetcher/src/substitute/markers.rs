//! Markup of challenges, firewalls and parked domains.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::Substitute;

/// Markers, as they are in the pages of each provider; case matters. Scripts that a provider adds to all pages of a site
/// are none.
///
/// The second part is searched, and must follow one of the first. It begins with characters that are rare in pages: the search
/// stops wherever a few bytes look like the first ones of a pattern.
const MARKERS: [(&[&str], &str, Substitute); 38] = [
    // Cloudflare.
    (&["window."], "_cf_chl_opt", Substitute::Challenge),
    (&[""], "cf-browser-verification", Substitute::Challenge),
    (&["jschl"], "-answer", Substitute::Challenge),
    // Anubis and go-away.
    (&["id=\"anubis"], "_challenge\"", Substitute::Challenge),
    (&["/.within.website"], "/x/cmd/anubis/", Substitute::Challenge),
    (&["/.well-known"], "/.git.gammaspectra.live/git/go-away", Substitute::Challenge),
    // Imperva; its script without these is in all pages.
    (&[""], "Incapsula incident ID", Substitute::Challenge),
    (
        &["noindex,nofollow\"><script src=\"", "NOFOLLOW\"><script src=\""],
        "/_Incapsula_Resource?",
        Substitute::Challenge,
    ),
    // DataDome.
    (&["geo", "ct"], ".captcha-delivery.com", Substitute::Challenge),
    // HUMAN (PerimeterX).
    (&["id=\""], "px-captcha\"", Substitute::Challenge),
    (&["captcha."], "px-cdn.net", Substitute::Challenge),
    // Akamai.
    (&[""], "?bm-verify=", Substitute::Challenge),
    (&["sec"], "-if-cpt-container", Substitute::Challenge),
    // AWS WAF.
    (&["window"], ".gokuProps", Substitute::Challenge),
    // Sucuri.
    (&["sucuri"], "_cloudproxy_js", Substitute::Challenge),
    // SiteGround and Imunify360.
    (&["/.well-known"], "/sgcaptcha/", Substitute::Challenge),
    (&[""], "wsidchk", Substitute::Challenge),
    // DDoS-Guard.
    (&["/.well-known"], "/ddos-guard/", Substitute::Challenge),
    // Alibaba Cloud and Ruishu.
    (&["acw"], "_sc__v2", Substitute::Challenge),
    (&[""], "$_ts=window['$_ts']", Substitute::Challenge),
    // Kasada and Vercel.
    (&["window."], "KPSDK={}", Substitute::Challenge),
    (&["<title"], ">Vercel Security Checkpoint", Substitute::Challenge),
    // F5, and others that answer with status 200.
    (&["The requested "], "URL was rejected. Please consult with your administrator", Substitute::Firewall),
    (&["<title"], ">Request Rejected</title>", Substitute::Firewall),
    (&["<title"], ">Attention Required! | Cloudflare</title>", Substitute::Firewall),
    (&["<title"], ">Sucuri WebSite Firewall - Access Denied", Substitute::Firewall),
    (&[""], "This request was blocked by the security rules", Substitute::Firewall),
    // Sedo, ParkingCrew, Bodis, GoDaddy, Above, Afternic, Dan, HugeDomains.
    (&[" data"], "-adblockkey=\"", Substitute::Parked),
    (&[""], "sedoparking.com/", Substitute::Parked),
    (&[""], "parkingcrew.net/", Substitute::Parked),
    (&["//"], "d38psrni17bvxu.cloudfront.net/", Substitute::Parked),
    (&[""], "bodis.com/", Substitute::Parked),
    (&["/parking"], "-lander/", Substitute::Parked),
    (&["window.location.href="], "\"/lander\"", Substitute::Parked),
    (&[""], "parklogic.com/", Substitute::Parked),
    (&["afternic.com"], "/forsale/", Substitute::Parked),
    (&["dan.com"], "/buy-domain/", Substitute::Parked),
    (&["hugedomains.com"], "/domain_profile.cfm", Substitute::Parked),
];

/// Returns the kind of the first marker of a page, if it has one.
pub(super) fn find(body: &[u8]) -> Option<Substitute> {
    static SEARCH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        // Only the search for leftmost matches uses vector instructions.
        let search =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(MARKERS.map(|(_, marker, _)| marker));
        search.ok()
    });
    SEARCH.as_ref()?.find_iter(body).find_map(|found| {
        let (starts, _, kind) = MARKERS[found.pattern().as_usize()];
        let before = &body[..found.start()];
        starts.iter().any(|start| before.ends_with(start.as_bytes())).then_some(kind)
    })
}
