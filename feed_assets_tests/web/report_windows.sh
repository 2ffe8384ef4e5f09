#!/bin/sh
# A program in another language than Python: an ingestion job that reports what it has put, and waits until the hour is
# complete. It needs curl alone (Debian: apt-get install curl).
#
#     report_windows.sh URL TOKEN
set -eu
api="$1/v1/dependencies"
token="Authorization: Bearer $2"
json="Content-Type: application/json"
ask() { curl --silent --show-error --fail-with-body --max-time 60 --header "$token" "$@"; }

# Where events begin that are not known yet.
after=$(ask "$api/events" | sed 's/.*"next":\([0-9]*\).*/\1/')

# The source counts 100 records in each window; the job has put one object that has them all.
numbers="" records=""
for minute in 00 05 10 15 20 25 30 35 40 45 50 55; do
    start="2026-11-27T15:${minute}Z"
    numbers="$numbers,{\"dataset\":\"raw/foo\",\"witness\":\"source\",\"start\":\"$start\",\"records\":100}"
    records="$records,\"$start\":100"
done
ask --header "$json" --data "[${numbers#,}]" "$api/numbers"; echo
part="[{\"dataset\":\"raw/foo\",\"id\":\"part-1\",\"object\":\"s3://raw/part-1\",\"records\":{${records#,}}}]"
ask --header "$json" --data "$part" "$api/parts"; echo
ask --header "$json" --data "$part" "$api/parts"; echo   # the answer was lost: send it again

# Wait for the event of the hour.
while :; do
    events=$(ask "$api/events?after=$after&wait=30&dataset=raw/foo")
    after=$(echo "$events" | sed 's/.*"next":\([0-9]*\).*/\1/')
    case "$events" in *'"grain":"hour","first":"2026-11-27T15:00Z"'*) break ;; esac
done
ask --get --data-urlencode "dataset=raw/foo" --data-urlencode "grain=hour" --data-urlencode "start=2026-11-27T15:00Z" \
    "$api/slot"; echo

# A check of its own finds bots in this hour: a mark, sent twice as its answer may be lost, and taken back by its id.
mark="[{\"dataset\":\"raw/foo\",\"start\":\"2026-11-27T15:00Z\",\"grain\":\"hour\",\"reason\":\"bots\",\"id\":\"check-1\"}]"
ask --header "$json" --data "$mark" "$api/marks"; echo
ask --header "$json" --data "$mark" "$api/marks"; echo
ask --get --data-urlencode "dataset=raw/foo" "$api/marks"; echo
ask --header "$json" --data '[{"id":"check-1","reason":"no bots"}]' "$api/marks/remove"; echo

# Nonsense is an error, also for this program.
if ask --header "$json" --data "nonsense" "$api/parts"; then exit 1; fi
