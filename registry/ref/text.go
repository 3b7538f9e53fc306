package ref

import "fmt"

// MarshalText returns the form of String, and no text for the zero Reference.
// A Reference that is neither zero nor complete, as Parse never makes one, is
// an error: UnmarshalText could not read it.
func (r Reference) MarshalText() ([]byte, error) {
	switch {
	case r == Reference{}:
		return nil, nil
	case r.Registry == "" || r.Repository == "" || r.Tag == "" && r.Digest == "":
		return nil, fmt.Errorf("write image reference %q: it is not complete", r)
	}
	return []byte(r.String()), nil
}

// UnmarshalText sets r to Parse(text). Empty text gives the zero Reference, so
// a document that must have a reference is checked for that after decoding.
// On an error, which is an *Error, r is unchanged.
func (r *Reference) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = Reference{}
		return nil
	}
	read, err := Parse(string(text))
	if err == nil {
		*r = read
	}
	return err
}
