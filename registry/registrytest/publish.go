package registrytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// A publication is an image of a repository that is pushed on the first request
// for the repository. Most tests use few of the images, and pushing all of them
// would cost more than the rest of the test.
type publication struct {
	tag     string
	content func() (*Content, error) // the same each time
}

// Add publishes img, under its path and under its full name. An existing tag
// moves.
func (u *Upstream) Add(img Image) (*Content, error) {
	p, err := u.announce(img)
	if err != nil {
		return nil, err
	}
	return p.content()
}

func (u *Upstream) announce(img Image) (publication, error) {
	r, err := ref.Parse(img.Name)
	if err != nil {
		return publication{}, fmt.Errorf("publish image: %w", err)
	}
	if _, err := img.platforms(); err != nil {
		return publication{}, err
	}
	p := publication{r.Tag, sync.OnceValues(func() (*Content, error) { return Build(img) })}
	full := tree.NamingFull.Repository(r)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.images[r.String()] = p
	u.waiting[full] = append(u.waiting[full], p)
	if owner, taken := u.paths[r.Repository]; !taken || owner == full {
		u.paths[r.Repository] = full
		u.waiting[r.Repository] = append(u.waiting[r.Repository], p)
	}
	return p, nil
}

// publish pushes the waiting images of the wanted repositories.
func (u *Upstream) publish(wanted func(repository string) bool) error {
	u.publishing.Lock()
	defer u.publishing.Unlock()
	due := map[string][]publication{}
	u.mu.Lock()
	for repository, p := range u.waiting {
		if wanted(repository) {
			due[repository] = p
			delete(u.waiting, repository)
		}
	}
	u.mu.Unlock()
	for repository, images := range due {
		for _, p := range images {
			c, err := p.content()
			if err == nil {
				err = u.push(repository, p.tag, c)
			}
			if err != nil {
				return fmt.Errorf("publish %s:%s: %w", repository, p.tag, err)
			}
		}
	}
	return nil
}

// invent pushes an image under a missing tag, if Options.Any is set.
func (u *Upstream) invent(what Request) error {
	if _, err := digest.Parse(what.Reference); err == nil || !u.options.Any {
		return nil
	}
	u.publishing.Lock()
	defer u.publishing.Unlock()
	if u.call(http.MethodHead, "/v2/"+what.Repository+"/manifests/"+what.Reference, "", nil).status == http.StatusOK {
		return nil
	}
	name := what.Repository + ":" + what.Reference
	c, err := Build(Image{
		Name:      name,
		Platforms: []string{"linux/amd64", "linux/arm64", "linux/arm/v7"},
		Layers:    []Layer{{Name: "any", Size: 8 << 10, Shared: true}, {Name: name, Size: 512}},
	})
	if err != nil {
		return err
	}
	return u.push(what.Repository, what.Reference, c)
}

// push pushes c into the registry, children first.
func (u *Upstream) push(repository, tag string, c *Content) error {
	manifests := map[digest.Digest]bool{c.Root.Digest: true}
	for _, m := range c.Manifests {
		manifests[m.Digest] = true
	}
	for _, d := range c.order {
		var err error
		if manifests[d.Digest] {
			err = u.put("/v2/"+repository+"/manifests/"+d.Digest.String(), d.MediaType, c.Blobs[d.Digest])
		} else {
			err = u.upload(repository, d.Digest, c.Blobs[d.Digest])
		}
		if err != nil {
			return err
		}
	}
	if tag == "" {
		return nil
	}
	return u.put("/v2/"+repository+"/manifests/"+tag, c.Root.MediaType, c.Blobs[c.Root.Digest])
}

func (u *Upstream) upload(repository string, d digest.Digest, b []byte) error {
	if u.call(http.MethodHead, "/v2/"+repository+"/blobs/"+d.String(), "", nil).status == http.StatusOK {
		return nil
	}
	a := u.call(http.MethodPost, "/v2/"+repository+"/blobs/uploads/", "", nil)
	if a.status != http.StatusAccepted {
		return fmt.Errorf("start upload to %s: %s", repository, a.body.Bytes())
	}
	to, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		return fmt.Errorf("start upload to %s: %w", repository, err)
	}
	q := to.Query()
	q.Set("digest", d.String())
	return u.put(to.Path+"?"+q.Encode(), "application/octet-stream", b)
}

func (u *Upstream) put(path, contentType string, b []byte) error {
	if a := u.call(http.MethodPut, path, contentType, b); a.status != http.StatusCreated {
		return fmt.Errorf("put %s: %s", path, a.body.Bytes())
	}
	return nil
}

// call sends a request to the registry behind log, faults and auth.
func (u *Upstream) call(method, path, contentType string, body []byte) *answer {
	r, err := http.NewRequestWithContext(newQuiet(context.Background()), method, "http://registrytest"+path, bytes.NewReader(body))
	must(err)
	r.Header.Set("Content-Type", contentType)
	for _, accept := range []string{DockerManifest, DockerList, "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"} {
		r.Header.Add("Accept", accept)
	}
	a := newAnswer()
	u.app.ServeHTTP(a, r)
	return a
}

// AddChart serves a Helm chart, packed, as Helm pushes one: its config is what
// Chart.yaml says, as JSON. It returns the digest of the manifest.
func (u *Upstream) AddChart(repository, tag string, config, archive []byte) (digest.Digest, error) {
	manifest := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest}
	manifest.SchemaVersion = 2
	manifest.Config = ocispec.Descriptor{MediaType: "application/vnd.cncf.helm.config.v1+json", Digest: digest.FromBytes(config), Size: int64(len(config))}
	manifest.Layers = []ocispec.Descriptor{
		{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Digest: digest.FromBytes(archive), Size: int64(len(archive))},
	}
	b := encode(manifest)
	err := errors.Join(u.upload(repository, manifest.Config.Digest, config), u.upload(repository, manifest.Layers[0].Digest, archive))
	if err == nil {
		err = u.put("/v2/"+repository+"/manifests/"+tag, manifest.MediaType, b)
	}
	return digest.FromBytes(b), err
}
