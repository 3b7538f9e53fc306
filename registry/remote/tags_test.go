package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
)

func TestTags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pages map[string]string // query "last" -> body
		links map[string]string // query "last" -> Link header
		want  []string
		err   string
	}{
		"one page":      {pages: map[string]string{"": `{"tags":["b","a"]}`}, want: []string{"a", "b"}},
		"none":          {pages: map[string]string{"": `{"tags":null}`}},
		"pages":         {pages: map[string]string{"": `{"tags":["a"]}`, "a": `{"tags":["b","a"]}`}, links: map[string]string{"": `</v2/team/app/tags/list?last=a>; rel="next"`}, want: []string{"a", "b"}},
		"absolute":      {pages: map[string]string{"": `{"tags":["a"]}`, "a": `{"tags":["b"]}`}, links: map[string]string{"": `<HOST/v2/team/app/tags/list?last=a>; rel=next`}, want: []string{"a", "b"}},
		"other host":    {pages: map[string]string{"": `{"tags":["a"]}`}, links: map[string]string{"": `<http://evil.example/v2/>; rel="next"`}, err: "on another host"},
		"endless":       {pages: map[string]string{"": `{"tags":["a"]}`, "a": `{"tags":["a"]}`}, links: map[string]string{"": `<?last=a>; rel="next"`, "a": `<?last=a>; rel="next"`}, err: "do not end"},
		"not JSON":      {pages: map[string]string{"": `<html>`}, err: "read tags: invalid character"},
		"no repository": {err: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				last := r.URL.Query().Get("last")
				body, ok := tc.pages[last]
				switch {
				case r.URL.Path == "/v2/":
				case r.URL.Path != "/v2/team/app/tags/list" || !ok:
					http.NotFound(w, r)
				default:
					if l := tc.links[last]; l != "" {
						w.Header().Set("Link", strings.Replace(l, "HOST", "http://"+r.Host, 1))
					}
					fmt.Fprint(w, body)
				}
			}))
			defer srv.Close()
			host := strings.TrimPrefix(srv.URL, "http://")
			c, err := remote.New(remote.Options{Insecure: []string{"http://" + host}, Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Tags(t.Context(), ref.Reference{Registry: host, Repository: "team/app"})
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if name == "no repository" && !errors.Is(err, remote.ErrNotFound) {
				t.Errorf("%v does not wrap ErrNotFound", err)
			}
			if diff := cmp.Diff(tc.want, got); tc.err == "" && diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
		})
	}
}

// The catalog is read page by page, to its end and not beyond.
func TestCatalog(t *testing.T) {
	t.Parallel()
	const all = 2500
	for name, tc := range map[string]struct {
		link func(r *http.Request, last int) string
		want int
		err  string
	}{
		"relative links": {func(_ *http.Request, last int) string {
			return fmt.Sprintf(`</v2/_catalog?n=1000&last=%d>; rel="next"`, last)
		}, all, ""},
		"absolute links": {func(r *http.Request, last int) string {
			return fmt.Sprintf(`<http://%s/v2/_catalog?last=%d&n=1000>; rel="next"`, r.Host, last)
		}, all, ""},
		"no links":   {func(*http.Request, int) string { return "" }, 1000, ""}, // one page is all that such a registry shows
		"other host": {func(*http.Request, int) string { return `<http://evil.example/v2/_catalog>; rel="next"` }, 0, "on another host"},
		"endless":    {func(*http.Request, int) string { return `<?n=1000>; rel="next"` }, 0, "do not end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				asked.Add(1)
				first, _ := strconv.Atoi(r.URL.Query().Get("last"))
				n, _ := strconv.Atoi(r.URL.Query().Get("n"))
				var page []string
				for i := first; i < min(all, first+n); i++ {
					page = append(page, fmt.Sprintf("team/app-%04d", i))
				}
				if l := tc.link(r, first+n); l != "" && first+n < all {
					w.Header().Set("Link", l)
				}
				_ = json.NewEncoder(w).Encode(map[string][]string{"repositories": page})
			}))
			defer srv.Close()
			host := strings.TrimPrefix(srv.URL, "http://")
			c, err := remote.New(remote.Options{Insecure: []string{"http://" + host}, Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Catalog(t.Context(), host)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if len(got) != tc.want || !slices.IsSorted(got) {
				t.Errorf("%d repositories, want %d", len(got), tc.want)
			}
			if pages := (tc.want + 999) / 1000; tc.err == "" && int(asked.Load()) != pages {
				t.Errorf("%d requests, want %d", asked.Load(), pages)
			}
		})
	}
}
