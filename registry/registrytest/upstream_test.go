package registrytest_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/registrytest"
)

func get(t *testing.T, method, url string, headers ...string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", strings.Join([]string{registrytest.DockerManifest, registrytest.DockerList, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex}, ","))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, b, err
}

func TestSamplesAreServed(t *testing.T) {
	t.Parallel()
	up := registrytest.New(t, registrytest.Options{Images: registrytest.Samples()})
	for _, img := range registrytest.Samples() {
		r := up.Ref(img.Name)
		content := up.Content(img.Name)
		full := strings.TrimSuffix(img.Name, ":"+r.Tag)
		for _, repository := range []string{r.Repository, full} {
			_, b, err := get(t, "GET", up.URL()+"/v2/"+repository+"/manifests/"+r.Tag)
			if err != nil || digest.FromBytes(b) != content.Root.Digest {
				t.Fatalf("%s from %s: %v, %s", img.Name, repository, err, b)
			}
			for d, want := range content.Blobs {
				kind := "blobs"
				if json.Valid(want) && strings.Contains(string(want), `"schemaVersion"`) {
					kind = "manifests"
				}
				_, b, err := get(t, "GET", up.URL()+"/v2/"+repository+"/"+kind+"/"+d.String())
				if err != nil || !bytes.Equal(b, want) {
					t.Fatalf("%s of %s: %v, %d bytes, want %d", d, img.Name, err, len(b), len(want))
				}
			}
		}
	}
}

// TestAskedFor: whatever is asked first of a repository, its images are there.
func TestAskedFor(t *testing.T) {
	t.Parallel()
	busybox := registrytest.Samples()[2]
	content, err := registrytest.Build(busybox)
	if err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(content.Blobs[content.Root.Digest], &m); err != nil {
		t.Fatal(err)
	}
	layer := m.Layers[0].Digest.String()
	for name, tc := range map[string]struct {
		method, path string
		status       int
		want         string
	}{
		"tags":     {"GET", "library/busybox/tags/list", 200, `"tags":["1.36"]`},
		"blob":     {"HEAD", "docker.io/library/busybox/blobs/" + layer, 200, ""},
		"digest":   {"GET", "library/busybox/manifests/" + content.Root.Digest.String(), 200, layer},
		"mount":    {"POST", "copy/blobs/uploads/?from=library/busybox&mount=" + layer, 201, ""},
		"not from": {"POST", "copy/blobs/uploads/?from=library/other&mount=" + layer, 202, ""},
		"catalog":  {"GET", "_catalog", 200, `"repositories":["docker.io/library/busybox","library/busybox"]`},
	} {
		up := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{busybox}})
		resp, b, err := get(t, tc.method, up.URL()+"/v2/"+tc.path)
		if err != nil || resp.StatusCode != tc.status || !strings.Contains(string(b), tc.want) {
			t.Errorf("%s: %v %v %s", name, resp, err, b)
		}
	}
	if _, err := registrytest.Start(registrytest.Options{Images: []registrytest.Image{{Name: "a", Platforms: []string{"/"}}}}); err == nil {
		t.Error("an image without a platform was taken")
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	t.Parallel()
	for _, img := range registrytest.Samples() {
		a, err := registrytest.Build(img)
		if err != nil {
			t.Fatal(err)
		}
		b, err := registrytest.Build(img)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a.Root, b.Root); diff != "" {
			t.Errorf("%s: %s", img.Name, diff)
		}
		img.Revision++
		if b, err = registrytest.Build(img); err != nil || b.Root.Digest == a.Root.Digest {
			t.Errorf("%s: a new revision has the same digest (%v)", img.Name, err)
		}
	}
}

func TestAny(t *testing.T) {
	t.Parallel()
	up := registrytest.New(t, registrytest.Options{Any: true})
	seen := map[digest.Digest]bool{}
	for _, name := range []string{"docker.io/library/a", "x/y/z", "docker.io/library/a"} {
		_, b, err := get(t, "GET", up.URL()+"/v2/"+name+"/manifests/v1")
		var index ocispec.Index
		if err != nil || json.Unmarshal(b, &index) != nil || len(index.Manifests) != 3 {
			t.Fatalf("%s: %v, %s", name, err, b)
		}
		seen[digest.FromBytes(b)] = true
	}
	if len(seen) != 2 {
		t.Errorf("two names and a repetition gave %d images", len(seen))
	}
	if resp, _, err := get(t, "GET", up.URL()+"/v2/a/manifests/"+digest.FromString("no").String()); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown digest: %v %v", resp, err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	up := registrytest.New(t, registrytest.Options{Images: registrytest.Samples()[2:3]})
	c := up.Content("busybox:1.36")
	var m ocispec.Manifest
	if err := json.Unmarshal(c.Blobs[c.Root.Digest], &m); err != nil {
		t.Fatal(err)
	}
	layer := m.Layers[0]
	blob := up.URL() + "/v2/library/busybox/blobs/" + layer.Digest.String()
	want := c.Blobs[layer.Digest]
	for name, tc := range map[string]struct {
		do    registrytest.Action
		check func(resp *http.Response, b []byte, err error) bool
	}{
		"429": {registrytest.Status(429, "Retry-After", "3"), func(r *http.Response, b []byte, err error) bool {
			return r.StatusCode == 429 && r.Header.Get("Retry-After") == "3" && strings.Contains(string(b), "TOOMANYREQUESTS")
		}},
		"cut": {registrytest.Cut(100), func(r *http.Response, b []byte, err error) bool {
			return errors.Is(err, io.ErrUnexpectedEOF) && bytes.Equal(b, want[:100])
		}},
		"truncate": {registrytest.Truncate(100), func(r *http.Response, b []byte, err error) bool {
			return err == nil && bytes.Equal(b, want[:100])
		}},
		"corrupt": {registrytest.Corrupt(), func(r *http.Response, b []byte, err error) bool {
			return err == nil && len(b) == len(want) && !bytes.Equal(b, want)
		}},
		"endless": {registrytest.Endless(), func(r *http.Response, b []byte, err error) bool {
			return err == nil && len(b) == 1<<20 && bytes.HasPrefix(b, want)
		}},
		"trickle": {registrytest.Trickle(1000, time.Millisecond), func(r *http.Response, b []byte, err error) bool {
			return err == nil && bytes.Equal(b, want)
		}},
		"redirect": {registrytest.Redirect("http://other.example"), func(r *http.Response, b []byte, err error) bool {
			return r.StatusCode == 307 && r.Header.Get("Location") == "http://other.example/v2/library/busybox/blobs/"+layer.Digest.String()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			happened := up.Inject(registrytest.Fault{On: registrytest.Blob, Reference: layer.Digest.String(), Times: 1, Do: tc.do})
			if r, b, err := get(t, "GET", blob); !tc.check(r, b, err) {
				t.Errorf("with the fault: %+v, %d bytes, %v", r, len(b), err)
			}
			if _, b, err := get(t, "GET", blob); err != nil || !bytes.Equal(b, want) || happened() != 1 {
				t.Errorf("after it: %d bytes, %v; it happened %d times", len(b), err, happened())
			}
		})
	}
	up.ResetRequests()
	if r, b, err := get(t, "GET", blob, "Range", "bytes=10-19"); err != nil || r.StatusCode != 206 || !bytes.Equal(b, want[10:20]) {
		t.Errorf("range: %v %v", r, err)
	}
	log := up.Requests()
	if len(log) != 1 || log[0].Level != registrytest.Blob || log[0].Status != 206 || log[0].Repository != "library/busybox" {
		t.Errorf("log: %+v", log)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	up := registrytest.New(t, registrytest.Options{
		TLS: true, Images: registrytest.Samples()[2:3],
		Auth: registrytest.Auth{Scheme: registrytest.Bearer, User: "u", Password: "p", TokenUses: 1},
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(up.CA())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	do := func(path, authorization string) (*http.Response, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", up.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", authorization)
		if authorization == "basic" {
			r.SetBasicAuth("u", "p")
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, b
	}
	const tags = "/v2/library/busybox/tags/list"
	resp, _ := do(tags, "")
	challenge := resp.Header.Get("WWW-Authenticate")
	if resp.StatusCode != 401 || !strings.Contains(challenge, up.TokenURL()) || !strings.Contains(challenge, `scope="repository:library/busybox:pull"`) {
		t.Fatalf("challenge %q", challenge)
	}
	if resp, _ := do("/token", "Basic eDp5"); resp.StatusCode != 401 {
		t.Errorf("a wrong password got %s", resp.Status)
	}
	_, b := do("/token?service=s&scope=repository:library/busybox:pull", "basic")
	var token struct{ Token string }
	if err := json.Unmarshal(b, &token); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{401, 200, 401} { // another repository, its own, used up
		path := tags
		if i == 0 {
			path = "/v2/library/nginx/tags/list"
		}
		if resp, b := do(path, "Bearer "+token.Token); resp.StatusCode != want {
			t.Errorf("request %d: %s %s, want %d", i, resp.Status, b, want)
		}
	}
}
