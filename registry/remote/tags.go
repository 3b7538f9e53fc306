package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

const (
	// tagsPage is the number of tags asked for at a time.
	tagsPage = 1000
	// maxTags bounds the tags of one repository, so that a registry whose pages
	// never end is no endless loop.
	maxTags = 1 << 20
	// maxTagsPage bounds the bytes of one page: a tag has at most 128.
	maxTagsPage = 8 << 20
)

// Tags returns the tags of r's repository, sorted. The error wraps ErrNotFound
// when the registry has no such repository.
func (c *Client) Tags(ctx context.Context, r ref.Reference) ([]string, error) {
	var tags []string
	err := c.read(ctx, r, func(c *Client, t target) (err error) {
		tags, err = c.tags(ctx, t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", r.Name(), err)
	}
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// Catalog returns the repositories of a registry, host[:port], sorted, as far as
// these credentials may see them. The error wraps ErrNotFound or ErrUnauthorized
// where the registry has no catalog, or shows it to nobody.
func (c *Client) Catalog(ctx context.Context, registry string) ([]string, error) {
	t, err := c.destination(ref.Reference{Registry: registry, Repository: "catalog", Tag: ref.DefaultTag})
	var all []string
	if err == nil {
		all, err = c.pages(ctx, t, fmt.Sprintf("/v2/_catalog?n=%d", tagsPage), "registry:catalog:*")
	}
	if err != nil {
		return nil, fmt.Errorf("catalog of %s: %w", registry, err)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// tags reads every page of the tags of t: OCI distribution specification, "Listing
// tags".
func (c *Client) tags(ctx context.Context, t target) ([]string, error) {
	return c.pages(ctx, t, firstTags(t), pullScope(t.repository))
}

// pages reads every page of a list, which begins at path.
func (c *Client) pages(ctx context.Context, t target, path, scope string) ([]string, error) {
	var all []string
	for next := path; next != ""; {
		page, after, err := c.page(ctx, t, next, scope)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(all) > maxTags || after == next {
			return nil, errors.New("read tags: the registry's pages do not end")
		}
		next = after
	}
	return all, nil
}

// firstTags returns the path of the first page of t's tags.
func firstTags(t target) string {
	return fmt.Sprintf("/v2/%s/tags/list?n=%d", t.repository, tagsPage)
}

// tagPage reads a page of the tags of t, and the path of the next one.
func (c *Client) tagPage(ctx context.Context, t target, path string) (tags []string, next string, err error) {
	return c.page(ctx, t, path, pullScope(t.repository))
}

// page reads a page of tags or of repositories, and the path of the next one.
func (c *Client) page(ctx context.Context, t target, path, scope string) (names []string, next string, err error) {
	fail := func(err error) ([]string, string, error) { return nil, "", fmt.Errorf("read tags: %w", err) }
	resp, err := c.do(ctx, t, request{method: "GET", path: path, scope: scope})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxTagsPage+1))
	if err != nil {
		return fail(err)
	}
	if len(b) > maxTagsPage {
		return fail(fmt.Errorf("a page of more than %d bytes", maxTagsPage))
	}
	var page struct {
		Tags         []string `json:"tags"`
		Repositories []string `json:"repositories"`
	}
	if err := json.Unmarshal(b, &page); err != nil {
		return fail(err)
	}
	if next, err = nextPage(resp.Request.URL, resp.Header.Get("Link")); err != nil {
		return fail(err)
	}
	return append(page.Tags, page.Repositories...), next, nil
}

// nextPage returns the path of the page that a Link header (RFC 8288) names as the
// next, "" when there is none. It must be on the same host.
func nextPage(at *url.URL, link string) (string, error) {
	for one := range strings.SplitSeq(link, ",") {
		target, params, ok := strings.Cut(strings.TrimSpace(one), ">")
		if !ok || !strings.HasPrefix(target, "<") || !strings.Contains(strings.ReplaceAll(params, `"`, ""), "rel=next") {
			continue
		}
		u, err := at.Parse(target[1:])
		if err != nil {
			return "", err
		}
		if u.Host != at.Host {
			return "", fmt.Errorf("the next page is on another host, %s", u.Host)
		}
		return u.RequestURI(), nil
	}
	return "", nil
}
