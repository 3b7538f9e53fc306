#!/bin/sh
# Waits until the redirect works: the policy reports ready, and the API server
# rewrites the image of a pod that is only tried (a server-side dry run), three
# times in a row. Exit code 0 then; 1 with a diagnosis when the time is over;
# 2 without kubectl.
#
# Variables: WAIT_TIMEOUT (seconds), PROBE_NAMESPACE, PROBE_IMAGE and
# PROBE_WANT (an image and what it must become).
set -u

policy=redirect-registry
resource=clusterpolicies.kyverno.io
timeout=${WAIT_TIMEOUT:-300}
namespace=${PROBE_NAMESPACE:-default}
image=${PROBE_IMAGE:-probe.invalid/redirect/probe:1}
want=${PROBE_WANT:-sea.hub:5000/redirect/probe:1}

command -v kubectl >/dev/null || { echo "wait-kyverno-ready: kubectl is not installed" >&2; exit 2; }
errors=$(mktemp) || exit 1
trap 'rm -f "$errors"' EXIT
trap 'exit 130' INT TERM

# ready prints yes once the policy says so, in the form of its version: up to
# Kyverno 1.12 .status.ready, from 1.7 on the Ready condition. Only the named
# policy is asked: of a list, both no policy and two policies would mislead.
ready() {
	state=$(kubectl get "$resource" "$policy" --request-timeout=10s \
		-o 'jsonpath={.status.ready}/{.status.conditions[?(@.type=="Ready")].status}' 2>"$errors") || state=
	case $state in
	true/* | */True) echo yes ;;
	*) echo no ;;
	esac
}

# probe prints the image that a pod would get. Warnings go to stderr, which is
# kept apart for the diagnosis.
probe() {
	kubectl run redirect-probe --namespace="$namespace" --image="$image" --restart=Never \
		--dry-run=server --request-timeout=15s -o 'jsonpath={.spec.containers[0].image}' 2>"$errors"
}

deadline=$(($(date +%s) + timeout))
hits=0 got='' is_ready=no
while [ "$(date +%s)" -lt "$deadline" ]; do
	is_ready=$(ready)
	if [ "$is_ready" = yes ]; then
		got=$(probe) || got=
		if [ "$got" = "$want" ]; then hits=$((hits + 1)); else hits=0; fi
		if [ "$hits" -ge 3 ]; then
			echo "wait-kyverno-ready: $policy works: $image becomes $got"
			exit 0
		fi
	else
		hits=0
	fi
	sleep 1
done

{
	echo "wait-kyverno-ready: $policy does not work after ${timeout}s"
	if [ "$is_ready" != yes ]; then
		echo "the policy is not ready: kubectl get $resource $policy -o yaml"
	elif [ -z "$got" ]; then
		echo "the API server refused the probe pod: is the webhook reachable? kubectl -n kyverno get pods,endpoints"
	else
		echo "the probe pod was rewritten wrongly: $image became $got, want $want"
	fi
	tail -n 3 "$errors"
} >&2
exit 1
