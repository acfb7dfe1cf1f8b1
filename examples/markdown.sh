#!/bin/sh
# Writes the pages of a crawl as Markdown files, with URL, title and time at the top of each, and a list of them. Needs jq.
#
#   orbweaver crawl docs.example.org --markdown --contact mailto:you@example.org
#   examples/markdown.sh docs.example.org.crawl pages
#
# Run again after further visits of the crawl, it replaces the files of pages that have changed.
set -eu
crawl=${1:?usage: markdown.sh CRAWL DIRECTORY} pages=${2:?usage: markdown.sh CRAWL DIRECTORY}
mkdir -p "$pages"

# Per page its name and its text. `tojson` quotes titles and URLs, which strangers wrote, for YAML.
jq -r 'select(.markdown) | "\(.fingerprint) \(
  "---\nurl: \(.url | tojson)\ntitle: \(.title | tojson)\nfetched_at: \(.fetched_at)\n---\n\n\(.markdown)\n" | @base64)"' "$crawl/documents.jsonl" |
  while read -r name page; do
    printf %s "$page" | base64 -d >"$pages/$name.md"
  done

# The last version of each page, by title.
jq -r 'select(.markdown) | "\(.fingerprint)\t- [\(.title | gsub("[\\[\\]]"; ""))](\(.fingerprint).md) \(.url)"' "$crawl/documents.jsonl" |
  awk -F '\t' '{ last[$1] = $2 } END { for (name in last) print last[name] }' | LC_ALL=C sort >"$pages/README.md"
echo "$(wc -l <"$pages/README.md") pages in $pages"
