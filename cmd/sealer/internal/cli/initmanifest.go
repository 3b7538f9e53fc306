package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/redirect/kyverno"
)

// installManifest returns the name and content of the install manifest that the
// flags choose: a file, a URL, or for "" the release *version. An empty *version
// is set to the default release.
func (a *app) installManifest(ctx context.Context, name string, version *string) (string, []byte, error) {
	if name != "" && !kubefile.IsURL(name) {
		b, err := readManifest(name)
		if err != nil {
			return name, nil, fmt.Errorf("install manifest %s: %w", name, err)
		}
		return name, b, nil
	}
	release := kyverno.Release{URL: name}
	if name == "" {
		*version = cmp.Or(*version, kyverno.DefaultVersion)
		release = kyverno.ReleaseOf(*version)
	}
	return a.fetchManifest(ctx, release)
}

// fetchManifest downloads an install manifest. It warns when no checksum is known
// for the release.
func (a *app) fetchManifest(ctx context.Context, r kyverno.Release) (name string, _ []byte, err error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "", nil, usagef("--install-manifest: it is no URL")
	}
	name = u.Redacted()
	fault := func(err error) error {
		return advise(fmt.Errorf("install manifest %s: %w", name, err), "Give a copy of it with: --install-manifest FILE")
	}
	body, err := build.Get(ctx, u, Version)
	if err != nil {
		return name, nil, fault(err)
	}
	defer body.Close()
	b, err := readLimited(body)
	if err != nil {
		return name, nil, fault(err)
	}
	sum := sha256.Sum256(b)
	got := hex.EncodeToString(sum[:])
	switch {
	case r.SHA256 == "":
		printf(a.Err, "Warning: %s: its SHA-256 %s is not among those that sealer knows\n", name, got)
	case r.SHA256 != got:
		return name, nil, fault(fmt.Errorf("its SHA-256 is %s, want %s", got, r.SHA256))
	}
	return name, b, nil
}

// readManifest reads a file.
func readManifest(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, errors.Unwrap(err) // the caller names the file
	}
	defer f.Close()
	return readLimited(f)
}

// readLimited refuses more bytes than an install manifest can have.
func readLimited(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, kyverno.MaxManifest+1))
	if err == nil && len(b) > kyverno.MaxManifest {
		err = fmt.Errorf("it has more than the %d MiB of any Kyverno", kyverno.MaxManifest>>20)
	}
	return b, err
}
