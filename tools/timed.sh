#!/usr/bin/env bash
# Runs a command as a part of a test run and records how long it took in build/reports/parts.tsv: timed.sh PART COMMAND...
set -u
part=$1
shift
start=$(date +%s.%N)
"$@"
code=$?
mkdir -p build/reports
printf '%s\t%s\t%s\n' "$part" "$(echo "$(date +%s.%N) $start" | awk '{printf "%.1f", $1 - $2}')" "$code" >>build/reports/parts.tsv
exit $code
