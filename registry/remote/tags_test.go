package remote_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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
