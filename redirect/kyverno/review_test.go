package kyverno_test

import (
	"os"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/redirect/kyverno"
	"github.com/clusterimage/sealer/redirect/redirecttest"
)

// published is a policy with the defects of the one that circulates: an
// unquoted name, a list without default, a tag without digest.
const published = `apiVersion: v1
kind: Namespace
metadata: {name: x}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: redirect
spec:
  rules:
  - name: main
    mutate:
      foreach:
      - list: "request.object.spec.containers"
        patchStrategicMerge:
          spec:
            containers:
            - name: "{{ element.name }}"
              image: "reg:5000/{{ images.containers.{{element.name}}.path}}:{{images.containers.{{element.name}}.tag}}"
  - name: init
    mutate:
      foreach:
      - list: "request.object.spec.initContainers"
        patchStrategicMerge: {}
`

func TestReview(t *testing.T) {
	t.Parallel()
	const loop = "#!/bin/bash\nwhile true; do\n  r=$(kubectl get cpol -o go-template={{.status.ready}})\n  [ \"$r\" = true ] && break\ndone\n"
	for name, tc := range map[string]struct {
		file, content string
		want          []string
	}{
		"published policy": {"p.yaml", published, []string{"p.yaml:19: container names", "p.yaml:19: the digest", "p.yaml:23: Kyverno 1.8.2"}},
		"endless loop":     {"wait.sh", loop, []string{"wait.sh:3: this loop never ends"}},
		"loop that knows":  {"wait.sh", loop + "# conditions\n", nil},
		"no policy":        {"p.yaml", "kind: ClusterPolicy # foreach kyverno.io/\n", nil},
		"not yaml":         {"p.yaml", "kyverno.io/ foreach\n\t{{", nil},
		"empty":            {"p.yaml", "", nil},
	} {
		got := kyverno.Review(tc.file, []byte(tc.content))
		if len(got) != len(tc.want) {
			t.Errorf("%s: %d warnings, want %d: %v", name, len(got), len(tc.want), got)
			continue
		}
		for i, want := range tc.want {
			if !strings.HasPrefix(got[i].String(), want) || !strings.Contains(got[i].Fix, "sealer init kyverno") {
				t.Errorf("%s: warning %q, want %q and the command", name, got[i], want)
			}
		}
	}
}

func TestReviewAcceptsOurs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etc/redirect-registry.yaml", "scripts/wait-kyverno-ready.sh", "etc/install.yaml"} {
		b, err := os.ReadFile("../../examples/kyverno/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := kyverno.Review(name, b); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestReviewOfThePublishedPolicy(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(redirecttest.Shared(t, "kyverno/policies/seed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := kyverno.Review("seed.yaml", b); len(got) != 3 {
		t.Errorf("%d warnings, want 3: %v", len(got), got)
	}
}
