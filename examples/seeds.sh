#!/bin/sh
# Submits seeds to a pipeline on Kafka. Needs kcat.
#
#   ORBWEAVER_KAFKA__BROKERS=localhost:9092 examples/seeds.sh seeds.txt
#
# FILE has a seed per line: a URL, or an object of schemas/seed.v1.schema.json, such as
#   {"url": "https://example.org/", "crawl": "docs", "priority": 3, "metadata": {"customer": "42"}}
# Empty lines and lines that begin with # are left out. A seed that is submitted twice is crawled once.
set -eu
file=${1:?usage: seeds.sh FILE}
brokers=${ORBWEAVER_KAFKA__BROKERS:?set it to HOST:PORT of a broker}
topic=${ORBWEAVER_KAFKA__PREFIX:-crawl}.seeds

seeds=$(grep -v -e '^[[:space:]]*$' -e '^[[:space:]]*#' "$file") || { echo "seeds.sh: $file has no seeds" >&2; exit 65; }
# acks=all: kcat ends with 0 only if the brokers have all records. Without -k the key is empty: it has no meaning here.
printf '%s\n' "$seeds" | kcat -P -b "$brokers" -t "$topic" -X acks=all -X message.timeout.ms=30000
echo "$(printf '%s\n' "$seeds" | wc -l) seeds in $topic"
