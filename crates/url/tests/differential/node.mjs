// Compares the form `raw` with Node's URL, another implementation of WHATWG URL. Reads the lines of `differential` from
// stdin; prints the number of URLs by class. Exits with 1 when a difference has no class.
import { createInterface } from 'node:readline';

// The first class that fits. Each names the rule by which the two may differ.
const CLASSES = [
  // `read::parse`: other schemes are refused before anything else.
  ['another scheme is not crawled', ({ ours, node }) => ours === null && node !== null && !/^https?:/.test(node)],
  // `read::MAX_URL_BYTES`.
  ['longer than 8192 bytes', ({ ours, node }) => ours === null && node !== null && Buffer.byteLength(node) > 8192],
  // An ASCII host with an xn-- label that UTS 46 does not accept is taken as it is, as WHATWG does since June 2026 and Node since 26.7.
  ['an xn-- label that older readers refuse', ({ host, ours, node }) =>
    ours !== null && node === null && /(^|\.)xn--/i.test(host)],
  // Node 20 leaves dot segments behind some segments that begin with a dot; WHATWG's path state leaves none.
  ['a dot segment that Node leaves', ({ ours, node }) => node !== null && hasDotSegment(node) && ours !== null && !hasDotSegment(ours)],
];

const hasDotSegment = (href) => /\/(\.|%2e){1,2}(\/|$)/i.test(href.slice(href.indexOf('/', 8)).split(/[?#]/)[0]);

// The host as it was given, without user and port.
const hostOf = (input) => {
  const authority = /^[\0- ]*https?:[\\/]*([^\\/?#]*)/i.exec(input.replace(/[\t\r\n]/g, ''))?.[1] ?? '';
  return authority.slice(authority.lastIndexOf('@') + 1);
};

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
  const known = CLASSES.find(([, fits]) => fits({ input, host: hostOf(input), ours, node }));
  count(known ? known[0] : 'UNEXPLAINED', { input, ours, node });
}
for (const [name, number] of [...counts].sort((a, b) => b[1] - a[1])) console.log(`${String(number).padStart(9)}  ${name}`);
if (counts.has('UNEXPLAINED')) {
  for (const example of examples.get('UNEXPLAINED')) console.log(JSON.stringify(example));
  process.exit(1);
}
