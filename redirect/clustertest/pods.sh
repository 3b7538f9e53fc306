# shellcheck shell=bash
# Pods, and what must become of their images. Sourced by run.
# shellcheck disable=SC2154 # work and the helpers are run's

# application DIR: the build context of an image with the images that the pods
# use.
application() {
  mkdir -p "$1"
  printf 'FROM kubernetes-kyverno:v1.19.8\nCOPY imageList manifests\n' > "$1/Kubefile"
  cat > "$1/imageList" <<'LIST'
nginx
nginx:1.25
busybox:1.36
redis:7.2
org/app:v1
quay.io/a/b:v1
quay.io/deep/er/path:v2
ghcr.io/x/tool:v2
registry.k8s.io/pause:3.9
LIST
}

# digest IMAGE: the digest of the application's image, by its full name.
digest() { sealer inspect app:v1 --images --format '{{if eq .Reference "'"$1"'"}}{{.Digest}}{{end}}' | grep . | head -n 1; }

# platform_digest REPOSITORY TAG: the digest of the manifest for linux/amd64.
platform_digest() {
  skopeo inspect --raw --tls-verify=false "docker://sea.hub:5000/$1:$2" | python3 -c '
import json, sys
print(*[m["digest"] for m in json.load(sys.stdin)["manifests"] if m["platform"]["os"] + m["platform"]["architecture"] == "linuxamd64"])'
}

# pod NAME CONTAINER=IMAGE... [-- INIT=IMAGE...]: a pod as YAML.
pod() {
  printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s}\nspec:\n  automountServiceAccountToken: false\n  containers:\n' "$1" "$ns"
  shift
  local c
  for c; do
    if [ "$c" = -- ]; then printf '  initContainers:\n'; continue; fi
    printf '  - {name: "%s", image: "%s"}\n' "${c%%=*}" "${c#*=}"
  done
}

# images POD: its images, one a line.
images() {
  kubectl -n "$ns" get pod "$1" -o 'jsonpath={range .spec.containers[*]}{.image}{"\n"}{end}{range .spec.initContainers[*]}{.image}{"\n"}{end}{range .spec.ephemeralContainers[*]}{.image}{"\n"}{end}'
}

# becomes IMAGE WANT: a server-side dry run gives a pod with IMAGE the image WANT.
becomes() {
  [ "$(kubectl run probe --image="$1" --restart=Never --dry-run=server -o 'jsonpath={.spec.containers[0].image}' 2>/dev/null)" = "$2" ]
}

# denied IMAGE: a pod with IMAGE is refused by name.
denied() {
  local out
  if out=$(kubectl run probe --image="$1" --restart=Never --dry-run=server 2>&1); then return 1; fi
  case $out in *"$1"*'not in the ClusterImage'*) ;; *) return 1 ;; esac
}

# served IMAGE: the private registry has it: the manifest by name and by digest,
# and every blob of linux/amd64, whose digests skopeo checks.
served() {
  local name=${1#sea.hub:5000/} reference repository
  case $name in
  *@*) reference=${name#*@} repository=${name%%@*} repository=${repository%%:*} ;;
  *:*) reference=${name##*:} repository=${name%:*} ;;
  *) reference=latest repository=$name ;;
  esac
  local accept='application/vnd.oci.image.index.v1+json,application/vnd.oci.image.manifest.v1+json,application/vnd.docker.distribution.manifest.list.v2+json,application/vnd.docker.distribution.manifest.v2+json'
  python3 - "$repository" "$reference" "$accept" <<'PYTHON' || return 1
import hashlib, json, sys, urllib.request
repository, reference, accept = sys.argv[1:]
def get(kind, ref, method="GET"):
    url = f"http://sea.hub:5000/v2/{repository}/{kind}/{ref}"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}, method=method)) as r:
        return r.headers, r.read()
headers, body = get("manifests", reference)
digest = "sha256:" + hashlib.sha256(body).hexdigest()
assert headers["Docker-Content-Digest"] == digest, (headers, digest)
assert get("manifests", digest)[1] == body
manifest = json.loads(body)
for m in manifest.get("manifests", []):
    if (m["platform"]["os"], m["platform"]["architecture"]) == ("linux", "amd64"):
        manifest = json.loads(get("manifests", m["digest"])[1])
for blob in [manifest["config"], *manifest["layers"]]:
    get("blobs", blob["digest"], "HEAD")
PYTHON
  local source=docker://sea.hub:5000/$repository
  case $reference in sha256:*) source=$source@$reference ;; *) source=$source:$reference ;; esac
  skopeo copy --quiet --src-tls-verify=false --override-os linux --override-arch amd64 "$source" "dir:$work/pulled" || return 1
  rm -rf "$work/pulled"
}

# own_images resolves and pulls the images of Kyverno's own Deployments, which no
# policy redirects: their manifest was rewritten.
own_images() {
  local image n=0
  while IFS= read -r image; do
    served "$image" || fail "Kyverno has $image, which the registry does not serve"
    printf '   %s\n' "$image"
    n=$((n + 1))
  done < <(kubectl -n kyverno get deployments,cronjobs -o json | grep -o '"image": "[^"]*"' | cut -d '"' -f 4 | sort -u)
  [ "$n" -ge 5 ] || fail "Kyverno has its images"
  printf '%-28s %3d images of its own, all served and pulled\n' "Kyverno ${version#v}" "$n" >> "$work/summary"
}

# before_kyverno creates a pod that is there before any policy.
before_kyverno() {
  ns=default
  pod old app=nginx:1.25 | kubectl create -f - >/dev/null
}

# pods ENGINE creates pods in a new namespace, reads them back, and resolves and
# pulls each image.
pods() {
  local latest quay two amd64
  latest=$(digest docker.io/library/nginx:latest) two=$(digest docker.io/library/nginx:1.25) quay=$(digest quay.io/a/b:v1)
  amd64=$(platform_digest library/nginx 1.25)
  [[ -n $latest && -n $two && -n $quay && -n $amd64 ]] || fail "the digests of the images are known"
  space=$((${space:-0} + 1))
  ns=pods-$space
  kubectl create namespace "$ns" >/dev/null
  {
    pod plain app=nginx; echo ---
    pod library app=library/nginx; echo ---
    pod tag app=nginx:1.25; echo ---
    pod hub app=docker.io/nginx:1.25 b=docker.io/library/redis:7.2 c=index.docker.io/nginx:1.25; echo ---
    pod digest "app=nginx@$latest" "b=quay.io/a/b@$quay"; echo ---
    pod both "app=nginx:1.25@$two"; echo ---
    pod platform "app=nginx@$amd64"; echo ---
    pod names my-nginx=nginx:1.25 0app=quay.io/a/b:v1 123=org/app:v1; echo ---
    pod init-containers app=nginx -- i-1=busybox:1.36 i2=quay.io/deep/er/path:v2 "i3=sea.hub:5000/library/redis:7.2"; echo ---
    pod others app=ghcr.io/x/tool:v2 b=registry.k8s.io/pause:3.9; echo ---
    pod already app=sea.hub:5000/library/nginx:1.25 "b=sea.hub:5000/library/nginx@$latest"
  } > "$work/pods.yaml"
  kubectl create -f "$work/pods.yaml" >/dev/null || fail "the pods are created"
  kubectl -n "$ns" debug tag --image=busybox:1.36 -c dbg-1 -- sh >/dev/null 2>&1
  kubectl -n "$ns" debug tag "--image=quay.io/a/b@$quay" -c dbg-2 -- sh >/dev/null 2>&1
  kubectl -n "$ns" create deployment web --image=nginx:1.25 >/dev/null
  [ "$(kubectl -n "$ns" get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}')" = nginx:1.25 ] || fail "a Deployment keeps its image"
  # No controller runs here: this is the pod that one would make of it.
  pod web-1 nginx=nginx:1.25 | kubectl create -f - >/dev/null
  local p image n=0 count=0
  for p in plain library tag hub digest both platform names init-containers others already web-1; do
    count=$((count + 1))
    while IFS= read -r image; do
      case $image in sea.hub:5000/*) ;; *) fail "pod $p has $image, which no redirect sent to the private registry" ;; esac
      served "$image" || fail "pod $p has $image, which the registry does not serve"
      printf '   %-16s %s\n' "$p" "$image"
      n=$((n + 1))
    done < <(images "$p")
  done
  [ "$(images tag | wc -l)" = 3 ] || fail "both ephemeral containers are there"
  printf '%-28s %3d pods, %3d images, all served and pulled\n' "$1" "$count" "$n" >> "$work/summary"
  echo "   ok: $n images of $count pods are served, by name and by digest, and pulled"
}

# updates ENGINE changes pods that are there.
updates() {
  local now
  kubectl -n "$ns" set image pod/plain app=redis:7.2 >/dev/null
  now=$(images plain)
  [ "$now" = sea.hub:5000/library/redis:7.2 ] || fail "a new image is redirected, not $now"
  served "$now" || fail "the registry serves $now"
  kubectl -n "$ns" label pod plain a=b >/dev/null
  [ "$(images plain)" = "$now" ] || fail "a label changes no image"
  pod both "app=nginx:1.25@$(digest docker.io/library/nginx:1.25)" | kubectl apply -f - >/dev/null 2>&1 || fail "the manifest is applied again"
  case $(images both) in sea.hub:5000/library/nginx:1.25@*) ;; *) fail "applying the manifest again changes nothing" ;; esac
  ns=default
  kubectl label --overwrite pod old "a=$1" >/dev/null
  [ "$(images old)" = nginx:1.25 ] || fail "a pod from before keeps its image when it gets a label"
  echo "   ok: new images are redirected; labels, and pods from before, are left alone"
}
