# How the scripts of this directory tell how it goes; sourced, not run.
# shellcheck shell=bash disable=SC2154,SC2034
. "${BASH_SOURCE[0]%/*}/../../perf/figure.sh"
step() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - began)); }
fail() { echo "   NOT SO: $*" >&2; exit 1; }
must() { # must 'what is expected' COMMAND...
  local what=$1
  shift
  "$@" || fail "$what"
  echo "   ok: $what"
}
eventually() { # eventually 'what' COMMAND...: polls for three minutes
  local what=$1 end=$((SECONDS + 180))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { "$@" || true; fail "$what"; }
    sleep 0.2
  done
  echo "   ok: $what"
}
seconds() { # seconds COMMAND...: runs it; its time goes to $took
  local from status=0
  from=$(date +%s.%N)
  "$@" || status=$?
  took=$(printf '%.1f' "$(echo "$(date +%s.%N) - $from" | bc)")
  return $status
}
# median prints the middle of its arguments.
median() { printf '%s\n' "$@" | sort -n | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }

# goal WHAT MEASURED LIMIT UNIT: a line of the report at the end
goal() {
  local word
  figure "run/$1" "$2" "${4:-blobs}" "goal=$3"
  word=$(awk -v a="$2" -v b="$3" 'BEGIN {print a <= b ? "reached" : "NOT REACHED"}')
  printf '%-72s %8s %-5s goal <= %s: %s\n' "$1" "$2" "$4" "$3" "$word" | tee -a "$LAB/goals"
}
