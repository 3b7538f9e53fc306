package kubefile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/kubefile"
)

func TestTarget(t *testing.T) {
	t.Parallel()
	at := func(p string) kubefile.Place { return kubefile.Place{Path: p} }
	contents := func(p string) kubefile.Place { return kubefile.Place{Path: p, Contents: true} }
	for _, tc := range []struct {
		src          string
		dir, pattern bool
		dest         string
		want, docker kubefile.Place
	}{
		{"etc", true, false, ".", at("etc"), contents(".")},
		{"etc/", true, false, "/", at("etc"), contents(".")},
		{"imageList", false, false, "manifests", at("manifests/imageList"), at("manifests")},
		{"imageList", false, false, "manifests/", at("manifests/imageList"), at("manifests/imageList")},
		{"apollo", true, false, "charts", at("charts/apollo"), contents("charts")},
		{".", true, false, "manifests", contents("manifests"), contents("manifests")},
		{"deploy/.", true, false, "manifests", contents("manifests"), contents("manifests")},
		{"rootfs/bin", true, true, ".", at("bin"), contents(".")},
		{"rootfs/README", false, true, ".", at("README"), at("README")},
		{"helm", false, false, "bin/helm", at("bin/helm"), at("bin/helm")},
		{"helm", false, false, "/bin/helm", at("bin/helm"), at("bin/helm")},
		{"helm", false, false, "./bin/helm", at("bin/helm"), at("bin/helm")},
		{"helm", false, false, "bin/helm/", at("bin/helm/helm"), at("bin/helm/helm")},
		{"nginx", true, false, "charts/nginx", at("charts/nginx"), contents("charts/nginx")},
		{"nginx", true, false, "charts/nginx/", at("charts/nginx"), contents("charts/nginx")},
		{"charts/nginx", true, true, "charts/nginx", at("charts/nginx/nginx"), contents("charts/nginx")},
		{"a", false, false, "../../x", at("x/a"), at("x")},
	} {
		c := &kubefile.Copy{Sources: []string{tc.src}, Dest: tc.dest}
		src := kubefile.Source{Path: tc.src, Name: kubefile.SourceName(tc.src), Dir: tc.dir, Alone: !tc.pattern}
		if diff := cmp.Diff(tc.want, c.Target(src, false, false)); diff != "" {
			t.Errorf("COPY %s %s (-want +got):\n%s", tc.src, tc.dest, diff)
		}
		if diff := cmp.Diff(tc.docker, c.Target(src, true, false)); diff != "" {
			t.Errorf("Dockerfile's COPY %s %s (-want +got):\n%s", tc.src, tc.dest, diff)
		}
	}
	c := &kubefile.Copy{Dest: "etc"}
	if got := c.Target(kubefile.Source{Path: "a", Name: "a", Alone: true}, true, true); got.Path != "etc/a" {
		t.Errorf("Dockerfile's COPY a etc, where etc is a directory, goes to %s", got.Path)
	}
	if got := (&kubefile.Copy{Dest: "etc/motd"}).Target(kubefile.Source{Name: "EOF", Alone: true, Inline: true}, false, false); got.Path != "etc/motd" {
		t.Errorf("a heredoc goes to %s", got.Path)
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"APPCMD": "APPCMDS", "COPPY": "COPY", "FORM": "FROM", "lauch": "LAUNCH", "EXTERNAL": "", "X": "", "CMSD": "CMDS",
	} {
		if got := kubefile.Suggest(word, kubefile.Keywords()); got != want {
			t.Errorf("Suggest(%s) = %q, want %q", word, got, want)
		}
	}
}
