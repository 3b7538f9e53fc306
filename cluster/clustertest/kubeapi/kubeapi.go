// Package kubeapi stands for the API server of a cluster that is none: for test
// clusters without the real one, and for tests.
package kubeapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
)

// Handler answers as an API server that knows the nodes, which are ready, and one
// pod in kube-system, and takes all that is written to it. pods returns the list of
// the pods of all namespaces, JSON; nil is a list without pods.
func Handler(nodes []string, pods func() []byte) http.Handler {
	var items []any
	for _, n := range nodes {
		items = append(items, ready(n))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = map[string]any{}
		switch {
		case r.URL.Path == "/api/v1/pods":
			if b := pods(); b != nil {
				_, _ = w.Write(b) // the client may be gone
				return
			}
			answer = list(nil)
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			answer = list(items)
		case strings.HasSuffix(r.URL.Path, "/pods"):
			answer = list([]any{ready("coredns")})
		case strings.Contains(r.URL.Path, "/nodes/") && r.Method == http.MethodGet:
			answer = ready(path.Base(r.URL.Path))
		}
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone
	})
}

func list(items []any) any {
	if items == nil {
		items = []any{}
	}
	return map[string]any{"items": items}
}

// ready is an object that is both a node that is ready and a pod that runs.
func ready(name string) any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "kube-system"},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "phase": "Running"},
	}
}

// Kubeconfig returns the administrator's kubeconfig of the API server at url, whose
// certificate the authority ca, PEM, has signed.
func Kubeconfig(url string, ca []byte) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: admin
contexts:
- name: admin
  context: {cluster: c, user: admin}
clusters:
- name: c
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user: {token: none}
`, url, base64.StdEncoding.EncodeToString(ca))
}
