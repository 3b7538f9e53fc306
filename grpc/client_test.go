package grpc_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/grpc"
)

const maxMessage = 1000

// serve answers calls on a unix socket over HTTP/2.
func serve(t *testing.T, h http.HandlerFunc) *grpc.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	c := grpc.New(socket, maxMessage)
	t.Cleanup(c.Close)
	return c
}

// answer writes body, and status as the trailer; "" leaves it out.
func answer(body []byte, status, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		_, _ = w.Write(body) // the client may have gone
		if status != "" {
			w.Header().Set("Grpc-Status", status)
			w.Header().Set("Grpc-Message", message)
		}
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		ok := r.ProtoMajor == 2 && r.Method == http.MethodPost && r.URL.Path == "/a.v1.B/C" && r.Header.Get("TE") == "trailers" &&
			r.Header.Get("Content-Type") == "application/grpc" && r.Header.Get("Of") == "us"
		b := make([]byte, 20)
		n, _ := r.Body.Read(b)
		if !ok || string(b[:n]) != "\x00\x00\x00\x00\x02hi" {
			http.Error(w, "another call", http.StatusBadRequest)
			return
		}
		answer(grpc.Frame([]byte(strings.Repeat("x", maxMessage))), "0", "")(w, r)
	})
	b, err := c.Call(t.Context(), "a.v1.B/C", http.Header{"Of": {"us"}}, []byte("hi"))
	if err != nil || len(b) != maxMessage {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	one := grpc.Frame([]byte("m"))
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"an error of HTTP":      {http.NotFound, "it answers 404 Not Found, and does not speak gRPC"},
		"a web server":          {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(one) }, "it answers 200 OK, and does not speak gRPC"},
		"compressed":            {answer([]byte("\x01\x00\x00\x00\x01m"), "0", ""), "compression 1"},
		"too long":              {answer(grpc.Frame(make([]byte, maxMessage+1)), "0", ""), "an answer of 1001 bytes"},
		"length of 4 GiB":       {answer([]byte("\x00\xff\xff\xff\xffm"), "0", ""), "an answer of 4294967295 bytes"},
		"head cut":              {answer(one[:3], "0", ""), "unexpected EOF"},
		"message cut":           {answer(one[:5], "0", ""), "unexpected EOF"},
		"no message":            {answer(nil, "0", ""), "the answer has no message"},
		"two messages":          {answer(append(one, one...), "0", ""), "more than one answer"},
		"no status":             {answer(one, "", ""), "the answer broke off"},
		"status is no number":   {answer(one, "zero", ""), "the answer broke off"},
		"refused after message": {answer(one, "9", "a%20reason"), "a reason"},
		"refused":               {answer(nil, "9", "50%"), "50%"},
		"refused without words": {answer(nil, "9", ""), "gRPC status 9"},
		"refused in the header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "9")
			w.Header().Set("Grpc-Message", "no such service")
		}, "no such service"},
	} {
		_, err := serve(t, c.handler).Call(t.Context(), "a/b", nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if got, want := grpc.HasCode(err, grpc.FailedPrecondition), strings.HasPrefix(name, "refused"); got != want {
			t.Errorf("%s: HasCode %v", name, got)
		}
	}
}

func TestNoSocket(t *testing.T) {
	t.Parallel()
	_, err := grpc.New(filepath.Join(t.TempDir(), "none"), maxMessage).Call(t.Context(), "a/b", nil, nil)
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "localhost") {
		t.Errorf("error %v", err)
	}
}

// A context that ends is the error, with its cause, before the answer and within.
func TestContext(t *testing.T) {
	t.Parallel()
	errEnough := errors.New("enough")
	for _, begin := range []string{"", "\x00\x00\x00", "\x00\x00\x00\x00\x09half"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if begin != "" {
				answer([]byte(begin), "", "")(w, r)
				_ = http.NewResponseController(w).Flush() // the client may have gone
			}
			cancel(errEnough)
			<-r.Context().Done()
		})
		if _, err := c.Call(ctx, "a/b", nil, nil); !errors.Is(err, errEnough) {
			t.Errorf("after %q: %v", begin, err)
		}
	}
}
