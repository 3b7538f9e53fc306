// Command web is the web server that stands for nginx in test clusters, and the
// client that looks at such servers from inside a pod:
//
//	web                serve on :80
//	web get URL        print the body of the answer
//	web resolve NAME   print the addresses of a name
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		switch args[0] {
		case "get":
			return get(ctx, args[1])
		case "resolve":
			return resolve(ctx, args[1])
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := http.Server{Addr: ":80", ReadHeaderTimeout: 10 * time.Second}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s serves %s\n", name, r.RemoteAddr)
	})
	return server.ListenAndServe()
}

func get(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, a.Status)
	}
	_, err = io.Copy(os.Stdout, a.Body)
	return err
}

func resolve(ctx context.Context, name string) error {
	addrs, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return err
	}
	_, err = fmt.Println(strings.Join(addrs, " "))
	return err
}
