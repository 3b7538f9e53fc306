#!/usr/bin/env bash
# Measure builds beside what they are held against: git status, and tar piped
# into zstd -3 on as many threads. All in alternating pairs; prints medians,
# ratios and targets.
#
# Needs Go, git, tar and zstd; no network. Settings:
#   BENCH   work directory                        (default /tmp/sealer-bench-build)
#   SCALE   percent of 20,000 files and 5 GiB     (default 100: 21 GB of disk, 20 minutes)
#   PAIRS   pairs of each long measurement        (default 3)
#   KEEP    1: leave the context and the stores   (default: only the figures stay)
#
# What the rows mean, and what they do not:
#   COPY             a build of four COPYs into an empty store, without discovery. Beside it tar and zstd read
#                    the same files in one pass. The build does more: it hashes the tar and the blob (SHA-256),
#                    hashes each file for its cache, and unpacks the layers. Both end with their output on disk.
#                    zstd has as many workers as the machine has processors, and tar runs beside them; the row of
#                    threads in all counts tar among them, that of sha256sum adds the two hashes that a layer cannot
#                    be without. In one layer: one COPY of the four directories, no other layer fills a pause.
#   warm             nothing changed, 100 images in imageList.lock; beside git status of the same tree.
#   one file         1 KiB of new content in one file of a layer; beside warm plus that layer's work, which is a
#                    build of its COPY alone into an empty store. The second row of it is beside tar and zstd.
#   three platforms  cold builds with all 100 images for three platforms; beside those for one. The files are
#                    the same for all platforms, the images are not.
#   small            a build of one imageList, nothing changed, by processor time.
set -euo pipefail
cd "$(dirname "$0")/.."
BENCH=${BENCH:-/tmp/sealer-bench-build} scale=${SCALE:-100} pairs=${PAIRS:-3}
threads=$(nproc)
ctx=$BENCH/context-$scale store=$BENCH/store times=$BENCH/times
mkdir -p "$BENCH/bin"
rm -rf "$times" "$store"
mkdir "$times"

for program in cmd/sealer registry/registrytest/upstream build/benchcontext; do
	go build -trimpath -ldflags "-s -w" -o "$BENCH/bin/" "./$program"
done
export PATH=$BENCH/bin:$PATH
export CONTAINERS_REGISTRIES_CONF=$BENCH/registries.conf
rm -f "$BENCH/ready"
upstream -any -registries-conf "$CONTAINERS_REGISTRIES_CONF" -ready-file "$BENCH/ready" >"$BENCH/upstream.log" 2>&1 &
upstream=$!
cleanup() {
	kill "$upstream" 2>/dev/null || true
	[ -n "${KEEP:-}" ] || rm -rf "${BENCH:?}/bin" "$BENCH"/context-* "$BENCH"/store* "$BENCH/packed.zst" "$BENCH/small"
}
trap cleanup EXIT
for _ in $(seq 100); do
	[ -s "$BENCH/ready" ] && break
	sleep 0.1
done

# took NAME COMMAND... notes the wall and the processor time of a command.
took() {
	local name=$1 t
	shift
	local TIMEFORMAT='%R %U %S'
	if ! t=$({ time "$@" >"$BENCH/out" 2>"$BENCH/err"; } 2>&1); then
		echo "bench-build: $*" >&2
		cat "$BENCH/err" >&2
		exit 1
	fi
	awk '{print $1, $2 + $3}' <<<"$t" >>"$times/$name"
}

# median NAME [COLUMN]; 1 is wall, 2 processor time.
median() {
	awk -v c="${2:-1}" '{print $c}' "$times/$1" | sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'
}

build() { # STORE FLAGS...
	local root=$1
	shift
	sealer --root "$root" --progress none build -q -t bench:v1 "$@"
}
packed() { # NAME...
	tar -C "$ctx" -cf - "$@" | zstd -q -3 -T"${workers:-$threads}" -f -o "$BENCH/packed.zst"
	sync "$BENCH/packed.zst"
}
fewer() { workers=$((threads > 1 ? threads - 1 : 1)) packed "$@"; }
hashed() { # NAME...
	tar -C "$ctx" -cf - "$@" | tee >(sha256sum >&2) | zstd -q -3 -T"$threads" | tee >(sha256sum >&2) >"$BENCH/packed.zst"
	sync "$BENCH/packed.zst"
}
fresh() { # PATH...
	rm -rf "$@"
	sync -f "$BENCH"
	sleep 6 # ext4 looks longer for an inode within 5 s of a deletion
}

if [ ! -e "$ctx/.git/HEAD" ]; then
	rm -rf "$ctx"
	benchcontext -dir "$ctx" -files $((200 * scale)) -mib $((5120 * scale / 100)) -program "$BENCH/bin/sealer" -text "$(go env GOROOT)/src"
	git init -q "$ctx"
	git -C "$ctx" config gc.auto 0 # it would run beside what is measured
fi
fresh "$store" "$store-3"

layers=(bin packages share etc)
printf 'FROM scratch\nCOPY bin .\nCOPY packages .\nCOPY share .\nCOPY etc .\n' >"$BENCH/copy.Kubefile"
printf 'FROM scratch\nCOPY %s ./\n' "${layers[*]}" >"$BENCH/one.Kubefile"
packed "${layers[@]}" # so that the files are in memory for all
for _ in $(seq "$pairs"); do
	took packed packed "${layers[@]}"
	took copy build "$store" -f "$BENCH/copy.Kubefile" --scan off "$ctx"
	fresh "$store"
	took fewer fewer "${layers[@]}"
	took hashed hashed "${layers[@]}"
	took copy-one build "$store" -f "$BENCH/one.Kubefile" --scan off "$ctx"
	fresh "$store"
done
for _ in $(seq "$pairs"); do
	took one build "$store" --lock "$ctx"
	bytes=$(du -sk "$store" | cut -f1)
	fresh "$store"
	took three build "$store-3" --platform linux/amd64,linux/arm64,linux/arm/v7 "$ctx"
	bytes3=$(du -sk "$store-3" | cut -f1)
	fresh "$store-3"
done

build "$store" --lock "$ctx" >/dev/null
git -C "$ctx" add -A -- . >/dev/null
git -C "$ctx" -c user.name=bench -c user.email=bench@localhost commit -qm context || true
for _ in 1 2; do # so that git's index and the stat cache have settled
	git -C "$ctx" status >/dev/null
	build "$store" --locked "$ctx" >/dev/null
done
for _ in $(seq $((pairs * 4))); do
	took status git -C "$ctx" status
	took warm build "$store" --locked "$ctx"
done
change() { # FILE
	head -c 1024 /dev/urandom | od -An -tx1 | head -c 1024 >"$ctx/$1"
	sync -f "$BENCH" # a commit of the store waits for all of the file system
	sleep 0.1        # a file that is too new is hashed twice
}
for _ in $(seq "$pairs"); do
	for layer in etc share; do
		change "$(cd "$ctx" && find $layer -type f | LC_ALL=C sort | head -1)"
		took "$layer-changed" build "$store" --locked "$ctx"
		took "$layer-packed" packed "$layer"
		printf 'FROM scratch\nCOPY %s .\n' "$layer" >"$BENCH/layer.Kubefile"
		fresh "$store-layer"
		took "$layer-copied" build "$store-layer" -f "$BENCH/layer.Kubefile" "$ctx"
	done
	sealer --root "$store" prune >/dev/null 2>&1 || true
done

mkdir -p "$BENCH/small"
printf 'FROM scratch\nCOPY imageList manifests\n' >"$BENCH/small/Kubefile"
echo nginx >"$BENCH/small/imageList"
build "$store-small" --lock "$BENCH/small" >/dev/null
for _ in $(seq 9); do
	took small build "$store-small" --locked "$BENCH/small"
	took version sealer version
done

. perf/figure.sh
# row OURS / PEER, VALUE, ITS VALUE, TARGET-RATIO, UNIT, [TIMES [COLUMN]]: a
# table's line and a figure. What begins with two spaces goes on from the line
# above. TIMES has the runs of ours.
row() {
	local ours=${1%% / *} runs=()
	case $1 in
	'  / '*) ours=$first peer=${1#  / } ;;
	'  '*' / '*) ours=$first${ours# } peer=${1#* / } ;;
	'  '*) ours=$first${1# } ;;
	*) first=$ours peer=${1#* / } ;;
	esac
	[ -z "${6:-}" ] || read -ra runs < <(awk -v c="${7:-1}" '{print $c}' "$times/$6" | sort -n | awk 'NR == 1 {low = $1} END {print "low=" low, "high=" $1, "runs=" NR}')
	figure "build/$ours" "$2" "$5" "peer=$peer" "peerValue=$3" ${4:+"goal=$4"} "${runs[@]}"
	awk -v w="$1" -v o="$2" -v a="$3" -v t="$4" -v u="$5" 'BEGIN {
	r = o / a; printf "%-46s %9.2f %-3s %9.2f %-3s %6.2f %6s  %s\n", w, o, u, a, u, r, t == "" ? "" : t, t == "" ? "" : (r <= t ? "met" : "MISSED") }'
}
sum() { awk -v a="$1" -v b="$2" -v f="${3:-1}" 'BEGIN {print a * f + b}'; }
{
	echo "$(find "$ctx" -path "$ctx/.git" -prune -o -type f -print | wc -l) files, $(du -sm --exclude .git "$ctx" | cut -f1) MiB, $threads processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
	printf '%-46s %11s %11s %6s %6s\n' "medians of $pairs pairs" sealer against ratio target
	row "COPY / tar | zstd -3" "$(median copy)" "$(median packed)" 1.2 s copy
	row "  in one layer" "$(median copy-one)" "$(median packed)" 1.2 s copy-one
	row "  by processor time" "$(median copy 2)" "$(median packed 2)" "" s copy 2
	row "  / tar | zstd -3, $threads threads in all" "$(median copy)" "$(median fewer)" "" s copy
	row "  / tar | sha256sum | zstd -3 | sha256sum" "$(median copy)" "$(median hashed)" "" s copy
	row "three platforms / one" "$(median three)" "$(median one)" 2 s three
	row "  by bytes of the store" "$(sum "$bytes3" 0 0.0009765625)" "$(sum "$bytes" 0 0.0009765625)" 1.3 MiB
	row "warm / (1.5 git status + 0.1 s)" "$(median warm)" "$(sum "$(median status)" 0.1 1.5)" 1 s warm
	row "  by processor time / git status" "$(median warm 2)" "$(median status 2)" "" s warm 2
	for layer in etc share; do
		row "one file in $layer / (warm + COPY $layer)" "$(median $layer-changed)" "$(sum "$(median warm)" "$(median $layer-copied)")" 1 s "$layer-changed"
		row "  / (warm + tar | zstd of $layer)" "$(median $layer-changed)" "$(sum "$(median warm)" "$(median $layer-packed)")" 1.2 s "$layer-changed"
	done
	row "small build, processor time / 60 ms" "$(median small 2)" 0.06 1 s small 2
	row "sealer version, processor time / 60 ms" "$(median version 2)" 0.06 "" s version 2
} | tee "$BENCH/results.txt"
