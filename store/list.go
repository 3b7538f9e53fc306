package store

import (
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A Listed is an image as the index names it. Of the image itself nothing was read.
type Listed struct {
	Names      []string           // its normalised references, sorted; empty when it has none
	Descriptor ocispec.Descriptor // a manifest, or an image index
	Built      time.Time          // when it was built here; zero for one that came
	Added      time.Time          // as Image.Added
}

// name returns a name of the image, or its ID.
func (l Listed) name() string {
	if len(l.Names) > 0 {
		return l.Names[0]
	}
	return l.Descriptor.Digest.Encoded()
}

// List returns all images by name, those without a name last, from the index
// alone: images that are damaged, too.
func (s *Store) List() ([]Listed, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	return listed(idx), nil
}

func listed(idx *ocispec.Index) []Listed {
	var out []Listed
	place := map[digest.Digest]int{}
	for _, named := range []bool{true, false} {
		for _, entry := range idx.Manifests {
			name := nameOf(entry)
			if (name != "") != named {
				continue
			}
			i, seen := place[entry.Digest]
			if !seen {
				i = len(out)
				place[entry.Digest] = i
				t := timesOf(entry)
				l := Listed{Descriptor: entry, Built: t.built, Added: t.added}
				l.Descriptor.Annotations = nil
				out = append(out, l)
			}
			if named {
				out[i].Names = append(out[i].Names, name)
			}
		}
	}
	for _, l := range out {
		slices.Sort(l.Names)
	}
	return out
}
