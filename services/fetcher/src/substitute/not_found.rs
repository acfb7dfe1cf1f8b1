//! Titles and texts of pages that do not exist.

/// Messages, as [`normal`] writes them.
const PHRASES: [&str; 69] = [
    "not found",
    "page not found",
    "file not found",
    "document not found",
    "content not found",
    "product not found",
    "article not found",
    "page cannot be found",
    "page can not be found",
    "page cant be found",
    "page could not be found",
    "page was not found",
    "page does not exist",
    "page doesnt exist",
    "page no longer exists",
    "page not available",
    "page unavailable",
    "page is unavailable",
    "page isnt available",
    "cant find that page",
    "seite nicht gefunden",
    "seite wurde nicht gefunden",
    "seite konnte nicht gefunden werden",
    "seite existiert nicht",
    "nicht gefunden",
    "page introuvable",
    "page non trouvée",
    "page non trouvee",
    "page inexistante",
    "página no encontrada",
    "pagina no encontrada",
    "página no existe",
    "no se encontró la página",
    "no se ha encontrado la página",
    "pagina non trovata",
    "página não encontrada",
    "pagina nao encontrada",
    "pagina niet gevonden",
    "sidan hittades inte",
    "sidan kunde inte hittas",
    "siden blev ikke fundet",
    "siden findes ikke",
    "siden ble ikke funnet",
    "fant ikke siden",
    "sivua ei löytynyt",
    "sivua ei löydy",
    "nie znaleziono strony",
    "strona nie została znaleziona",
    "strona nie istnieje",
    "stránka nenalezena",
    "stránka nebyla nalezena",
    "stránka sa nenašla",
    "oldal nem található",
    "pagina nu a fost găsită",
    "sayfa bulunamadı",
    "σελίδα δεν βρέθηκε",
    "страница не найдена",
    "страница не существует",
    "сторінку не знайдено",
    "страницата не е намерена",
    "ページが見つかりません",
    "ページは見つかりませんでした",
    "页面不存在",
    "页面未找到",
    "找不到页面",
    "找不到頁面",
    "頁面不存在",
    "페이지를 찾을 수 없습니다",
    "halaman tidak ditemukan",
];
/// Words around a message in a title.
const FILLERS: [&str; 15] = [
    "404",
    "error",
    "http",
    "status",
    "oops",
    "ooops",
    "whoops",
    "sorry",
    "the",
    "that",
    "this",
    "fehler",
    "erreur",
    "errore",
    "requested",
];
/// Words that make a message of the number.
const ERRORS: [&str; 6] = ["error", "fehler", "erreur", "errore", "ошибка", "エラー"];
/// The number of the status; alone it may be that of a bus or a car.
const NUMBER: &str = "404";

/// Returns `true` if a page with this title may say that it does not exist.
pub(super) fn may_be_title(title: &str) -> bool {
    parts(title).any(|part| says_so(&part) || part == NUMBER)
}

/// Returns `true` if a page with this title and short text says that it does not exist.
pub(super) fn is_message(title: &str, text: &str) -> bool {
    parts(title).any(|part| says_so(&part)) || {
        let text = normal(text);
        PHRASES.iter().any(|phrase| text.contains(phrase))
    }
}

/// Returns `true` if a part of a title is a message, apart from fillers.
fn says_so(part: &str) -> bool {
    let words = || part.split_whitespace();
    let rest: Vec<&str> = words().filter(|word| !FILLERS.contains(word)).collect();
    if rest.is_empty() {
        return words().any(|word| word == NUMBER) && words().any(|word| ERRORS.contains(&word));
    }
    PHRASES.contains(&&*rest.join(" ")) || PHRASES.contains(&part)
}

/// Returns the parts of a title, normalized: a message is often followed by the name of the site.
fn parts(title: &str) -> impl Iterator<Item = String> {
    const SEPARATORS: [char; 10] = ['|', '–', '—', '·', '•', '»', '«', '›', ':', '\u{ff5c}'];
    title.split(SEPARATORS).flat_map(|part| part.split(" - ")).map(normal)
}

/// Returns a text in lower case, without apostrophes and with one space for all other punctuation and white space.
fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for char in text.chars().filter(|char| !matches!(char, '\'' | '’' | '`')) {
        if char.is_alphanumeric() {
            normal.extend(char.to_lowercase());
        } else if !normal.is_empty() && !normal.ends_with(' ') {
            normal.push(' ');
        }
    }
    normal.truncate(normal.trim_end().len());
    normal
}
