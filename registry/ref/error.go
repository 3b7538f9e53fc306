package ref

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// ErrInvalid is wrapped by every error of Parse.
var ErrInvalid = errors.New("invalid image reference")

// An Error is a text that Parse refuses. It wraps ErrInvalid.
type Error struct {
	Text   string // as given to Parse
	Reason string // in a user's words, such as "the repository must be lowercase"
}

// Error returns `invalid image reference "Text": Reason`, without a password.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %q: %s", ErrInvalid, Redact(e.Text), e.Reason)
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

// Redact returns s for an error or a log: of user:password@host/name the password
// is left out. No reference has one, but a user may type it.
// It may stand in a line with other words, in quotes and brackets.
func Redact(s string) string {
	if !strings.Contains(s, "@") {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		end := strings.IndexAny(s, " \t\r\n\"'[]{}<>,|`")
		if end < 0 {
			end = len(s)
		}
		if user, host, ok := cutPassword(s[:end]); ok {
			b.WriteString(user + ":***@" + host)
		} else {
			b.WriteString(s[:end])
		}
		if end < len(s) {
			b.WriteByte(s[end])
			end++
		}
		s = s[end:]
	}
	return b.String()
}

// cutPassword divides user:password@rest. The @ of a digest divides nothing.
func cutPassword(s string) (user, rest string, ok bool) {
	end := len(s)
	if i := strings.LastIndexByte(s, '@'); i >= 0 && digestLike(s[i+1:]) {
		end = i
	}
	at := strings.LastIndexByte(s[:end], '@')
	if at < 0 {
		return "", "", false
	}
	start := 0
	if i := strings.Index(s[:at], "://"); i >= 0 {
		start = i + len("://")
	}
	colon := strings.IndexByte(s[start:at], ':')
	if colon < 0 {
		return "", "", false
	}
	return s[:start+colon], s[at+1:], true
}

func hasPassword(s string) bool {
	_, _, ok := cutPassword(s)
	return ok
}

// digestLike reports whether s begins as a digest does, maybe a wrong one.
func digestLike(s string) bool {
	algorithm, _, ok := strings.Cut(s, ":")
	return ok && strings.HasPrefix(algorithm, "sha") && !strings.ContainsAny(algorithm, "./")
}

// explain returns the reason, in a user's words, why the library refuses s with
// err.
func explain(s string, err error) string {
	switch {
	case s == "":
		return "it is empty"
	case hasPassword(s):
		return "no user and password belong into it; log in instead"
	case strings.ContainsAny(s, " \t\r\n"):
		return "it contains white space"
	case strings.Contains(s, "://"):
		return "it is a URL; drop the scheme"
	case errors.Is(err, reference.ErrNameContainsUppercase):
		return "the repository must be lowercase"
	case errors.Is(err, reference.ErrReferenceInvalidFormat):
		return "want [registry/]repository[:tag][@digest]"
	}
	return err.Error()
}
