package parser_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
)

// TestEveryKeyword parses and expands each keyword of the language: a new one
// must get a type of its own, or share one on purpose, and have its variables
// replaced, or kept for a shell.
func TestEveryKeyword(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		line string // with the variable V=value
		as   kubefile.Instruction
		want string // the expanded line
	}{
		"FROM":        {"FROM base:$V", &kubefile.From{}, "FROM base:value"},
		"ARG":         {"ARG W=$V", &kubefile.Arg{}, "ARG W=value"},
		"ENV":         {"ENV W=$V", &kubefile.Env{}, "ENV W=value"},
		"LABEL":       {"LABEL w=$V", &kubefile.Label{}, "LABEL w=value"},
		"MAINTAINER":  {"MAINTAINER $V", &kubefile.Maintainer{}, "MAINTAINER $V"},
		"COPY":        {"COPY $V etc", &kubefile.Copy{}, "COPY value etc"},
		"ADD":         {"ADD $V etc", &kubefile.Copy{}, "ADD value etc"},
		"RUN":         {"RUN echo $V", &kubefile.Run{}, "RUN echo $V"},
		"CMD":         {"CMD echo $V", &kubefile.Cmd{}, "CMD echo $V"},
		"APP":         {"APP $V local://dir", &kubefile.App{}, "APP value local://dir"},
		"CNI":         {"CNI $V local://dir", &kubefile.App{}, "CNI value local://dir"},
		"CSI":         {"CSI $V local://dir", &kubefile.App{}, "CSI value local://dir"},
		"APPCMDS":     {`APPCMDS $V ["echo $V"]`, &kubefile.AppCmds{}, `APPCMDS value ["echo $V"]`},
		"APPENV":      {"APPENV $V W=$V", &kubefile.AppEnv{}, "APPENV value W=value"},
		"KUBEVERSION": {"KUBEVERSION $RANGE", &kubefile.KubeVersion{}, "KUBEVERSION 1.19"},
		"LAUNCH":      {"LAUNCH $V", &kubefile.Launch{}, `LAUNCH ["value"]`},
		"CMDS":        {`CMDS ["echo $V"]`, &kubefile.Cmds{}, `CMDS ["echo $V"]`},
	}
	for _, keyword := range kubefile.Keywords() {
		row, ok := rows[keyword]
		if !ok {
			t.Errorf("%s has no row in this test", keyword)
			continue
		}
		text := "ARG V=value RANGE=1.19\n"
		if keyword != "FROM" {
			text += "FROM scratch\n"
		}
		text += row.line + "\n"
		f, _ := parser.Parse("Kubefile", strings.NewReader(text)) // one that is not whole by itself has faults
		out, _ := parser.Expand(f, parser.Vars{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}})
		in := out.Instructions[len(out.Instructions)-1]
		if reflect.TypeOf(in) != reflect.TypeOf(row.as) || in.Keyword() != keyword {
			t.Errorf("%s: parsed to a %T of %s, want a %T", keyword, in, in.Keyword(), row.as)
		}
		if got := fmt.Sprint(strings.TrimSpace(in.Keyword() + " " + in.Text())); got != row.want {
			t.Errorf("%s: expanded to %q, want %q", keyword, got, row.want)
		}
	}
}
