package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// cluster KUBECONFIG PODS starts an API server that has the pods of a JSON list
// and nothing else, and writes a kubeconfig file for it. The server demands a client certificate,
// which the context c has and the context bare lacks.
func startCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cluster KUBECONFIG PODS")
	}
	pods := ts.ReadFile(args[1])
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		list := "[]"
		if r.URL.Path == "/api/v1/pods" || r.URL.Path == "/api/v1/namespaces/shop/pods" {
			list = pods
		}
		fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{},"items":%s}`, list)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	ts.Defer(server.Close)
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	ts.Check(err)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\n"+
		"users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}, {name: bare, user: {token: SECRET}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}, {name: bare, context: {cluster: c, user: bare}}]\n",
		server.URL, base64.StdEncoding.EncodeToString(ca), base64.StdEncoding.EncodeToString(ca),
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(config), 0o600))
}
