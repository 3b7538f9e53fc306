package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
)

// TagsAfter returns the tags of r's repository that sort after after and begin with
// prefix, as far as the first page of them goes: a registry that ignores after
// answers with its first tags.
func (c *Client) TagsAfter(ctx context.Context, r ref.Reference, after, prefix string) ([]string, error) {
	var out []string
	err := c.read(ctx, r, func(c *Client, t target) error {
		path := fmt.Sprintf("/v2/%s/tags/list?n=%d&last=%s", t.repository, tagsPage, url.QueryEscape(after))
		page, _, err := c.tagPage(ctx, t, path)
		out = nil
		for _, tag := range page {
			if strings.HasPrefix(tag, prefix) {
				out = append(out, tag)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", r.Name(), err)
	}
	return out, nil
}

// Referrers returns the manifests whose subject is the digest of r, as the registry
// lists them: OCI distribution specification 1.1, "Listing Referrers". supported
// is false for a registry that has no such API; its list is empty then.
func (c *Client) Referrers(ctx context.Context, r ref.Reference) (list []ocispec.Descriptor, supported bool, err error) {
	if err := checkDigest(r.Digest); err != nil {
		return nil, false, err
	}
	err = c.read(ctx, r, func(c *Client, t target) (err error) {
		list, supported, err = c.referrers(ctx, t, r)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("referrers of %s: %w", r, err)
	}
	return list, supported, nil
}

func (c *Client) referrers(ctx context.Context, t target, r ref.Reference) ([]ocispec.Descriptor, bool, error) {
	resp, err := c.do(ctx, t, request{
		method: http.MethodGet,
		path:   "/v2/" + t.repository + "/referrers/" + r.Digest.String(),
		header: http.Header{"Accept": {ocispec.MediaTypeImageIndex}},
		scope:  pullScope(t.repository),
	})
	var status *statusError
	if errors.As(err, &status) && (status.status == http.StatusNotFound || status.status == http.StatusMethodNotAllowed || status.status == http.StatusNotImplemented || status.status == http.StatusBadRequest) {
		return nil, false, nil // a registry with the API answers with an empty list
	}
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	if !platform.IsIndex(mediaType(resp.Header)) { // a web page, as of a proxy
		return nil, false, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1))
	if err != nil {
		return nil, false, err
	}
	var idx ocispec.Index
	if len(b) > MaxManifest {
		return nil, false, fmt.Errorf("a list of more than %d bytes: %w", MaxManifest, ErrUnsupported)
	}
	if err := json.Unmarshal(b, &idx); err != nil {
		return nil, false, err
	}
	return idx.Manifests, true, nil
}

// taggedReferrers returns the entries of the referrers tag of r's digest: OCI
// distribution specification 1.1, "Referrers Tag Schema", for registries that have no
// API. There are none where there is no such tag.
func (c *Client) taggedReferrers(ctx context.Context, r ref.Reference) ([]ocispec.Descriptor, error) {
	r.Tag, r.Digest = strings.Replace(r.Digest.String(), ":", "-", 1), ""
	_, b, err := c.Manifest(ctx, r)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var idx ocispec.Index
	if err := json.Unmarshal(b, &idx); err != nil {
		return nil, fmt.Errorf("referrers %s: %w", r, err)
	}
	return idx.Manifests, nil
}
