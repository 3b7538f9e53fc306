package build_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/ref"
)

// TestEveryKeywordIsPlanned builds a Kubefile for each keyword of the language
// and looks for its effect: an instruction that the build forgets has none.
func TestEveryKeywordIsPlanned(t *testing.T) {
	t.Parallel()
	const app = "APP name local://files\nAPPCMDS name [\"sh start\"]\n"
	layer := func(kind string) func(image.Config) bool {
		return func(c image.Config) bool {
			return slices.ContainsFunc(c.Layers, func(l image.ConfigLayer) bool { return l.Type == kind })
		}
	}
	rows := map[string]struct {
		text   string
		effect func(image.Config) bool
		fault  string // where the effect is a fault of the plan
	}{
		"FROM":        {text: "FROM base:1\n", effect: func(c image.Config) bool { return slices.Contains(c.Cmd.Parent, "base") }},
		"ARG":         {text: "ARG V=value\n", effect: func(c image.Config) bool { return c.Args.Current["V"] == "value" }},
		"ENV":         {text: "ENV V=value\n", effect: func(c image.Config) bool { return c.Env["V"] == "value" }},
		"LABEL":       {text: "LABEL v=value\n", effect: func(c image.Config) bool { return c.Labels["v"] == "value" }},
		"MAINTAINER":  {text: "MAINTAINER value\n", effect: func(c image.Config) bool { return c.Maintainer == "value" }},
		"COPY":        {text: "COPY files .\n", effect: layer("COPY")},
		"ADD":         {text: "ADD files .\n", effect: layer("COPY")},
		"RUN":         {text: "RUN --mount=type=secret,id=token,required true\n", fault: "secret token is required"},
		"CMD":         {text: "CMD value\n", effect: func(c image.Config) bool { return slices.Contains(c.Cmd.Current, "value") }},
		"CMDS":        {text: "CMDS [\"value\"]\n", effect: func(c image.Config) bool { return c.Launch != nil && slices.Contains(c.Launch.Cmds, "value") }},
		"LAUNCH":      {text: app + "LAUNCH name\n", effect: func(c image.Config) bool { return c.Launch != nil && slices.Contains(c.Launch.Apps, "name") }},
		"KUBEVERSION": {text: "KUBEVERSION 1.19\n", effect: func(c image.Config) bool { return c.Labels["app.alpha.sealer.io/supported-kube-version"] == "1.19" }},
		"APP":         {text: app, effect: func(c image.Config) bool { return len(c.Applications) == 1 && c.Applications[0].Name == "name" }},
		"APPCMDS":     {text: app, effect: func(c image.Config) bool { return slices.Equal(c.Applications[0].Cmds, []string{"sh start"}) }},
		"APPENV":      {text: app + "APPENV name V=value\n", effect: func(c image.Config) bool { return c.Applications[0].Env["V"] == "value" }},
		"CNI":         {text: strings.Replace(app, "APP", "CNI", 1), effect: func(c image.Config) bool { return c.Labels["cluster.alpha.sealer.io/kube-cni-name"] == "true" }},
		"CSI":         {text: strings.Replace(app, "APP", "CSI", 1), effect: func(c image.Config) bool { return c.Labels["cluster.alpha.sealer.io/kube-csi-name"] == "true" }},
	}
	s := open(t)
	base, err := ref.Parse("base:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), t, s, write(t, map[string]string{"Kubefile": "FROM scratch\nCMD base\n"}), build.Options{Tags: []ref.Reference{base}}); err != nil {
		t.Fatal(err)
	}
	for _, keyword := range kubefile.Keywords() {
		row, ok := rows[keyword]
		if !ok {
			t.Errorf("%s has no row in this test", keyword)
			continue
		}
		text := row.text
		if keyword != "FROM" {
			text = "FROM scratch\n" + text
		}
		r, err := run(t.Context(), t, s, write(t, map[string]string{"Kubefile": text, "files/start": "echo\n"}), build.Options{AllowGaps: true})
		if row.fault != "" {
			if err == nil || !strings.Contains(err.Error(), row.fault) {
				t.Errorf("%s: %v, want %s", keyword, err, row.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", keyword, err)
		} else if c := r.Images[0].Config; !row.effect(c) {
			t.Errorf("%s has no effect: %+v", keyword, c)
		}
	}
}
