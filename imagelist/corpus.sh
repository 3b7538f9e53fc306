#!/usr/bin/env bash
# Scans the real cases of $SHARED/corpus with bin/sealer and prints what its
# judge says, beside what other finders reach there. What was found stays in
# bin/corpus, one image a line (NAME.txt), with the places (NAME.json).
# Fails when fewer than 95 % of the images are found, one of those that stand
# as one string in the input is not, or the precision is below 98 %.
set -euo pipefail
cd "$(dirname "$0")/.."
corpus=${SHARED:-../shared}/corpus
if [ ! -d "$corpus/cases" ]; then
  echo "corpus: $corpus is not here: nothing to do"
  exit 0
fi
if ! python3 -c 'import yaml' 2>/dev/null; then
  echo "corpus: python3 with yaml is missing, which the judge needs: apt-get install python3-yaml" >&2
  [ -z "${SEALER_REQUIRE_TOOLS:-}" ] || exit 1
  exit 0
fi
out=bin/corpus
rm -rf "$out"
mkdir -p "$out"
SEALER_ROOT=$(mktemp -d)
export SEALER_ROOT
trap 'rm -rf "$SEALER_ROOT"' EXIT

scan() { # CASE FLAG...: the exit code tells of bad input (1) and of gaps (3), which some cases have
  local input=$corpus/cases/$1/input
  shift
  bin/sealer scan "$@" "$input" || case $? in 1 | 3) ;; *) return 1 ;; esac
}
start=$(date +%s%N)
for case in "$corpus"/cases/*/; do
  name=$(basename "$case")
  scan "$name" -o imageList >"$out/$name.txt" 2>"$out/$name.err"
done
spent=$(((($(date +%s%N) - start)) / 1000000))
times >"$out/times"
used=$(awk 'NR == 2 {gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4}' "$out/times")
for case in "$corpus"/cases/*/; do
  name=$(basename "$case")
  scan "$name" -o json --rejected >"$out/$name.json" 2>/dev/null
done

"$corpus/score" "$corpus/cases" "$out" "$@" | tee "$out/score.txt"
echo
echo 'what others reach on these cases (README.md there):'
sed -n '/^| finder/,/^$/p' "$corpus/README.md"
echo "all cases were scanned, one process each, in $spent ms"

. perf/figure.sh
figure "corpus/$(find "$corpus/cases" -mindepth 1 -maxdepth 1 | wc -l) cases, one process each" "$used" "CPU s"
while read -r name value goal; do
  figure "corpus/$name" "$value" % "goal=$goal" least=true
done < <(awk '/^TOTAL/ { for (i = 1; i < NF; i++) { if ($i == "recall") print "recall", $(i+1) + 0, 95; if ($i == "precision") print "precision", $(i+1) + 0, 98 } }' "$out/score.txt")
awk '/^TOTAL/ { for (i = 1; i < NF; i++) { if ($i == "recall") r = $(i+1) + 0; if ($i == "precision") p = $(i+1) + 0 } }
  /^recall by tier/ { for (i = 1; i < NF; i++) if ($i == "verbatim") { split($(i+1), v, "/") } }
  END { if (r < 95 || p < 98 || v[1] != v[2]) { print "corpus: below the mark"; exit 1 } print "corpus: ok" }' "$out/score.txt"
