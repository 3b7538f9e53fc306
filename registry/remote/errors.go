package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Errors that the methods of Client wrap; test with errors.Is.
var (
	ErrNotFound     = errors.New("not found")
	ErrUnauthorized = errors.New("unauthorized") // no or wrong credentials, or no permission
	ErrBlocked      = errors.New("blocked by registries.conf")
	ErrUnsupported  = errors.New("unsupported") // schema 1, nested index, unknown media type
	ErrDigest       = errors.New("content does not match its descriptor")
	ErrPlatform     = errors.New("platform not in the image")
	ErrPlainHTTP    = errors.New("it speaks plain http, and is not said to be insecure")
	ErrSparse       = errors.New("the registry takes no index whose manifests it has not all")
	ErrOffline      = errors.New("not in the store, and offline")
)

// statusError is an answer with another status than the request wants.
type statusError struct {
	request    string // method and URL, without query
	status     int
	detail     string        // the registry's own explanation
	retryAfter time.Duration // at most mostPause
	pause      time.Duration // as the registry asks for it
	served     int64         // of 429: the requests that the host had served until then
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%s: %d %s", e.request, e.status, http.StatusText(e.status))
	if e.detail != "" {
		s += ": " + e.detail
	}
	if e.pause > mostPause {
		s += fmt.Sprintf(" (it asks for a pause of %s; sealer waits %s at most before it tries again)", e.pause.Round(time.Second), mostPause)
	}
	return s
}

func (e *statusError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.status == http.StatusNotFound
	case ErrUnauthorized:
		return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
	}
	return false
}

// newStatusError reads the errors in resp's body, as the distribution
// specification defines them. The text comes from the registry: it is shortened,
// and control characters that could disturb a terminal are removed.
func newStatusError(resp *http.Response) *statusError {
	e := &statusError{
		request: describe(resp.Request.Method, resp.Request.URL),
		status:  resp.StatusCode,
		pause:   retryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
	e.retryAfter = min(e.pause, mostPause)
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 8<<10))
	var body struct {
		Errors  []struct{ Code, Message string }
		Details string // the field that token servers use
		Message string
	}
	if json.Unmarshal(b, &body) != nil {
		return e
	}
	var parts []string
	for _, x := range body.Errors {
		parts = append(parts, strings.Trim(x.Code+": "+x.Message, ": "))
	}
	if len(parts) == 0 {
		parts = append(parts, body.Details+body.Message)
	}
	e.detail = printable(strings.Join(parts, "; "), 300)
	return e
}

func printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strings.TrimSpace(s)
}

// describe names a request without the query, which may hold a signature or an
// upload's state.
func describe(method string, u *url.URL) string {
	return method + " " + u.Scheme + "://" + u.Host + u.EscapedPath()
}

// mostPause bounds the wait for Retry-After, because a registry must not hold a
// build for hours.
const mostPause = 2 * time.Minute

// retryAfter reads the Retry-After header: seconds or a date.
func retryAfter(h string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseInt(strings.TrimSpace(h), 10, 64); err == nil {
		d = time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
	} else if t, err := http.ParseTime(h); err == nil {
		d = t.Sub(now)
	}
	return max(d, 0)
}

// ErrStalled is wrapped by the error of a transfer in which less than MinRate
// arrived over Options.Stall.
var ErrStalled = errors.New("no data, or too little, for too long")

// errTruncated ends a transfer that stopped before its end.
var errTruncated = errors.New("the transfer broke off")

// errRefreshed says that a token expired during an upload and that the next
// attempt has a new one.
var errRefreshed = errors.New("the registry refused an expired token")

// sinkError is a failure of the sink, or of the source of a push. Asking the
// registry again would not help.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

// unreachedError is the failure to connect to a host that has never answered. Its
// name or port is probably wrong, or it is down, so only one more attempt is
// made, almost at once. A host that has answered before may be restarting, and is
// retried as after any transient failure.
type unreachedError struct{ error }

func (e unreachedError) Unwrap() error { return e.error }

// unreached makes err an unreachedError when it is a failed connection to h and h
// has never answered.
func (h *host) unreached(err error) error {
	var op *net.OpError
	var dns *net.DNSError
	if h.answered.Load() || !errors.As(err, &op) || op.Op != "dial" || errors.As(err, &dns) && !dns.IsNotFound {
		return err
	}
	return unreachedError{err}
}

// Unavailable reports whether err, of a Client's method, is about the registry and
// not about what was asked for: no connection, or an answer that it cannot serve
// requests now. Every further attempt was made then.
func Unavailable(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.status == http.StatusTooManyRequests || status.status >= http.StatusInternalServerError && status.status != http.StatusNotImplemented
	}
	var network net.Error
	return errors.As(err, new(unreachedError)) || errors.As(err, &network) || errors.Is(err, ErrPlainHTTP)
}

// permanentError is a failure that another attempt would only repeat.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// transient reports whether another attempt may succeed.
func transient(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	var status *statusError
	if errors.As(err, &status) {
		switch status.status {
		case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var (
		sink      sinkError
		permanent permanentError
		cert      *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		record    tls.RecordHeaderError
		alert     tls.AlertError
	)
	for _, target := range []any{&sink, &permanent, &cert, &authority, &record, &alert} {
		if errors.As(err, target) {
			return false
		}
	}
	for _, target := range []error{ErrUnsupported, ErrDigest, ErrBlocked, ErrUnauthorized} {
		if errors.Is(err, target) {
			return false
		}
	}
	return true // connection refused, reset, timed out, cut
}

// A TrustError says that a host cannot be spoken to safely: its certificate is
// not trusted, or it speaks plain http.
type TrustError struct {
	Host string // host[:port], as references name it
	Err  error
}

func (e *TrustError) Error() string { return e.Err.Error() }
func (e *TrustError) Unwrap() error { return e.Err }

// Unknown reports whether the certificate's CA is not known here, and no more than
// that is wrong.
func (e *TrustError) Unknown() bool {
	return errors.As(e.Err, new(x509.UnknownAuthorityError))
}

// untrusted makes err a TrustError when it is one.
func (h *host) untrusted(err error) error {
	if errors.Is(err, ErrPlainHTTP) || errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.UnknownAuthorityError)) {
		return &TrustError{h.name, err}
	}
	return err
}

// plainHTTP explains, in a user's words, a server that answers a TLS handshake in
// plain http.
func plainHTTP(err error) error {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		return fmt.Errorf("%w: %w", ErrPlainHTTP, err)
	}
	return err
}

// oneLine joins errors into an error of one line. They are the ways in which one
// operation failed.
func oneLine(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return manyErrors(errs)
}

type manyErrors []error

func (m manyErrors) Unwrap() []error { return m }

func (m manyErrors) Error() string {
	var parts []string
	for _, err := range m {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, "; then ")
}
