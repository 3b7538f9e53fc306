package imagelist_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/imagelist"
)

func TestParseLockRejects(t *testing.T) {
	t.Parallel()
	const d = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	text := "nginx " + d + "\nnginx\nNginx " + d + "\nnginx:1 sha256:ab\nnginx:latest sha256:" + strings.Repeat("0", 64) + "\na b c\n"
	_, err := imagelist.ParseLock("imageList.lock", strings.NewReader(text))
	if err == nil {
		t.Fatal("no error")
	}
	for i, want := range []string{":2:", ":3:", ":4:", ":5:", ":6:"} {
		if lines := strings.Split(err.Error(), "\n"); len(lines) != 5 || !strings.HasPrefix(lines[i], "imageList.lock"+want) {
			t.Errorf("error %d: %v, want it to begin with imageList.lock%s", i, lines, want)
		}
	}
}

func FuzzLock(f *testing.F) {
	f.Add("# x\ndocker.io/library/nginx:latest sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n")
	f.Fuzz(func(t *testing.T, text string) {
		one, err := imagelist.ParseLock("l", strings.NewReader(text))
		if err != nil {
			return
		}
		two, err := imagelist.ParseLock("l", strings.NewReader(one.String()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one, two); diff != "" {
			t.Fatal(diff)
		}
	})
}
