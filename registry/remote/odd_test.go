package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store/storetest"
)

// A registry that is asked too often serves some and refuses others: whoever is
// refused goes on asking as long as it does.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	c := newClient(t, options(t, up)) // which gives up after two more attempts
	const times = 10
	asked, refuse := make(chan bool), make(chan bool)
	up.Inject(registrytest.Fault{On: registrytest.Manifest, Repository: "library/one", Times: times, Do: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- true
			<-refuse
			registrytest.Status(429)(next).ServeHTTP(w, r)
		})
	}})
	result := make(chan error)
	go func() {
		_, _, err := c.Manifest(t.Context(), up.Ref("one:1"))
		result <- err
	}()
	for range times {
		select {
		case err := <-result:
			t.Fatalf("it gave up: %v", err)
		case <-asked:
		}
		if _, _, err := c.Manifest(t.Context(), up.Ref("many:1")); err != nil {
			t.Fatal(err)
		}
		refuse <- true
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	happened := up.Inject(registrytest.Fault{On: registrytest.Manifest, Do: registrytest.Status(429)})
	if _, _, err := c.Manifest(t.Context(), up.Ref("one:1")); err == nil || happened() > 4 {
		t.Errorf("a registry that refuses everything was asked %d times: %v", happened(), err)
	}
}

// What a registry wants to wait for is waited for by all requests to it.
func TestRetryAfterIsForAll(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	o := options(t, up)
	o.Retries = -1
	c := newClient(t, o)
	up.Inject(registrytest.Fault{On: registrytest.Manifest, Times: 1, Do: registrytest.Status(429, "Retry-After", "1")})
	start := time.Now()
	if _, _, err := c.Manifest(t.Context(), up.Ref("one:1")); err == nil {
		t.Fatal("no error of a 429")
	}
	if _, _, err := c.Manifest(t.Context(), up.Ref("many:1")); err != nil || time.Since(start) < time.Second {
		t.Errorf("the next request was answered after %s, %v; want it to wait a second", time.Since(start), err)
	}
}

// TestOddContent mirrors what is unusual, and allowed.
func TestOddContent(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	empty, layer := []byte("{}"), []byte("a layer")
	blob := func(mediaType string, b []byte) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	}
	image := blob(ocispec.MediaTypeImageConfig, []byte(`{"os":"linux","architecture":"amd64"}`))
	plain := blob(ocispec.MediaTypeImageLayer, layer)
	nothing := blob(ocispec.MediaTypeImageLayer, nil)
	inline := blob(ocispec.MediaTypeEmptyJSON, empty)
	inline.Data = empty
	wrong := blob(ocispec.MediaTypeEmptyJSON, empty)
	wrong.Data = []byte("[]")
	other := plain
	other.Size++
	subject := up.Content("one:1").Root
	chunked := registrytest.Edit(func(status int, h http.Header, body []byte) (int, []byte) {
		h.Del("Content-Length")
		h.Set("Transfer-Encoding", "chunked")
		h.Del("Docker-Content-Digest")
		return status, body
	})
	typed := func(mediaType string) registrytest.Action {
		return registrytest.Edit(func(status int, h http.Header, body []byte) (int, []byte) {
			h.Set("Content-Type", mediaType)
			return status, body
		})
	}
	for name, tc := range map[string]struct {
		m      ocispec.Manifest
		lacks  digest.Digest // what the registry does not have
		fault  registrytest.Action
		raw    string // instead of m
		want   string // of the error; "" is success
		nBlobs int
	}{
		"empty layer":         {m: ocispec.Manifest{Config: image, Layers: []ocispec.Descriptor{nothing, plain}}, nBlobs: 3},
		"one layer twice":     {m: ocispec.Manifest{Config: image, Layers: []ocispec.Descriptor{plain, plain, plain}}, nBlobs: 2},
		"two sizes":           {m: ocispec.Manifest{Config: image, Layers: []ocispec.Descriptor{plain, other}}, want: "has 7 bytes, and that it has 8"},
		"no layers":           {m: ocispec.Manifest{Config: image}, nBlobs: 1},
		"artifact":            {m: ocispec.Manifest{ArtifactType: "application/vnd.example", Config: inline, Layers: []ocispec.Descriptor{inline}}, nBlobs: 1},
		"inline only":         {m: ocispec.Manifest{ArtifactType: "application/vnd.example", Config: inline, Layers: []ocispec.Descriptor{plain}}, lacks: inline.Digest, nBlobs: 2},
		"inline lies":         {m: ocispec.Manifest{Config: wrong, Layers: []ocispec.Descriptor{plain}}, nBlobs: 2},
		"chart":               {m: ocispec.Manifest{Config: blob("application/vnd.cncf.helm.config.v1+json", empty), Layers: []ocispec.Descriptor{plain}}, nBlobs: 2},
		"signature":           {m: ocispec.Manifest{Config: image, Subject: &subject, Layers: []ocispec.Descriptor{blob("application/vnd.dev.cosign.simplesigning.v1+json", layer)}}, nBlobs: 2},
		"annotated to 4 MiB":  {m: ocispec.Manifest{Config: image, Annotations: map[string]string{"a": strings.Repeat("x", 4<<20-1000)}}, nBlobs: 1},
		"beyond 4 MiB":        {m: ocispec.Manifest{Config: image, Annotations: map[string]string{"a": strings.Repeat("x", 4<<20)}}, want: "the limit is 4194304"},
		"chunked":             {m: ocispec.Manifest{Config: image, Layers: []ocispec.Descriptor{plain}}, fault: chunked, nBlobs: 2},
		"type: text":          {m: ocispec.Manifest{Config: image, Layers: []ocispec.Descriptor{plain}}, fault: typed("text/plain"), nBlobs: 2},
		"type: octets":        {m: ocispec.Manifest{Config: image, Layers: []ocispec.Descriptor{plain}}, fault: typed("application/octet-stream; charset=x"), nBlobs: 2},
		"a login page":        {raw: "<html>Log in</html>", fault: typed("text/html"), want: `content of type "text/html" is not JSON`},
		"oci artifact of old": {raw: `{"mediaType":"application/vnd.oci.artifact.manifest.v1+json","blobs":[]}`, fault: typed("application/vnd.oci.artifact.manifest.v1+json"), want: "is no image manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository := "odd/" + strings.NewReplacer(" ", "-", ":", "").Replace(strings.ToLower(name))
			body := []byte(tc.raw)
			if tc.raw == "" {
				tc.m.Versioned, tc.m.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest
				if tc.m.Layers == nil {
					tc.m.Layers = []ocispec.Descriptor{}
				}
				var err error
				if body, err = json.Marshal(tc.m); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range [][]byte{[]byte(`{"os":"linux","architecture":"amd64"}`), empty, layer, nil} {
				if digest.FromBytes(b) != tc.lacks {
					upload(t, up, repository, b)
				}
			}
			up.SetManifest(repository, "1", ocispec.MediaTypeImageManifest, body)
			if tc.fault != nil {
				up.Inject(registrytest.Fault{On: registrytest.Manifest, Repository: repository, Do: tc.fault})
			}
			c, s := newClient(t, options(t, up)), storetest.New(t)
			_, err := c.Pull(t.Context(), s, up.Ref(repository+":1"), remote.PullOptions{Platforms: []ocispec.Platform{{OS: "linux", Architecture: "amd64"}}})
			clean(t, s)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), repository) {
					t.Errorf("error %v, want %q and the reference in it", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := c.Walk(t.Context(), s, up.Ref(repository+":1"), remote.WalkOptions{})
			if err != nil || len(content.Blobs) != tc.nBlobs {
				t.Fatalf("%+v, %v, want %d blobs", content, err, tc.nBlobs)
			}
			for _, d := range content.Blobs {
				if has, err := s.HasBlob(t.Context(), d.Digest); !has || err != nil {
					t.Errorf("the store lacks %s (%v)", d.Digest, err)
				}
			}
		})
	}
}

// upload puts a blob into a repository, as any client does.
func upload(t *testing.T, up *registrytest.Upstream, repository string, b []byte) {
	t.Helper()
	call := func(method, url, body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			t.Fatal(errors.New(fmt.Sprint(method, " ", url, ": ", resp.Status)))
		}
		return resp
	}
	at, err := call("POST", up.URL()+"/v2/"+repository+"/blobs/uploads/", "").Location()
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	q.Set("digest", digest.FromBytes(b).String())
	at.RawQuery = q.Encode()
	call("PUT", at.String(), string(b))
}
