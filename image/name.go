package image

import "github.com/clusterimage/sealer/registry/ref"

// A Name is the reference of a container image in a Config. It is written as
// text.
//
// An image of sealer 0.9 may list text that is no reference. That text is kept as
// it stands, in Text, for whoever reads or builds on the image: the Reference is
// zero then, and no registry serves the image.
type Name struct {
	ref.Reference
	Text string // "" where Reference is set
}

// ParseName reads s, normalising a reference.
func ParseName(s string) Name {
	r, err := ref.Parse(s)
	if err != nil {
		return Name{Text: s}
	}
	return Name{Reference: r}
}

// IsReference reports whether n has a Reference.
func (n Name) IsReference() bool { return n.Repository != "" }

// String returns the normalised reference, or Text.
func (n Name) String() string {
	if !n.IsReference() {
		return n.Text
	}
	return n.Reference.String()
}

// Familiar returns the shortest form that users write, or Text.
func (n Name) Familiar() string {
	if !n.IsReference() {
		return n.Text
	}
	return n.Reference.Familiar()
}

// MarshalText implements encoding.TextMarshaler.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It never fails.
func (n *Name) UnmarshalText(text []byte) error {
	*n = ParseName(string(text))
	return nil
}
