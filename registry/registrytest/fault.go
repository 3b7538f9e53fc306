package registrytest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Fault makes requests fail. Faults are tried before authorisation, and only
// the first one that matches a request happens.
type Fault struct {
	On         Level
	Method     string // "" is every method
	Repository string // "" is every repository; else as in the URL of the request
	Reference  string // "" is every tag and digest
	Times      int    // how often it happens; 0 is always
	Do         Action
}

// An Action answers a request in place of next, the upstream. Tests may write
// their own.
type Action func(next http.Handler) http.Handler

func (f *Fault) fits(r Request) bool {
	return (f.On == Any || f.On == r.Level) &&
		(f.Method == "" || f.Method == r.Method) &&
		(f.Repository == "" || f.Repository == r.Repository) &&
		(f.Reference == "" || f.Reference == r.Reference)
}

// Inject adds f. The function that it returns counts how often f has happened.
func (u *Upstream) Inject(f Fault) (happened func() int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	in := &injected{Fault: f}
	u.faults = append(u.faults, in)
	return func() int {
		u.mu.Lock()
		defer u.mu.Unlock()
		return in.happened
	}
}

// ClearFaults removes every fault.
func (u *Upstream) ClearFaults() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults = nil
}

type injected struct {
	Fault
	happened int
}

func (u *Upstream) fault(r Request) Action {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.faults {
		if f.fits(r) && (f.Times == 0 || f.happened < f.Times) {
			f.happened++
			return f.Do
		}
	}
	return nil
}

// Status answers with code and headers, given as pairs: Status(429,
// "Retry-After", "1").
func Status(code int, headers ...string) Action {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			sendError(w, code, errorCode(code), "injected fault")
		})
	}
}

// Redirect sends the client to the same path below base, "http://host:port".
func Redirect(base string) Action {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, base+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		})
	}
}

// Cut breaks the connection after n bytes of the body.
func Cut(n int) Action {
	return rewrite(func(w http.ResponseWriter, _ *http.Request, a *answer) {
		a.sendHeader(w)
		_, _ = w.Write(a.body.Bytes()[:min(n, a.body.Len())])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// Stall sends n bytes of the body, and nothing more until the client has gone.
func Stall(n int) Action {
	return rewrite(func(w http.ResponseWriter, r *http.Request, a *answer) {
		if a.body.Len() <= n {
			a.send(w)
			return
		}
		a.sendHeader(w)
		_, _ = w.Write(a.body.Next(n)) // the client may have gone
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
}

// Truncate sends only the first n bytes of the body, with a Content-Length that
// agrees: only the digest or the size gives it away.
func Truncate(n int) Action {
	return rewrite(func(w http.ResponseWriter, _ *http.Request, a *answer) {
		a.body.Truncate(min(n, a.body.Len()))
		a.header.Set("Content-Length", strconv.Itoa(a.body.Len()))
		a.send(w)
	})
}

// Corrupt changes a byte in the middle of the body.
func Corrupt() Action {
	return rewrite(func(w http.ResponseWriter, _ *http.Request, a *answer) {
		if b := a.body.Bytes(); len(b) > 0 {
			b[len(b)/2] ^= 0xff
		}
		a.send(w)
	})
}

// Endless sends the body and then noise until the client goes away, without a
// Content-Length.
func Endless() Action {
	return rewrite(func(w http.ResponseWriter, r *http.Request, a *answer) {
		a.header.Del("Content-Length")
		a.send(w)
		noise := bytes.Repeat([]byte("endless "), 4<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(noise); err != nil {
				return
			}
		}
	})
}

// Trickle sends the body in pieces of n bytes with a pause before each.
func Trickle(n int, pause time.Duration) Action {
	return rewrite(func(w http.ResponseWriter, r *http.Request, a *answer) {
		a.sendHeader(w)
		for a.body.Len() > 0 {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(pause):
			}
			if _, err := w.Write(a.body.Next(n)); err != nil {
				return
			}
		}
	})
}

// Hold answers when release is closed. A client that goes away earlier gets
// nothing.
func Hold(release <-chan struct{}) Action {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
				next.ServeHTTP(w, r)
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		})
	}
}

// Edit lets f change the status, the headers and the body of an answer.
func Edit(f func(status int, h http.Header, body []byte) (int, []byte)) Action {
	return rewrite(func(w http.ResponseWriter, _ *http.Request, a *answer) {
		status, body := f(a.status, a.header, bytes.Clone(a.body.Bytes()))
		a.status = status
		a.body.Reset()
		a.body.Write(body)
		a.send(w)
	})
}

// rewrite lets f send the upstream's answer. HEAD requests and errors pass
// unchanged.
func rewrite(f func(w http.ResponseWriter, r *http.Request, a *answer)) Action {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a := newAnswer()
			next.ServeHTTP(a, r)
			if r.Method == http.MethodHead || a.status >= 300 {
				a.send(w)
				return
			}
			f(w, r, a)
		})
	}
}

// An answer is a response kept in memory.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{status: http.StatusOK, header: http.Header{}} }

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) sendHeader(w http.ResponseWriter) {
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.status)
}

func (a *answer) send(w http.ResponseWriter) {
	a.sendHeader(w)
	_, _ = w.Write(a.body.Bytes()) // the client may have gone
}

// sendError writes an error in the form of "Error Codes" of the OCI distribution
// specification.
func sendError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`+"\n", code, message)
}

func errorCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHORIZED"
	case http.StatusForbidden:
		return "DENIED"
	case http.StatusNotFound:
		return "NAME_UNKNOWN"
	case http.StatusTooManyRequests:
		return "TOOMANYREQUESTS"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	}
	return "UNKNOWN"
}
