// Numbers, sizes and times as text. Pure.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const RATE = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const NOTHING = "–";

/** Number with separators of thousands. */
export function count(value) {
  return Number.isFinite(value) ? COUNT.format(value) : NOTHING;
}

/** Number with one decimal below 100. */
export function rate(value) {
  if (!Number.isFinite(value)) return NOTHING;
  return value >= 100 ? COUNT.format(value) : RATE.format(value);
}

/** Size with a binary unit. */
export function bytes(value) {
  if (!Number.isFinite(value)) return NOTHING;
  let [size, unit] = [value, 0];
  while (size >= 1024 && unit < UNITS.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${unit === 0 || size >= 100 ? COUNT.format(size) : RATE.format(size)} ${UNITS[unit]}`;
}

/** Duration in its two largest units. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NOTHING;
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first === -1) return "0 s";
  return parts.slice(first, first + 2).map(([value, unit]) => `${value} ${unit}`).join(" ");
}

/** Duration in one unit: `90 s`, `5 min`. */
export function shortDuration(seconds) {
  return seconds >= 60 && seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
}

/** Text with a capital letter first. */
export function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

/** Time as `2026-11-30 23:10:00`, in UTC. */
export function time(text) {
  const millis = Date.parse(text ?? "");
  return Number.isNaN(millis) ? NOTHING : new Date(millis).toISOString().slice(0, 19).replace("T", " ");
}

/** Time of day, in UTC. */
export function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

/** Share of a total, as a percentage. */
export function share(part, total) {
  if (!(total > 0)) return NOTHING;
  const percent = (100 * part) / total;
  return percent > 0 && percent < 0.1 ? "< 0.1%" : `${RATE.format(percent)}%`;
}

/** `1 page`, `2 pages`. */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Class of a status, for its colour. */
export function statusClass(status) {
  return status === null || status === undefined ? "none" : `s${Math.floor(status / 100)}`;
}

/** Code of a reason, such as `http_404`, as words. */
export function reasonWords(reason) {
  const http = /^http_(\d{3})$/.exec(reason ?? "");
  return http ? `HTTP ${http[1]}` : (reason ?? "").replaceAll("_", " ");
}

/** Name of a file for the content of a URL: its last segment without unusual characters. */
export function fileName(url, extension) {
  let name = "content";
  try {
    const { hostname, pathname } = new URL(url);
    name = pathname.split("/").filter(Boolean).pop() ?? hostname;
  } catch {
    // Not a URL: the general name.
  }
  const safe = name.replace(/[^\w.-]+/g, "_").replace(/^\.+/, "").slice(0, 100) || "content";
  return extension && !safe.includes(".") ? `${safe}.${extension}` : extension === "warc.gz" ? `${safe}.warc.gz` : safe;
}
