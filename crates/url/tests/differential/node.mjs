// Compares the form `raw` with Node's URL, another implementation of WHATWG URL. Reads the lines of `differential` from
// stdin; prints the number of URLs by class. Exits with 1 when a difference has no class.
import { createInterface } from 'node:readline';

// The first class that fits. Each names the rule by which the two may differ.
const CLASSES = [
  // `read::parse`: other schemes are refused before anything else.
  ['another scheme is not crawled', ({ ours, node }) => ours === null && node !== null && !/^https?:/.test(node)],
  // `read::MAX_URL_BYTES`.
  ['longer than 8192 bytes', ({ ours, node }) => ours === null && node !== null && Buffer.byteLength(node) > 8192],
  // A label that begins with xn-- and is no Punycode: `url` refuses it, as RFC 5891 section 4 does; see conformance.rs.
  ['an xn-- label that is no Punycode', ({ ours, node }) =>
    (ours === null) !== (node === null) && /xn--/i.test(node ?? decodeURIComponentSafe(input_host))],
];
let input_host = '';
const decodeURIComponentSafe = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

const counts = new Map();
const examples = new Map();
const count = (name, example) => {
  counts.set(name, (counts.get(name) ?? 0) + 1);
  const known = examples.get(name) ?? [];
  if (known.length < 5) examples.set(name, [...known, example]);
};

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const [input, ours] = JSON.parse(line);
  let node = null;
  try {
    const url = new URL(input);
    url.hash = '';
    node = url.href;
  } catch { /* refused */ }
  if (ours === node) { count(node === null ? 'both refuse' : 'same', input); continue; }
  input_host = /^\s*https?:[\\/]*([^\\/?#]*)/i.exec(input)?.[1] ?? '';
  const known = CLASSES.find(([, fits]) => fits({ input, ours, node }));
  count(known ? known[0] : 'UNEXPLAINED', { input, ours, node });
}
for (const [name, number] of [...counts].sort((a, b) => b[1] - a[1])) console.log(`${String(number).padStart(9)}  ${name}`);
if (counts.has('UNEXPLAINED')) {
  for (const example of examples.get('UNEXPLAINED')) console.log(JSON.stringify(example));
  process.exit(1);
}
