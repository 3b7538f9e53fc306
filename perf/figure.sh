# shellcheck shell=bash
# figure NAME VALUE UNIT [FIELD=VALUE...] appends one line to the file that
# FIGURES names, as perf/figure does, and none without it. The fields, in Go's
# struct Figure: goal, least, peer, peerValue, low, high, runs, x, xUnit, note.
figure() {
	[ -n "${FIGURES:-}" ] || return 0
	local line field text
	_quoted() { text=${1//\\/\\\\} && text=\"${text//\"/\\\"}\"; }
	_number() { case $1 in .*) text=0$1 ;; *) text=$1 ;; esac } # bc writes .66, which is no number of JSON
	_quoted "$1" && line="{\"figure\":$text"
	_number "$2" && line+=",\"value\":$text"
	_quoted "$3" && line+=",\"unit\":$text"
	for field in "${@:4}"; do
		case $field in
		peer=* | xUnit=* | note=*) _quoted "${field#*=}" ;;
		*) _number "${field#*=}" ;;
		esac
		line+=",\"${field%%=*}\":$text"
	done
	printf '%s}\n' "$line" >>"$FIGURES"
}
