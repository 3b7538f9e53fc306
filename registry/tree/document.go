package tree

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
)

const (
	// MediaTypeDocument is the media type of a registry layer's document.
	MediaTypeDocument = "application/vnd.sealer.registry.layer.v1+json"
	// MediaTypeBlob is the media type of the descriptor of each mirrored blob
	// that a registry layer adds. In a ClusterImage's manifest these descriptors
	// follow the document's, in the order of Document.Blobs.
	MediaTypeBlob = "application/vnd.sealer.registry.blob.v1"

	schemaVersion = 1
)

// ErrInvalid is wrapped by every error of Parse and Validate.
var ErrInvalid = errors.New("invalid registry layer document")

// A Document is the content of one registry layer. Encode writes its canonical
// form. A document describes only the additions of its layer. The cluster sees
// the union of all registry layers of a ClusterImage, in which a tag of a higher
// layer hides the same tag of a lower one.
type Document struct {
	SchemaVersion int          `json:"schemaVersion"`
	Repositories  []Repository `json:"repositories"`
	// Blobs are the blobs, manifests among them, that no layer below has.
	Blobs []Blob `json:"blobs"`
}

// A Repository is one repository of the private registry.
type Repository struct {
	Name      string     `json:"name"` // "library/nginx"
	Tags      []Tag      `json:"tags,omitempty"`
	Revisions []Revision `json:"revisions"`
	// Layers are the configs and layers that the revisions name and the registry
	// tree has: for a multi-platform image only those of the chosen platforms.
	Layers []digest.Digest `json:"layers,omitempty"`
}

// A Tag is a tag link.
type Tag struct {
	Name    string        `json:"name"`
	Digest  digest.Digest `json:"digest"`
	Sources Sources       `json:"sources,omitempty"` // references that were mirrored under this tag
}

// A Revision is a manifest or an image index that the repository serves by
// digest.
type Revision struct {
	Digest    digest.Digest `json:"digest"`
	MediaType string        `json:"mediaType"`
	Size      int64         `json:"size"` // bytes
	// Sources are the references that were mirrored as this revision; empty for
	// the platform manifests of an index.
	Sources Sources `json:"sources,omitempty"`
}

// A Blob is a blob that the layer adds.
type Blob struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"` // bytes
}

// Encode sorts d, drops repetitions and returns its canonical JSON and the
// digest of it, which is the layer's ID.
func (d *Document) Encode() ([]byte, digest.Digest, error) {
	d.SchemaVersion = schemaVersion
	d.sort()
	if err := d.Validate(); err != nil {
		return nil, "", err
	}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, "", fmt.Errorf("encode registry layer document: %w", err)
	}
	return b, digest.FromBytes(b), nil
}

// Parse reads and validates a document. A document that is not in canonical form
// is refused, because its digest could not be compared.
func Parse(b []byte) (*Document, error) {
	if dense(b) {
		return nil, fmt.Errorf("%w: not in canonical form: more entries than so many bytes can name", ErrInvalid)
	}
	var d Document
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if d.SchemaVersion != schemaVersion {
		return nil, fmt.Errorf("%w: schemaVersion %d: this sealer reads %d", ErrInvalid, d.SchemaVersion, schemaVersion)
	}
	again, _, err := d.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: not in canonical form", ErrInvalid)
	}
	return &d, nil
}

// dense reports whether b has more objects or list entries than a canonical
// document of as many bytes. Decoded, "{}," takes 30 times its bytes of memory, so
// it is refused before. The shortest object of a document is
// {"name":"a","revisions":[]}, the shortest entry without one is "a.b/c:1",.
func dense(b []byte) bool {
	const object, entry = 27, 10
	return bytes.Count(b, []byte("{"))*object > len(b)+object || bytes.Count(b, []byte(","))*entry > len(b)+entry
}

func (d *Document) sort() {
	byDigest := func(a, b digest.Digest) int { return cmp.Compare(a, b) }
	for i := range d.Repositories {
		r := &d.Repositories[i]
		slices.SortFunc(r.Tags, func(a, b Tag) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(r.Revisions, func(a, b Revision) int { return byDigest(a.Digest, b.Digest) })
		slices.SortFunc(r.Layers, byDigest)
		r.Layers = slices.Compact(r.Layers)
		for j := range r.Tags {
			r.Tags[j].Sources = SortedSources(r.Tags[j].Sources)
		}
		for j := range r.Revisions {
			r.Revisions[j].Sources = SortedSources(r.Revisions[j].Sources)
		}
	}
	slices.SortFunc(d.Repositories, func(a, b Repository) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Blobs, func(a, b Blob) int { return byDigest(a.Digest, b.Digest) })
	d.Blobs = slices.Compact(d.Blobs)
	if d.Repositories == nil {
		d.Repositories = []Repository{}
	}
	if d.Blobs == nil {
		d.Blobs = []Blob{}
	}
}

// Sources are the references that an entry was mirrored from, sorted by their text.
type Sources []ref.Reference

// UnmarshalJSON reads a list of references, each after the one before it by its
// text. A reference takes a hundred times as long to parse as to compare, and eight
// times its bytes of memory, so that the order is checked before any is parsed.
func (s *Sources) UnmarshalJSON(b []byte) error {
	if err := ascending(b); err != nil {
		return err
	}
	return json.Unmarshal(b, (*[]ref.Reference)(s))
}

// ascending reports an entry of b, a JSON list of strings, that does not come after
// the one before it. Entries of other types are left to the decoder.
func ascending(b []byte) error {
	last, some := "", false
	for dec := json.NewDecoder(bytes.NewReader(b)); ; {
		t, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, ok := t.(string)
		if !ok {
			continue
		}
		if some && text <= last {
			return fmt.Errorf("not in canonical form: the source %q stands after %q", text, last)
		}
		last, some = text, true
	}
}

// SortedSources sorts s by the references' text, in place, and returns it
// without repetitions.
func SortedSources(s []ref.Reference) []ref.Reference {
	slices.SortFunc(s, func(a, b ref.Reference) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(s)
}

var (
	// The grammars of the OCI distribution specification, "Pulling manifests".
	repositoryName = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagName        = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]*$`)
)

// mostFaults is the most faults that Validate lists. A hostile document may have
// millions.
const mostFaults = 100

// faults are the first mostFaults of a document, and the number of the others.
type faults struct {
	errs []error
	more int
}

func (f *faults) add(format string, args ...any) {
	if len(f.errs) == mostFaults {
		f.more++
		return
	}
	f.errs = append(f.errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
}

func (f *faults) join() error {
	if f.more > 0 {
		return errors.Join(append(f.errs, fmt.Errorf("%w: %d more faults", ErrInvalid, f.more))...)
	}
	return errors.Join(f.errs...)
}

// Validate reports the faults of d, joined: an invalid name, tag or digest
// (which could lead out of the tree), a repeated entry, a tag without its
// revision in the repository. Of those beyond 100 it gives the number.
func (d *Document) Validate() error {
	var found faults
	bad := found.add
	names := map[string]bool{}
	for _, r := range d.Repositories {
		if !repositoryName.MatchString(r.Name) || len(r.Name) > 255 {
			bad("repository name %q", r.Name)
		}
		if names[r.Name] {
			bad("repository %s stands twice", r.Name)
		}
		names[r.Name] = true
		revisions := map[digest.Digest]bool{}
		for _, v := range r.Revisions {
			if !ref.IsSHA256(v.Digest) || revisions[v.Digest] || v.Size < 0 {
				bad("repository %s: revision %q", r.Name, v.Digest)
			}
			if slices.Contains(v.Sources, ref.Reference{}) {
				bad("repository %s: revision %q has a source without a name", r.Name, v.Digest)
			}
			revisions[v.Digest] = true
		}
		tags := map[string]bool{}
		for _, t := range r.Tags {
			if !tagName.MatchString(t.Name) || len(t.Name) > 128 || tags[t.Name] {
				bad("repository %s: tag %q", r.Name, t.Name)
			}
			tags[t.Name] = true
			if slices.Contains(t.Sources, ref.Reference{}) {
				bad("repository %s: tag %s has a source without a name", r.Name, t.Name)
			}
			if !revisions[t.Digest] {
				bad("repository %s: tag %s points at %q, which is no revision of it", r.Name, t.Name, t.Digest)
			}
		}
		for _, l := range r.Layers {
			if !ref.IsSHA256(l) {
				bad("repository %s: layer %q", r.Name, l)
			}
		}
	}
	blobs := map[digest.Digest]bool{}
	for _, b := range d.Blobs {
		if !ref.IsSHA256(b.Digest) || blobs[b.Digest] || b.Size < 0 {
			bad("blob %q of %d bytes", b.Digest, b.Size)
		}
		blobs[b.Digest] = true
	}
	return found.join()
}
