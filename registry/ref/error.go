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

// Error returns `invalid image reference "Text": Reason`.
func (e *Error) Error() string { return fmt.Sprintf("%s %q: %s", ErrInvalid, e.Text, e.Reason) }

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

// explain returns the reason, in a user's words, why the library refuses s with
// err.
func explain(s string, err error) string {
	switch {
	case s == "":
		return "it is empty"
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
