package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
)

const bulk = 300 << 10 // bytes of the layer that transfers break in

// images of the upstream of most tests: a single manifest and an index.
func images() []registrytest.Image {
	return []registrytest.Image{
		{Name: "one:1", Docker: true, Layers: []registrytest.Layer{{Name: "bulk", Size: bulk}}},
		{Name: "many:1", Platforms: []string{"linux/amd64", "linux/arm64"}, Layers: registrytest.Layers("base", "top")},
	}
}

func newUpstream(t *testing.T, o registrytest.Options) *registrytest.Upstream {
	if o.Images == nil {
		o.Images = images()
	}
	return registrytest.New(t, o)
}

// options makes tests independent of the machine's configuration, and quick.
func options(t *testing.T, ups ...*registrytest.Upstream) remote.Options {
	t.Helper()
	o := remote.Options{
		AuthFile:       write(t, "auth.json", "{}"),
		RegistriesConf: write(t, "registries.conf", ""),
		CertsDir:       t.TempDir(),
		Backoff:        time.Millisecond,
		Retries:        2,
	}
	for _, u := range ups {
		o.Insecure = append(o.Insecure, u.Host())
	}
	return o
}

func newClient(t *testing.T, o remote.Options) *remote.Client {
	t.Helper()
	c, err := remote.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clean checks that the store holds no half-written blob, and that each blob
// has its digest.
func clean(t *testing.T, s *store.Store) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(s.Root(), "tmp/blob-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the store: %q, %v", left, err)
	}
	blobs, err := filepath.Glob(filepath.Join(s.Root(), "image/blobs/sha256/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range blobs {
		b, err := os.ReadFile(name)
		if err != nil || digest.FromBytes(b).Encoded() != filepath.Base(name) {
			t.Errorf("blob %s holds other bytes (%v)", name, err)
		}
	}
}

// pulled checks that s has every blob of the image.
func pulled(t *testing.T, s *store.Store, c *registrytest.Content) {
	t.Helper()
	for d := range c.Blobs {
		if has, err := s.HasBlob(t.Context(), d); !has || err != nil {
			t.Errorf("the store lacks %s (%v)", d, err)
		}
	}
}

// Every level of requests with every fault that an answer can have, and what a
// pull makes of it. A 401 is asked twice: the token might have run out.
func TestFaults(t *testing.T) {
	t.Parallel()
	noise := registrytest.Edit(func(status int, _ http.Header, _ []byte) (int, []byte) { return status, []byte("<html>") })
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	for _, tc := range []struct {
		name  string
		on    registrytest.Level
		do    registrytest.Action
		times int
		want  error // nil: the pull succeeds
		text  string
		asked int // how often the fault must have happened; 0 is as often as times
	}{
		{"503 passes", registrytest.Blob, registrytest.Status(503), 2, nil, "", 0},
		{"503 stays", registrytest.Blob, registrytest.Status(503), 0, errAny, "503 Service Unavailable", 0},
		{"429 passes", registrytest.Blob, registrytest.Status(429, "Retry-After", "0"), 1, nil, "", 0},
		{"401", registrytest.Blob, registrytest.Status(401), 0, remote.ErrUnauthorized, "401", 2},
		{"403", registrytest.Blob, registrytest.Status(403), 0, remote.ErrUnauthorized, "DENIED: injected fault", 1},
		{"404", registrytest.Blob, registrytest.Status(404), 0, remote.ErrNotFound, "404", 1},
		{"cut", registrytest.Blob, registrytest.Cut(100), 1, nil, "", 0},
		{"truncated", registrytest.Blob, registrytest.Truncate(100), 1, remote.ErrDigest, "has 100 bytes", 0},
		{"wrong bytes", registrytest.Blob, registrytest.Corrupt(), 0, store.ErrMismatch, "its digest is", 1},
		{"endless", registrytest.Blob, registrytest.Endless(), 1, remote.ErrDigest, "sends more than", 0},
		{"trickle", registrytest.Blob, registrytest.Trickle(bulk/8, time.Millisecond), 1, nil, "", 0},
		{"stalled", registrytest.Blob, registrytest.Hold(hold), 1, nil, "", 0},
		{"stalled by a drip", registrytest.Blob, registrytest.Trickle(1, 10*time.Millisecond), 1, nil, "", 0},

		{"503 passes", registrytest.Manifest, registrytest.Status(503), 2, nil, "", 0},
		{"500 stays", registrytest.Manifest, registrytest.Status(500), 0, errAny, "500", 3},
		{"429 passes", registrytest.Manifest, registrytest.Status(429, "Retry-After", "0"), 2, nil, "", 0},
		{"404", registrytest.Manifest, registrytest.Status(404), 0, remote.ErrNotFound, "/v2/library/one/manifests/1: 404", 1},
		{"401", registrytest.Manifest, registrytest.Status(401), 0, remote.ErrUnauthorized, "401", 2},
		{"cut", registrytest.Manifest, registrytest.Cut(30), 1, nil, "", 0},
		{"truncated", registrytest.Manifest, registrytest.Truncate(30), 0, remote.ErrDigest, "digest", 1},
		{"wrong bytes", registrytest.Manifest, registrytest.Corrupt(), 0, remote.ErrDigest, "digest", 1},
		{"endless", registrytest.Manifest, registrytest.Endless(), 0, remote.ErrUnsupported, "more than 4194304 bytes", 1},
		{"stalled", registrytest.Manifest, registrytest.Hold(hold), 1, nil, "", 0},

		{"503 passes", registrytest.Token, registrytest.Status(503), 2, nil, "", 0},
		{"429 passes", registrytest.Token, registrytest.Status(429), 1, nil, "", 0},
		{"401", registrytest.Token, registrytest.Status(401), 0, remote.ErrUnauthorized, "get token", 1},
		{"no JSON", registrytest.Token, noise, 0, errAny, "not JSON", 0},
		{"cut", registrytest.Token, registrytest.Cut(10), 1, nil, "", 0},
		{"stalled", registrytest.Token, registrytest.Hold(hold), 1, nil, "", 0},
	} {
		t.Run(string(tc.on)+" "+tc.name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer, User: "u", Password: "secret"}})
			layer := up.Content("one:1").Blobs
			fault := registrytest.Fault{On: tc.on, Times: tc.times, Do: tc.do}
			if tc.on == registrytest.Blob {
				for d, b := range layer {
					if len(b) > bulk {
						fault.Reference = d.String()
					}
				}
			}
			happened := up.Inject(fault)
			o := options(t, up)
			if strings.HasPrefix(tc.name, "stalled") {
				// On a busy machine an honest answer may seem to stall, too.
				o.Stall, o.Retries = 200*time.Millisecond, 50
			}
			o.Credentials = []remote.Credential{{Registry: up.Host(), Username: "u", Password: "secret"}}
			s := storetest.New(t)
			_, err := newClient(t, o).Pull(t.Context(), s, up.Ref("one:1"), remote.PullOptions{})
			clean(t, s)
			if tc.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				pulled(t, s, up.Content("one:1"))
			} else if err == nil || tc.want != errAny && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want %v that says %q", err, tc.want, tc.text)
			} else if !strings.Contains(err.Error(), up.Ref("one:1").String()) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v: want the reference in it, and no password", err)
			}
			if want := tc.times + tc.asked; want > 0 && happened() != want {
				t.Errorf("the fault happened %d times, want %d", happened(), want)
			}
		})
	}
}

// TestDripEnds: a registry that sends a byte now and then does not hold a pull,
// and the error says so.
func TestDripEnds(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	d, _ := largest(up.Content("one:1"))
	happened := up.Inject(registrytest.Fault{On: registrytest.Blob, Do: registrytest.Trickle(1, 10*time.Millisecond)})
	o := options(t, up)
	o.Stall, o.Retries = 200*time.Millisecond, 1
	err := newClient(t, o).Blob(t.Context(), up.Ref("one:1"), d, io.Discard)
	if !errors.Is(err, remote.ErrStalled) || !strings.Contains(err.Error(), "too little") {
		t.Errorf("error %v, want ErrStalled", err)
	}
	if happened() != 2 {
		t.Errorf("%d attempts, want 2", happened())
	}
}

var errAny = errors.New("any")

func TestBlobResumesWhereItBroke(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	c := newClient(t, options(t, up))
	d, content := largest(up.Content("one:1"))
	for _, at := range []int{100, 5000} {
		up.Inject(registrytest.Fault{On: registrytest.Blob, Times: 1, Do: registrytest.Cut(at)})
	}
	var got bytes.Buffer
	if err := c.Blob(t.Context(), up.Ref("one:1"), d, &got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), content) {
		t.Error("other bytes arrived")
	}
	var ranges []string
	for _, r := range up.Requests() {
		if r.Level == registrytest.Blob {
			ranges = append(ranges, r.Header.Get("Range"))
		}
	}
	if want := []string{"", "bytes=100-", "bytes=5100-"}; fmt.Sprint(ranges) != fmt.Sprint(want) {
		t.Errorf("ranges asked for: %q, want %q", ranges, want)
	}
}

// A server may ignore Range, or lie about what it sends.
func TestBlobWithoutRange(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	c := newClient(t, options(t, up))
	d, content := largest(up.Content("one:1"))
	whole := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			next.ServeHTTP(w, r)
		})
	}
	up.Inject(registrytest.Fault{On: registrytest.Blob, Times: 1, Do: registrytest.Cut(100)})
	up.Inject(registrytest.Fault{On: registrytest.Blob, Times: 1, Do: whole})
	var got bytes.Buffer
	if err := c.Blob(t.Context(), up.Ref("one:1"), d, &got); err != nil || !bytes.Equal(got.Bytes(), content) {
		t.Fatalf("%d bytes, %v", got.Len(), err)
	}
	up.Inject(registrytest.Fault{On: registrytest.Blob, Times: 1, Do: registrytest.Cut(100)})
	up.Inject(registrytest.Fault{On: registrytest.Blob, Do: registrytest.Edit(func(status int, h http.Header, body []byte) (int, []byte) {
		h.Set("Content-Range", "bytes 0-9/10")
		return status, body
	})})
	if err := c.Blob(t.Context(), up.Ref("one:1"), d, io.Discard); err == nil || !strings.Contains(err.Error(), "the answer has the range") {
		t.Errorf("a wrong range: %v", err)
	}
}

func largest(c *registrytest.Content) (ocispec.Descriptor, []byte) {
	var d ocispec.Descriptor
	for k, b := range c.Blobs {
		if int64(len(b)) > d.Size {
			d = ocispec.Descriptor{Digest: k, Size: int64(len(b))}
		}
	}
	return d, c.Blobs[d.Digest]
}

// nothing of a password may come out, however a credential is printed.
func TestCredentialIsNotPrinted(t *testing.T) {
	t.Parallel()
	c := remote.Credential{Registry: "reg.example", Username: "me", Password: "hunter2"}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "cred", c, "ptr", &c)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "cred", c, "ptr", &c)
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q", c, c, c, c), fmt.Sprintf("%v %#v", &c, []remote.Credential{c}), log.String()} {
		if strings.Contains(s, "hunter2") {
			t.Errorf("the password is in %q", s)
		}
	}
}

func TestBlockedAndBadConfiguration(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.RegistriesConf = write(t, "registries.conf", "[[registry]]\nlocation = \"evil.example\"\nblocked = true\n")
	c := newClient(t, o)
	r := ref.Reference{Registry: "evil.example", Repository: "a", Tag: "1"}
	if _, _, err := c.Manifest(t.Context(), r); !errors.Is(err, remote.ErrBlocked) {
		t.Errorf("error %v, want ErrBlocked", err)
	}
	if err := c.Push(t.Context(), storetest.New(t), ocispec.Descriptor{}, r, remote.PushOptions{}); !errors.Is(err, remote.ErrBlocked) {
		t.Errorf("error %v, want ErrBlocked", err)
	}
	o.RegistriesConf = write(t, "registries.conf", "[[registry]]\nlocation = ")
	if _, err := remote.New(o); err == nil || !strings.Contains(err.Error(), o.RegistriesConf) {
		t.Errorf("a broken registries.conf: %v", err)
	}
	o = options(t)
	o.Insecure = []string{"reg.example/a"}
	if _, err := remote.New(o); err == nil {
		t.Error("an insecure registry with a path was taken")
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	up.Inject(registrytest.Fault{On: registrytest.Manifest, Do: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "100")
			w.WriteHeader(http.StatusTooManyRequests)
			cancel()
		})
	}})
	if _, _, err := newClient(t, options(t, up)).Manifest(ctx, up.Ref("one:1")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// A host that has never answered is tried twice, one that has as often as any.
func TestUnreached(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} { // else both schemes are tried
		up := newUpstream(t, registrytest.Options{})
		var log bytes.Buffer
		o := options(t)
		o.Insecure = []string{up.Host()}
		if plain {
			o.Insecure = []string{up.URL()}
		}
		o.Retries = 4
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		again := func(c *remote.Client) int {
			log.Reset()
			_, _, err := c.Manifest(t.Context(), up.Ref("one:1"))
			if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), up.Host()) {
				t.Errorf("error %v, want one that names %s", err, up.Host())
			}
			return strings.Count(log.String(), "trying again")
		}
		old := newClient(t, o)
		if _, _, err := old.Manifest(t.Context(), up.Ref("one:1")); err != nil {
			t.Fatal(err)
		}
		if err := up.Close(); err != nil {
			t.Fatal(err)
		}
		if n := again(newClient(t, o)); n != 1 {
			t.Errorf("plain %v: a host that was never reached was tried again %d times, want 1", plain, n)
		}
		if n := again(old); n != o.Retries {
			t.Errorf("plain %v: a host that is gone was tried again %d times, want %d", plain, n, o.Retries)
		}
	}
}
