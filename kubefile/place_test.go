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

// TestTargetOfSeveral has the places that depend on more than the source and
// DEST: several sources, heredocs, directories of the layers below.
func TestTargetOfSeveral(t *testing.T) {
	t.Parallel()
	file := kubefile.Source{Name: "a"}
	alone := kubefile.Source{Name: "a", Alone: true}
	dir := kubefile.Source{Name: "a", Alone: true, Dir: true}
	heredoc := kubefile.Source{Name: "EOF", Alone: true, Inline: true}
	for _, tc := range []struct {
		src       kubefile.Source
		dest      string
		docker    bool
		destIsDir bool
		want      kubefile.Place
	}{
		{file, "x/a", false, false, kubefile.Place{Path: "x/a/a"}},
		{file, "x", true, false, kubefile.Place{Path: "x/a"}},
		{alone, "x", true, false, kubefile.Place{Path: "x"}},
		{alone, "x", true, true, kubefile.Place{Path: "x/a"}},
		{alone, "x/.", true, false, kubefile.Place{Path: "x/a"}},
		{alone, "x/a/.", false, false, kubefile.Place{Path: "x/a/a"}},
		{alone, "/", true, false, kubefile.Place{Path: "a"}},
		{alone, "x/a", false, true, kubefile.Place{Path: "x/a"}},
		{dir, "x/a/", false, false, kubefile.Place{Path: "x/a"}},
		{dir, "x", true, false, kubefile.Place{Path: "x", Contents: true}},
		{heredoc, "x", false, false, kubefile.Place{Path: "x"}},
		{heredoc, "x/", false, false, kubefile.Place{Path: "x/EOF"}},
		{heredoc, "x", true, false, kubefile.Place{Path: "x"}},
		{kubefile.Source{Name: "EOF", Inline: true}, "x", false, false, kubefile.Place{Path: "x/EOF"}},
	} {
		got := (&kubefile.Copy{Dest: tc.dest}).Target(tc.src, tc.docker, tc.destIsDir)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%+v to %s, docker %v, a directory %v (-want +got):\n%s", tc.src, tc.dest, tc.docker, tc.destIsDir, diff)
		}
	}
}

func TestSourceName(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		".": "", "/": "", "a/.": "", "./": "", "//": "", "..": "", "a/..": "", "../..": "",
		"a": "a", "a/": "a", "./a/b": "b", "../a": "a", ".a": ".a", "a/..b": "..b",
	} {
		if got := kubefile.SourceName(src); got != want {
			t.Errorf("SourceName(%q) = %q, want %q", src, got, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		word       string
		candidates []string
		want       string
	}{
		{"APPCMD", kubefile.Keywords(), "APPCMDS"},
		{"COPPY", kubefile.Keywords(), "COPY"},
		{"FORM", kubefile.Keywords(), "FROM"},
		{"lauch", kubefile.Keywords(), "LAUNCH"},
		{"EXTERNAL", kubefile.Keywords(), ""},
		{"X", kubefile.Keywords(), ""},
		{"CMSD", kubefile.Keywords(), "CMDS"},
		{"", []string{"a"}, ""},
		{"X", []string{"Y"}, ""}, // no letter would be left
		{"port", nil, ""},
		{"abcdef", []string{"abxyef"}, "abxyef"},        // two of six letters
		{"abcdef", []string{"axyzef"}, ""},              // three of six
		{"abc", []string{"xbc", "abx"}, "abx"},          // of equals the last of its length
		{"abc", []string{"abcd", "ab"}, "abcd"},         // else the first
		{"abc", []string{"abcd", "abx", "xbcd"}, "abx"}, // its length before another
		{"abcdef", []string{"abcxyf", "abcdxf"}, "abcdxf"},
		{"abcdef", []string{"abcdxf", "abcxyf"}, "abcdxf"},
		{"ab", []string{"ba"}, "ba"}, // a swap is one change
		{"ab", []string{"cd"}, ""},
		{"abcd", []string{"badc"}, ""},
		{"abcdef", []string{"badcef"}, "badcef"},
		{"abcdef", []string{"cdef"}, "cdef"},
	} {
		if got := kubefile.Suggest(tc.word, tc.candidates); got != tc.want {
			t.Errorf("Suggest(%s, %v) = %q, want %q", tc.word, tc.candidates, got, tc.want)
		}
	}
}
