#!/bin/sh
# Waits until the redirect works: the policy is ready, and the API server
# rewrites the image of a pod that it is only asked to try (a server-side dry
# run), three times in a row. Written by sealer; edit it as you like.
#
# Exit code 0 when it works, 1 with a diagnosis when the time is over, 2 when
# there is no kubectl. WAIT_TIMEOUT and WAIT_INTERVAL are in seconds; with the
# timeout 0 it tries once. PROBE_IMAGE, PROBE_WANT and PROBE_NAMESPACE choose the
# pod that is tried and what its image must become. KYVERNO_NAMESPACE is where
# Kyverno's own pods are.
set -u

policy=redirect-registry
resource=clusterpolicies.kyverno.io
timeout=${WAIT_TIMEOUT:-300}
image=${PROBE_IMAGE:-probe.invalid/redirect/probe:1}
want=${PROBE_WANT:-sea.hub:5000/redirect/probe:1}
namespace=${PROBE_NAMESPACE:-default}
kyverno=${KYVERNO_NAMESPACE:-kyverno}

say() { echo "wait-kyverno-ready: $*"; }

command -v kubectl >/dev/null || {
	say "kubectl is not installed" >&2
	exit 2
}
errors=$(mktemp) || exit 1
trap 'rm -f "$errors"' EXIT
trap 'exit 130' INT TERM

# is_ready asks for the one policy by its name: of a list, both no policy and
# two policies would mislead.
is_ready() {
	# Up to Kyverno 1.12 there is .status.ready, from 1.7 on the Ready condition.
	state=$(kubectl get "$resource" "$policy" --request-timeout=10s \
		-o 'jsonpath={.status.ready}/{.status.conditions[?(@.type=="Ready")].status}' 2>"$errors") || return 1
	case $state in
	true/* | */True) return 0 ;;
	esac
	return 1
}

# probe prints the image that a new pod would get. Warnings of the API server
# go to stderr, which is kept apart for the diagnosis.
probe() {
	kubectl run redirect-probe --namespace="$namespace" --image="$image" --restart=Never \
		--dry-run=server --request-timeout=15s -o 'jsonpath={.spec.containers[0].image}' 2>"$errors"
}

# kyverno_pods says which of Kyverno's own pods do not run, why, and the next
# step. It prints nothing when all are ready, or when the API server does not say.
kyverno_pods() {
	list=$(kubectl get pods -n "$kyverno" --request-timeout=10s -o 'jsonpath={range .items[*]}{.metadata.name}|{.status.phase}|{.status.conditions[?(@.type=="Ready")].status}|{range .status.initContainerStatuses[*]}{.state.waiting.reason} {end}{range .status.containerStatuses[*]}{.state.waiting.reason} {.lastState.terminated.reason} {end}|{range .spec.containers[*]}{.image} {end}|{.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}{end}' 2>/dev/null) || return 0
	if [ -z "$list" ]; then
		echo "Namespace $kyverno has no pods: Kyverno is not installed, or its Deployments cannot make any."
		echo "  See: kubectl get deployments,replicasets,events -n $kyverno"
		return 0
	fi
	echo "$list" | while IFS='|' read -r pod phase is_up reasons images message; do
		case $phase/$is_up in
		Succeeded/* | Running/True | /*) continue ;;
		esac
		reasons=$(echo "$reasons" | xargs -n 1 | sort -u | xargs)
		echo "Kyverno's pod $pod does not run: $phase${reasons:+, $reasons}"
		case $reasons in
		*ImagePull* | *ErrImage* | *ImageInspect* | *RegistryUnavailable*)
			echo "  Its node cannot pull ${images% }."
			echo "  Do the nodes reach the registry, trust its certificate, and know its name (sealer registry hosts)?"
			echo "  See: kubectl describe pod -n $kyverno $pod"
			;;
		*CrashLoopBackOff* | *OOMKilled* | *Error*)
			echo "  See: kubectl logs -n $kyverno $pod --all-containers --previous"
			;;
		*)
			echo "  ${message:-It has not become ready.} See: kubectl describe pod -n $kyverno $pod"
			;;
		esac
	done
}

deadline=$(($(date +%s) + timeout))
hits=0
got=
ready=no
while :; do
	if is_ready; then
		ready=yes
		got=$(probe) || got=
		if [ "$got" = "$want" ]; then hits=$((hits + 1)); else hits=0; fi
		if [ "$hits" -ge 3 ]; then
			say "$policy works: $image becomes $got"
			exit 0
		fi
	else
		ready=no
		hits=0
	fi
	# A pod that came back right is tried again even after the deadline.
	if [ "$hits" = 0 ] && [ "$(date +%s)" -ge "$deadline" ]; then break; fi
	sleep "${WAIT_INTERVAL:-1}"
done

{
	say "$policy does not work after ${timeout}s"
	troubled=$(kyverno_pods)
	if [ -n "$troubled" ]; then
		echo "$troubled"
	elif [ "$ready" = no ]; then
		echo "The policy is not ready. See: kubectl get $resource $policy -o yaml"
	elif [ -n "$got" ]; then
		echo "The pod that was tried got the wrong image: $image became $got, want $want."
	elif grep -q 'failed calling webhook' "$errors"; then
		echo "The API server cannot reach a webhook. See: kubectl get pods,endpoints -n $kyverno"
	elif grep -q 'denied the request' "$errors"; then
		echo "A policy denied the pod that was tried."
	else
		echo "The API server refused the pod that was tried."
	fi
	tail -n 3 "$errors"
} >&2
exit 1
