package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// ready NAME FILE waits until FILE exists, which a program in the background
// writes when it is ready, and puts its content in $NAME.
func waitReady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ready NAME FILE")
	}
	for range 600 {
		if b, err := os.ReadFile(ts.MkAbs(args[1])); err == nil && len(b) > 0 {
			ts.Setenv(args[0], strings.TrimSpace(string(b)))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s did not appear", args[1])
}

// get CODE [-user USER:PASSWORD] [-method METHOD] [-range RANGE] [-within TIME] URL
// asks for URL and fails unless the answer is CODE, within TIME at last. stdout is the digest of the body,
// its length, the headers, and the body if it is text.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args)%2 != 0 {
		ts.Fatalf("usage: get CODE [-user USER:PASSWORD] [-method METHOD] [-range RANGE] [-within TIME] URL")
	}
	var end time.Time
	r, err := http.NewRequest(http.MethodGet, args[len(args)-1], nil)
	ts.Check(err)
	for i := 1; i+1 < len(args); i += 2 {
		switch value := args[i+1]; args[i] {
		case "-user":
			user, password, _ := strings.Cut(value, ":")
			r.SetBasicAuth(user, password)
		case "-method":
			r.Method = value
		case "-range":
			r.Header.Set("Range", value)
		case "-within":
			within, err := time.ParseDuration(value)
			ts.Check(err)
			end = time.Now().Add(within)
		default:
			ts.Fatalf("get: unknown flag %s", args[i])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	for err == nil && strconv.Itoa(resp.StatusCode) != args[0] && time.Now().Before(end) {
		resp.Body.Close()
		time.Sleep(20 * time.Millisecond)
		resp, err = http.DefaultTransport.RoundTrip(r)
	}
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	out := ts.Stdout()
	fmt.Fprintf(out, "sha256:%x\n%d bytes\n", sha256.Sum256(body), len(body))
	resp.Header.Del("Date") // scripts compare answers
	ts.Check(resp.Header.Write(out))
	if kind := resp.Header.Get("Content-Type"); strings.Contains(kind, "json") || strings.HasPrefix(kind, "text/") {
		_, err := out.Write(body)
		ts.Check(err)
	}
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("%s %s: %s, want %s", r.Method, r.URL, resp.Status, args[0])
	}
}
