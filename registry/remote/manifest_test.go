package remote_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store/storetest"
)

func TestManifest(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	c := newClient(t, options(t, up))
	want := up.Content("many:1").Root
	for _, name := range []string{"many:1", "many@" + want.Digest.String()} {
		d, b, err := c.Manifest(t.Context(), up.Ref(name))
		if err != nil || d.Digest != want.Digest || d.Size != want.Size || d.MediaType != want.MediaType || digest.FromBytes(b) != want.Digest {
			t.Errorf("Manifest(%s) = %v, %v, want %v", name, d, err, want)
		}
	}
}

// A tag that has not moved costs one request and no manifest, one that has
// moved one request and its manifest.
func TestRefresh(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	c := newClient(t, options(t, up))
	now, other := up.Content("many:1").Root, up.Content("one:1").Root
	for _, tc := range []struct {
		name  string
		known digest.Digest
		read  bool
	}{
		{"not moved", now.Digest, false},
		{"moved", other.Digest, true},
	} {
		up.ResetRequests()
		d, b, err := c.Refresh(t.Context(), up.Ref("many:1"), tc.known)
		if err != nil || d.Digest != now.Digest || (b != nil) != tc.read || b != nil && digest.FromBytes(b) != now.Digest {
			t.Errorf("%s: %v, %d bytes, %v", tc.name, d, len(b), err)
		}
		if n := up.Count(registrytest.Manifest); n != 1 {
			t.Errorf("%s: %d requests", tc.name, n)
		}
	}
}

// Docker Hub counts every GET of a manifest: it is asked with HEAD. A proxy
// stands for it here. Where a registry answers HEAD with less than it should,
// the manifest is read.
func TestRefreshDockerHub(t *testing.T) {
	up := newUpstream(t, registrytest.Options{TLS: true})
	tunnel(t, up, "registry-1.docker.io:443")
	o := options(t)
	o.Insecure = []string{"docker.io"} // the certificate is for 127.0.0.1
	c := newClient(t, o)
	r := ref.Reference{Registry: "docker.io", Repository: "library/many", Tag: "1"}
	now, other := up.Content("many:1").Root.Digest, up.Content("one:1").Root.Digest
	for _, tc := range []struct {
		name  string
		known digest.Digest
		head  int // status of HEAD, without a digest; 0 for an honest answer
		gets  int
	}{
		{"not moved", now, 0, 0},
		{"moved", other, 0, 0},
		{"no digest", now, 200, 1},
		{"no HEAD", now, 405, 1},
	} {
		up.ResetRequests()
		if tc.head != 0 {
			up.Inject(registrytest.Fault{On: registrytest.Manifest, Method: "HEAD", Do: registrytest.Status(tc.head)})
		}
		d, _, err := c.Refresh(t.Context(), r, tc.known)
		if err != nil || d.Digest != now {
			t.Errorf("%s: %v, %v", tc.name, d, err)
		}
		if heads, gets := up.Count(registrytest.Manifest, "HEAD"), up.Count(registrytest.Manifest, "GET"); heads != 1 || gets != tc.gets {
			t.Errorf("%s: %d HEAD and %d GET of the manifest, want 1 and %d", tc.name, heads, gets, tc.gets)
		}
	}
}

func TestBadManifests(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	c := newClient(t, options(t, up))
	one := up.Content("one:1")
	good := string(one.Blobs[one.Root.Digest])
	hash := "sha256:" + strings.Repeat("ab", 32)
	nested := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%[1]q,"digest":%q,"size":10,"platform":{"os":"linux","architecture":"amd64"}}]}`, ocispec.MediaTypeImageIndex, hash)
	huge := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":99999999999,"platform":{"os":"linux","architecture":"amd64"}}]}`, ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, hash)
	for _, tc := range []struct {
		name, mediaType, body, text string
		want                        error
	}{
		{"schema 1", "application/vnd.docker.distribution.manifest.v1+prettyjws", `{"schemaVersion":1,"name":"x","fsLayers":[]}`, "schema 1", remote.ErrUnsupported},
		{"schema 1 hidden", "application/json", `{"schemaVersion":1,"name":"x","fsLayers":[]}`, "schema 1", remote.ErrUnsupported},
		{"nested index", ocispec.MediaTypeImageIndex, nested, "index inside an index", remote.ErrUnsupported},
		{"huge child", ocispec.MediaTypeImageIndex, huge, "99999999999 bytes", remote.ErrUnsupported},
		{"both kinds", ocispec.MediaTypeImageManifest, `{"schemaVersion":2,"config":{},"layers":[],"manifests":[]}`, "at once", remote.ErrUnsupported},
		{"other type", platform.MediaTypeDockerManifest, strings.Replace(good, platform.MediaTypeDockerManifest, ocispec.MediaTypeImageManifest, 1), "says itself", remote.ErrUnsupported},
		{"no JSON", ocispec.MediaTypeImageManifest, `<html>`, "manifest", errAny},
		{"some JSON", "application/json", `{"a":1}`, "no image manifest", remote.ErrUnsupported},
		{"digest", ocispec.MediaTypeImageManifest, `{"schemaVersion":2,"config":{"digest":"sha256:../../x","size":1},"layers":[]}`, "descriptor", remote.ErrUnsupported},
		{"size", ocispec.MediaTypeImageManifest, `{"schemaVersion":2,"config":{"digest":"` + hash + `","size":-1},"layers":[]}`, "descriptor", remote.ErrUnsupported},
		{"sha512", ocispec.MediaTypeImageManifest, `{"schemaVersion":2,"config":{"digest":"sha512:` + strings.Repeat("ab", 64) + `","size":1},"layers":[]}`, "descriptor", remote.ErrUnsupported},
	} {
		repository := "bad/" + strings.ReplaceAll(strings.ToLower(tc.name), " ", "-")
		up.SetManifest(repository, "1", tc.mediaType, []byte(tc.body))
		s := storetest.New(t)
		_, err := c.Pull(t.Context(), s, up.Ref(repository+":1"), remote.PullOptions{})
		if err == nil || tc.want != errAny && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) || !strings.Contains(err.Error(), repository) {
			t.Errorf("%s: %v, want %v that says %q", tc.name, err, tc.want, tc.text)
		}
		clean(t, s)
	}
	// The media type of a body that says none comes from the header, or else
	// from what it holds.
	bare := strings.Replace(good, `"mediaType":"`+platform.MediaTypeDockerManifest+`",`, "", 1)
	p, err := remote.ParseManifest("text/plain", []byte(bare))
	if err != nil || p.MediaType != ocispec.MediaTypeImageManifest {
		t.Errorf("ParseManifest = %+v, %v", p, err)
	}
}

func TestForeignLayer(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	one := up.Content("one:1")
	d, _ := largest(one)
	gone := "sha256:" + strings.Repeat("cd", 32)
	body := strings.Replace(string(one.Blobs[one.Root.Digest]), `"digest":"`+d.Digest.String()+`"`,
		`"urls":["https://go.microsoft.example/x"],"digest":"`+gone+`"`, 1)
	up.SetManifest("library/one", "foreign", platform.MediaTypeDockerManifest, []byte(body))
	_, err := newClient(t, options(t, up)).Pull(t.Context(), storetest.New(t), up.Ref("one:foreign"), remote.PullOptions{})
	if !errors.Is(err, remote.ErrNotFound) || !strings.Contains(err.Error(), "foreign layer, which its publisher keeps at https://go.microsoft.example/x only") {
		t.Errorf("error %v", err)
	}
}

func TestPullPlatforms(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	s := storetest.New(t)
	c := newClient(t, options(t, up))
	arm := ocispec.Platform{OS: "linux", Architecture: "arm64"}
	d, err := c.Pull(t.Context(), s, up.Ref("many:1"), remote.PullOptions{Platforms: []ocispec.Platform{arm}})
	if err != nil || d.Digest != up.Content("many:1").Root.Digest {
		t.Fatal(d, err)
	}
	if n := up.Count(registrytest.Blob); n != 3 {
		t.Errorf("%d blobs were asked for, want arm64's 3", n)
	}
	_, err = c.Pull(t.Context(), s, up.Ref("many:1"), remote.PullOptions{Platforms: []ocispec.Platform{{OS: "linux", Architecture: "s390x"}}})
	if !errors.Is(err, remote.ErrPlatform) || !strings.Contains(err.Error(), "no linux/s390x, only linux/amd64, linux/arm64") {
		t.Errorf("error %v", err)
	}
	_, err = c.Pull(t.Context(), s, up.Ref("one:1"), remote.PullOptions{Platforms: []ocispec.Platform{arm}})
	if !errors.Is(err, remote.ErrPlatform) || !strings.Contains(err.Error(), "linux/amd64 only") {
		t.Errorf("error %v", err)
	}
}
