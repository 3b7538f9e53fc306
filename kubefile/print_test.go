package kubefile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/kubefile"
)

func TestText(t *testing.T) {
	t.Parallel()
	pair := func(name, value string) kubefile.Pair { return kubefile.Pair{Name: name, Value: value, Set: true} }
	for want, in := range map[string]kubefile.Instruction{
		"FROM scratch":                      &kubefile.From{Image: "scratch"},
		"FROM --platform=$P k8s:v1 AS base": &kubefile.From{Platform: "$P", Image: "k8s:v1", Alias: "base"},
		"ARG a=1 b":                         &kubefile.Arg{Pairs: []kubefile.Pair{pair("a", "1"), {Name: "b"}}},
		"ENV a the rest":                    &kubefile.Env{Pairs: []kubefile.Pair{pair("a", "the rest")}},
		`ENV a="the rest"`:                  &kubefile.Env{Pairs: []kubefile.Pair{pair("a", `"the rest"`)}},
		"ENV a=the rest b=c":                &kubefile.Env{Pairs: []kubefile.Pair{pair("a", "the rest"), pair("b", "c")}},
		"LABEL a=b":                         &kubefile.Label{Pairs: []kubefile.Pair{pair("a", "b")}},
		"MAINTAINER A B":                    &kubefile.Maintainer{Name: "A B"},
		"COPY a b c":                        &kubefile.Copy{Sources: []string{"a", "b"}, Dest: "c"},
		"COPY --chmod=1 --chown=2 --exclude=e a b":        &kubefile.Copy{Sources: []string{"a"}, Dest: "b", Chmod: "1", Chown: "2", Exclude: []string{"e"}},
		"ADD --checksum=s --exclude=e --exclude=f u b":    &kubefile.Copy{Add: true, Sources: []string{"u"}, Dest: "b", Checksum: "s", Exclude: []string{"e", "f"}},
		`COPY ["a b", "c"]`:                               &kubefile.Copy{Sources: []string{"a b"}, Dest: "c"},
		`COPY "a b" c`:                                    &kubefile.Copy{Sources: []string{`"a b"`}, Dest: "c"},
		`COPY ["a\"", "c"]`:                               &kubefile.Copy{Sources: []string{`a"`}, Dest: "c"},
		`COPY [" a", "c"]`:                                &kubefile.Copy{Sources: []string{" a"}, Dest: "c"},
		`COPY ["", "c"]`:                                  &kubefile.Copy{Sources: []string{""}, Dest: "c"},
		`COPY ["[a]", "c"]`:                               &kubefile.Copy{Sources: []string{"[a]"}, Dest: "c"},
		`COPY ["--a", "c"]`:                               &kubefile.Copy{Sources: []string{"--a"}, Dest: "c"},
		`COPY ["<&>", "a b"]`:                             &kubefile.Copy{Sources: []string{"<&>"}, Dest: "a b"},
		"RUN a && b":                                      &kubefile.Run{Command: "a && b"},
		`RUN --network=none ["a", "b"]`:                   &kubefile.Run{Args: []string{"a", "b"}, Network: "none"},
		"RUN --mount=type=secret,id=i,required a":         &kubefile.Run{Command: "a", Mounts: []kubefile.Mount{{Type: "secret", ID: "i", Required: true}}},
		"RUN --mount=type=secret,target=t,env=e,mode=m a": &kubefile.Run{Command: "a", Mounts: []kubefile.Mount{{Type: "secret", Target: "t", Env: "e", Mode: "m"}}},
		"CMD a, b":                                        &kubefile.Cmd{Commands: []string{"a, b"}},
		`CMD ["a", "b"]`:                                  &kubefile.Cmd{Commands: []string{"a", "b"}},
		`CMD [""]`:                                        &kubefile.Cmd{Commands: []string{""}},
		`CMD [" a"]`:                                      &kubefile.Cmd{Commands: []string{" a"}},
		`CMD ["[a"]`:                                      &kubefile.Cmd{Commands: []string{"[a"}},
		`CMD ["--a"]`:                                     &kubefile.Cmd{Commands: []string{"--a"}},
		`CMD ["a\nb"]`:                                    &kubefile.Cmd{Commands: []string{"a\nb"}},
		`CMD ["a\\"]`:                                     &kubefile.Cmd{Commands: []string{`a\`}},
		"CMD [\"a`\"]":                                    &kubefile.Cmd{Commands: []string{"a`"}},
		"APP a local://b http://c":                        &kubefile.App{Kind: "APP", Name: "a", Sources: []string{"local://b", "http://c"}},
		`APPCMDS a ["b"]`:                                 &kubefile.AppCmds{Name: "a", Commands: []string{"b"}},
		"APPENV a b=c":                                    &kubefile.AppEnv{Name: "a", Pairs: []kubefile.Pair{pair("b", "c")}},
		"KUBEVERSION >=1":                                 &kubefile.KubeVersion{Range: ">=1"},
		`LAUNCH ["a", "b"]`:                               &kubefile.Launch{Apps: []string{"a", "b"}},
		`CMDS ["a"]`:                                      &kubefile.Cmds{Commands: []string{"a"}},
		`CMDS []`:                                         &kubefile.Cmds{},
	} {
		if got := in.Keyword() + " " + in.Text(); got != want {
			t.Errorf("%#v prints %q, want %q", in, got, want)
		}
	}
}

func TestFileString(t *testing.T) {
	t.Parallel()
	eof := []kubefile.Heredoc{{Name: "EOF", Content: "a\nb\n"}}
	f := &kubefile.File{
		DockerCopy: true, Escape: '`',
		Instructions: []kubefile.Instruction{
			&kubefile.From{Image: "scratch"},
			&kubefile.Copy{Sources: []string{"<<EOF"}, Dest: "etc/motd", Heredocs: eof},
			&kubefile.Run{Command: "<<EOF", Heredocs: eof},
		},
	}
	want := "# escape=`\n# copy=docker\nFROM scratch\nCOPY <<EOF etc/motd\na\nb\nEOF\nRUN <<EOF\na\nb\nEOF\n"
	if diff := cmp.Diff(want, f.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plain := &kubefile.File{Escape: '\\', Instructions: f.Instructions[:1]}
	if got := plain.String(); got != "FROM scratch\n" {
		t.Errorf("a file without directives prints %q", got)
	}
	if f.From() != f.Instructions[0] || (&kubefile.File{}).From() != nil {
		t.Error("From returns another instruction than FROM")
	}
}

func TestHeredocBody(t *testing.T) {
	t.Parallel()
	h := kubefile.Heredoc{Content: "\t\ta\n b\t\n"}
	if got := h.Body(); got != h.Content {
		t.Errorf("<< reads %q", got)
	}
	h.Chomp = true
	if got := h.Body(); got != "a\n b\t\n" {
		t.Errorf("<<- reads %q", got)
	}
}

func TestBare(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]struct {
		at   int
		open bool
	}{
		"ab":       {-1, false},
		"a b":      {1, false},
		`a\ b c`:   {4, false},
		`"a b" c`:  {5, false},
		`'a b' c`:  {5, false},
		`"a\" b" `: {7, false},
		`'a\' b`:   {4, false},
		`"a'b" c`:  {5, false},
		`"a b`:     {-1, true},
		`'a b"`:    {-1, true},
		`a\`:       {-1, false},
		"":         {-1, false},
	} {
		at, open := kubefile.Bare(s, '\\', func(r rune) bool { return r == ' ' })
		if at != want.at || open != want.open {
			t.Errorf("Bare(%q) = %d, %v, want %d, %v", s, at, open, want.at, want.open)
		}
	}
}
