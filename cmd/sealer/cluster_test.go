package main

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// cluster KUBECONFIG PODS starts an API server that has the pods of a JSON list
// and nothing else, and writes a kubeconfig file for it.
func startCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cluster KUBECONFIG PODS")
	}
	pods := ts.ReadFile(args[1])
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		list := "[]"
		if r.URL.Path == "/api/v1/pods" || r.URL.Path == "/api/v1/namespaces/shop/pods" {
			list = pods
		}
		fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{},"items":%s}`, list)
	}))
	ts.Defer(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\n"+
		"users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n",
		server.URL, base64.StdEncoding.EncodeToString(ca))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(config), 0o600))
}
