//! Parameters without influence on the page: two maintained lists. A change to either increments [`LISTS_VERSION`] and
//! the version of the preset `aggressive`, since canonical forms change with it; a test checks the hash of the lists.

/// Version of both lists.
pub(crate) const LISTS_VERSION: u32 = 1;

/// Names that only track visitors, in lower case and sorted. Each is documented by its vendor: Google (Analytics, Ads,
/// Merchant Center), Meta, Microsoft Advertising, Yandex, X, TikTok, LinkedIn, Pinterest, Mailchimp, HubSpot, Marketo,
/// Matomo, Adobe, Omeda, Vero, Wicked Reports, Klaviyo, Drip, Openstat, MailerLite, Rejoiner, Branch, Impact, Zanox.
const TRACKING: &[&str] = &[
    "__hsfp",
    "__hssc",
    "__hstc",
    "__s",
    "_branch_match_id",
    "_branch_referrer",
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "_ke",
    "_kx",
    "_openstat",
    "dclid",
    "epik",
    "fb_action_ids",
    "fb_action_types",
    "fb_ref",
    "fb_source",
    "fbclid",
    "gad_source",
    "gbraid",
    "gclid",
    "gclsrc",
    "hsctatracking",
    "igsh",
    "igshid",
    "irclickid",
    "li_fat_id",
    "matomo_campaign",
    "matomo_content",
    "matomo_keyword",
    "matomo_medium",
    "matomo_source",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "ml_subscriber",
    "ml_subscriber_hash",
    "msclkid",
    "oly_anon_id",
    "oly_enc_id",
    "piwik_campaign",
    "piwik_keyword",
    "piwik_kwd",
    "pk_campaign",
    "pk_content",
    "pk_cpn",
    "pk_keyword",
    "pk_kwd",
    "pk_medium",
    "pk_source",
    "rb_clickid",
    "s_cid",
    "srsltid",
    "trk_contact",
    "trk_module",
    "trk_msg",
    "trk_sid",
    "ttclid",
    "twclid",
    "vero_conv",
    "vero_id",
    "wbraid",
    "wickedid",
    "yclid",
    "ysclid",
    "zanpid",
];

/// Prefixes of such names: Urchin (Google Analytics), Matomo, HubSpot Ads.
const TRACKING_PREFIXES: &[&str] = &["utm_", "mtm_", "hsa_"];

/// Names that are session identifiers on every site, sorted: Servlets, PHP, `ColdFusion`, ASP.NET, osCommerce, Zen
/// Cart, Bazaarvoice and Broadvision, and others from the lists of Nutch and urlcanon.
const SESSION: &[&str] = &[
    "_sessionid",
    "asp.net_sessionid",
    "bv_engineid",
    "bv_sessionid",
    "cfid",
    "cftoken",
    "jsessionid",
    "oscsid",
    "phpsessid",
    "phpsessionid",
    "zenid",
];

/// Prefixes of such names: classic ASP appends eight letters of its own.
const SESSION_PREFIXES: &[&str] = &["aspsessionid"];

/// Names that are session identifiers on some sites, and identify a story or a conference session on others; sorted.
const MAYBE_SESSION: &[&str] = &["_sid", "sessid", "session_id", "sessionid", "sid"];

/// Minimum length of a value that counts as random.
const RANDOM_LENGTH: usize = 16;

/// Maximum length of a name on the lists, with room for the rest of a prefixed name.
const LONGEST: usize = 32;

/// Returns a parameter's name in lower case; `None` if it is longer than any on the lists.
fn lower<'a>(name: &str, buffer: &'a mut [u8; LONGEST]) -> Option<&'a str> {
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}

fn listed(name: &str, names: &[&str], prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || names.binary_search(&name).is_ok()
}

/// For each first letter, the set of lengths of the names that begin with it, one bit per length. This alone rejects
/// nearly every name that is not on the lists.
struct Outline([u64; 256]);

impl Outline {
    const fn new(lists: &[&[&str]], prefixes: &[&str]) -> Self {
        let mut lengths = [0; 256];
        let mut list = 0;
        while list < lists.len() {
            let mut name = 0;
            while name < lists[list].len() {
                let text = lists[list][name].as_bytes();
                lengths[text[0] as usize] |= 1 << text.len();
                name += 1;
            }
            list += 1;
        }
        let mut prefix = 0;
        while prefix < prefixes.len() {
            let text = prefixes[prefix].as_bytes();
            lengths[text[0] as usize] |= u64::MAX << text.len();
            prefix += 1;
        }
        Self(lengths)
    }

    fn may_have(&self, name: &str) -> bool {
        let first = name.bytes().next().unwrap_or_default().to_ascii_lowercase();
        name.len() <= LONGEST && self.0[usize::from(first)] >> name.len() & 1 != 0
    }
}

static TRACKING_OUTLINE: Outline = Outline::new(&[TRACKING], TRACKING_PREFIXES);
static SESSION_OUTLINE: Outline = Outline::new(&[SESSION, MAYBE_SESSION], SESSION_PREFIXES);

/// Returns `true` if a parameter of this name only tracks visitors.
pub(crate) fn is_tracking(name: &str) -> bool {
    let mut buffer = [0; LONGEST];
    TRACKING_OUTLINE.may_have(name)
        && lower(name, &mut buffer).is_some_and(|name| listed(name, TRACKING, TRACKING_PREFIXES))
}

/// Returns `true` if a parameter of this name and value is a session identifier.
pub(crate) fn is_session(name: &str, value: &str) -> bool {
    let mut buffer = [0; LONGEST];
    SESSION_OUTLINE.may_have(name)
        && lower(name, &mut buffer).is_some_and(|name| {
            listed(name, SESSION, SESSION_PREFIXES) || (MAYBE_SESSION.binary_search(&name).is_ok() && is_random(value))
        })
}

/// Returns `true` if a value looks random: long, only letters and digits, and at least one digit.
pub(crate) fn is_random(value: &str) -> bool {
    value.len() >= RANDOM_LENGTH
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && value.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_in_lower_case_and_no_name_is_too_long() {
        for list in [TRACKING, SESSION, MAYBE_SESSION] {
            assert!(list.is_sorted());
            assert!(list.iter().all(|name| name.len() <= LONGEST && *name == name.to_ascii_lowercase()));
        }
    }

    #[test]
    fn every_name_of_a_list_is_found_in_any_case() {
        for name in TRACKING.iter().chain(TRACKING_PREFIXES) {
            assert!(is_tracking(name) && is_tracking(&name.to_ascii_uppercase()), "{name}");
        }
        for name in SESSION.iter().chain(SESSION_PREFIXES).chain(MAYBE_SESSION) {
            let random = "9682993c8daa2c5497996114facdc805";
            assert!(is_session(name, random) && is_session(&name.to_ascii_uppercase(), random), "{name}");
        }
        assert!(is_tracking("utm_abcdefghijklmnopqrstuvwxyz_1") && !is_tracking(""));
    }

    #[test]
    fn lists_that_change_get_a_new_version() {
        // If this fails: increment LISTS_VERSION and the version of the preset `aggressive`, then update this hash.
        let lists = [TRACKING, TRACKING_PREFIXES, SESSION, SESSION_PREFIXES, MAYBE_SESSION].map(|list| list.join(" "));
        let hash = xxhash_rust::xxh3::xxh3_64(lists.join("\n").as_bytes());
        assert_eq!((LISTS_VERSION, format!("{hash:016x}").as_str()), (1, "0ea139dfff3dc256"));
    }

    #[test]
    fn a_name_that_means_something_else_elsewhere_needs_a_random_value() {
        assert!(is_session("SID", "9682993c8daa2c5497996114facdc805"));
        assert!(!is_session("sid", "09/21/1234567890"), "the stories of some sites");
        assert!(!is_session("sid", "42"));
        assert!(is_session("PHPSESSID", "42"));
        assert!(is_session("ASPSESSIONIDAQBSDSRT", "EOHBLBDDPFCLHKPGGKLILNAM"));
        assert!(!is_session("newsid", "9682993c8daa2c5497996114facdc805"));
        assert!(is_tracking("UTM_Source") && is_tracking("fbclid") && !is_tracking("ref") && !is_tracking("utm"));
    }
}
