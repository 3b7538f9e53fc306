package kubefile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/kubefile"
)

const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestInstructions judges one instruction each, in line 2 of a file that begins
// with FROM.
func TestInstructions(t *testing.T) {
	t.Parallel()
	cp := func(c kubefile.Copy) *kubefile.Copy {
		c.At, c.Dest = 2, "b"
		if c.Sources == nil {
			c.Sources = []string{"a"}
		}
		return &c
	}
	secret := func(m kubefile.Mount) *kubefile.Run {
		m.Type = "secret"
		return &kubefile.Run{At: 2, Command: "x", Mounts: []kubefile.Mount{m}}
	}
	named := func(names ...string) (list []kubefile.Pair) {
		for _, n := range names {
			list = append(list, kubefile.Pair{Name: n, Value: "v", Set: true})
		}
		return list
	}
	app := func(sources ...string) *kubefile.App {
		return &kubefile.App{At: 2, Kind: "APP", Name: "a", Sources: sources}
	}
	for name, tc := range map[string]struct {
		in   kubefile.Instruction
		want string // the faults' texts, without their fixes; "" for none
	}{
		"arg":                {&kubefile.Arg{At: 2, Pairs: named("a", "_B9")}, ""},
		"arg, bad":           {&kubefile.Arg{At: 2, Pairs: named("a-b", "ok", "9")}, "\"a-b\" is no name for a variable\n\"9\" is no name for a variable"},
		"env, bad":           {&kubefile.Env{At: 2, Pairs: named("")}, `"" is no name for a variable`},
		"label":              {&kubefile.Label{At: 2, Pairs: named("a.b/c-d", "$x")}, ""},
		"label, empty":       {&kubefile.Label{At: 2, Pairs: named(" ")}, "a name is empty"},
		"maintainer":         {&kubefile.Maintainer{At: 2, Name: "a"}, ""},
		"maintainer, none":   {&kubefile.Maintainer{At: 2}, "the name is missing"},
		"copy":               {cp(kubefile.Copy{Chmod: "7777", Chown: "1000:1000"}), ""},
		"copy, no source":    {&kubefile.Copy{At: 2, Dest: "b"}, "it needs a source and a destination"},
		"copy, no dest":      {&kubefile.Copy{At: 2, Sources: []string{"a"}}, "it needs a source and a destination"},
		"copy, out":          {&kubefile.Copy{At: 2, Sources: []string{"a"}, Dest: "x/../../b"}, "destination x/../../b leads out of the rootfs"},
		"copy, dots":         {&kubefile.Copy{At: 2, Sources: []string{"a"}, Dest: "x/..b/b.."}, ""},
		"copy, whiteout":     {&kubefile.Copy{At: 2, Sources: []string{"a"}, Dest: "x/.wh.b"}, "destination x/.wh.b has a name that means a deletion in a layer"},
		"copy, variable":     {&kubefile.Copy{At: 2, Sources: []string{"a"}, Dest: "$x/.."}, ""},
		"chmod, large":       {cp(kubefile.Copy{Chmod: "10000"}), "--chmod=10000 is no octal mode"},
		"chmod, 9":           {cp(kubefile.Copy{Chmod: "9"}), "--chmod=9 is no octal mode"},
		"chmod, variable":    {cp(kubefile.Copy{Chmod: "$m"}), ""},
		"chown, names":       {cp(kubefile.Copy{Chown: "app$:wheel"}), ""},
		"chown, variable":    {cp(kubefile.Copy{Chown: "$a:b:c"}), ""},
		"chown, 3":           {cp(kubefile.Copy{Chown: "a:b:c"}), "--chown=a:b:c names no owner"},
		"chown, 9 digits":    {cp(kubefile.Copy{Chown: "999999999"}), ""},
		"chown, 10 digits":   {cp(kubefile.Copy{Chown: "0:1000000000"}), "--chown=0:1000000000 names no owner"},
		"checksum":           {cp(kubefile.Copy{Sources: []string{"https://x.io/a"}, Checksum: sum}), ""},
		"checksum, http":     {cp(kubefile.Copy{Sources: []string{"http://x.io/a"}, Checksum: sum}), ""},
		"checksum, variable": {cp(kubefile.Copy{Sources: []string{"$url"}, Checksum: "$sum"}), ""},
		"checksum, later":    {cp(kubefile.Copy{Sources: []string{"$url"}, Checksum: sum}), ""},
		"checksum, short":    {cp(kubefile.Copy{Sources: []string{"https://x.io/a"}, Checksum: sum[:70]}), "--checksum=" + sum[:70] + " is no checksum"},
		"checksum, file":     {cp(kubefile.Copy{Checksum: sum}), "--checksum needs exactly one source, an http(s) URL or a chart"},
		"checksum, two":      {cp(kubefile.Copy{Sources: []string{"https://x.io/a", "https://x.io/b"}, Checksum: sum}), "--checksum needs exactly one source, an http(s) URL or a chart"},
		"run":                {&kubefile.Run{At: 2, Command: "x", Network: "default"}, ""},
		"run, JSON":          {&kubefile.Run{At: 2, Args: []string{"x"}, Network: "host"}, ""},
		"run, none":          {&kubefile.Run{At: 2, Command: " '' "}, "the command is missing"},
		"run, empty program": {&kubefile.Run{At: 2, Args: []string{"", "x"}}, "the command is missing"},
		"run, network":       {&kubefile.Run{At: 2, Command: "x", Network: "bridge"}, "--network=bridge is unknown"},
		"run, some network":  {&kubefile.Run{At: 2, Command: "x", Network: "$n"}, ""},
		"mount":              {secret(kubefile.Mount{ID: "a", Target: "/run/x/../a", Mode: "777"}), ""},
		"mount, tmp":         {secret(kubefile.Mount{ID: "a", Target: "/tmp/a"}), ""},
		"mount, variable":    {secret(kubefile.Mount{ID: "a", Target: "$x"}), ""},
		"mount, outside":     {secret(kubefile.Mount{ID: "a", Target: "/run/../etc/a"}), "--mount: target=/run/../etc/a lies neither in /run nor in /tmp"},
		"mount, the root":    {secret(kubefile.Mount{ID: "a", Target: "/run"}), "--mount: target=/run lies neither in /run nor in /tmp"},
		"mount, no ID":       {secret(kubefile.Mount{}), "--mount=type=secret has no id"},
		"mount, mode":        {secret(kubefile.Mount{ID: "a", Mode: "1000"}), "--mount: mode=1000 is no octal mode"},
		"mount, letters":     {secret(kubefile.Mount{ID: "a", Mode: "rw"}), "--mount: mode=rw is no octal mode"},
		"mount, cache":       {&kubefile.Run{At: 2, Command: "x", Mounts: []kubefile.Mount{{Type: "cache"}}}, "--mount=type=cache is not supported"},
		"cmd":                {&kubefile.Cmd{At: 2, Commands: []string{"x"}}, ""},
		"cmd, none":          {&kubefile.Cmd{At: 2}, "the command is missing"},
		"cmd, second":        {&kubefile.Cmd{At: 2, Commands: []string{"x", `" "`}}, "command 2 is empty"},
		"cmds, none":         {&kubefile.Cmds{At: 2}, "the command is missing"},
		"app":                {app("local://x", "http://x.io/a", "https://x.io/a", "$x"), ""},
		"app, no name":       {&kubefile.App{At: 2, Kind: "CNI", Sources: []string{"x"}}, "the application's name is missing"},
		"app, bad name":      {&kubefile.App{At: 2, Kind: "APP", Name: "-a"}, `"-a" is no name for an application`},
		"app, variable":      {&kubefile.App{At: 2, Kind: "APP", Name: "a-$x", Sources: []string{"local://x"}}, ""},
		"app, no source":     {app(), "application a has no source"},
		"app, no scheme":     {app("/x"), "source /x has no scheme"},
		"app, no path":       {app("local://"), "a source local:// has no path"},
		"appcmds":            {&kubefile.AppCmds{At: 2, Name: "a", Commands: []string{"x"}}, ""},
		"appcmds, none":      {&kubefile.AppCmds{At: 2, Name: "a"}, "the command is missing"},
		"appcmds, no name":   {&kubefile.AppCmds{At: 2}, "the application's name is missing"},
		"appenv":             {&kubefile.AppEnv{At: 2, Name: "a", Pairs: named("b")}, ""},
		"appenv, none":       {&kubefile.AppEnv{At: 2, Name: "a"}, "the variables are missing"},
		"appenv, bad":        {&kubefile.AppEnv{At: 2, Name: "a", Pairs: named("b.c")}, `"b.c" is no name for a variable`},
		"kubeversion":        {&kubefile.KubeVersion{At: 2, Range: "1.22 - 1.27"}, ""},
		"kubeversion, some":  {&kubefile.KubeVersion{At: 2, Range: ">=$v"}, ""},
		"kubeversion, none":  {&kubefile.KubeVersion{At: 2}, "the range is missing"},
		"kubeversion, bad":   {&kubefile.KubeVersion{At: 2, Range: "new"}, `"new" is no range of versions`},
		"launch":             {&kubefile.Launch{At: 2, Apps: []string{"a", "b"}}, ""},
		"launch, none":       {&kubefile.Launch{At: 2}, "the applications are missing"},
		"launch, twice":      {&kubefile.Launch{At: 2, Apps: []string{"a", "a"}}, "application a stands twice"},
		"launch, bad":        {&kubefile.Launch{At: 2, Apps: []string{"a b"}}, `"a b" is no name for an application`},
		"from, none":         {&kubefile.From{At: 2}, "it stands in line 1 already\nthe image is missing"},
	} {
		f := &kubefile.File{Name: "Kubefile", Instructions: []kubefile.Instruction{&kubefile.From{At: 1, Image: "scratch"}, tc.in}}
		var got []string
		for _, e := range f.Faults() {
			got = append(got, e.Msg)
			if e.File != "Kubefile" || e.Line != 2 || e.Instruction != tc.in.Keyword() || e.Fix == "" {
				t.Errorf("%s: the fault is %+v, want its file, line, instruction and fix", name, e)
			}
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFixes has the fixes that are made of the instruction.
func TestFixes(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]kubefile.Instruction{
		"ADD SRC... DEST":        &kubefile.Copy{At: 2, Add: true},
		"CSI NAME SRC...":        &kubefile.App{At: 2, Kind: "CSI"},
		"CNI a local://PATH":     &kubefile.App{At: 2, Kind: "CNI", Name: "a"},
		`APPCMDS a ["c1", "c2"]`: &kubefile.AppCmds{At: 2, Name: "a"},
		"APPENV a k=v ...":       &kubefile.AppEnv{At: 2, Name: "a"},
		"write local://etc/x, http://..., https://..., or for a chart oci://... or repo+https://...": &kubefile.App{At: 2, Kind: "APP", Name: "a", Sources: []string{"/etc/x"}},
	} {
		f := &kubefile.File{Instructions: []kubefile.Instruction{&kubefile.From{At: 1, Image: "scratch"}, in}}
		if faults := f.Faults(); len(faults) != 1 || faults[0].Fix != want {
			t.Errorf("%s %s: %v, want the fix %q", in.Keyword(), in.Text(), faults, want)
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	from := func(line int) *kubefile.From { return &kubefile.From{At: kubefile.At(line), Image: "scratch"} }
	arg := func(line int) *kubefile.Arg {
		return &kubefile.Arg{At: kubefile.At(line), Pairs: []kubefile.Pair{{Name: "a"}}}
	}
	cmd := func(line int) *kubefile.Cmd { return &kubefile.Cmd{At: kubefile.At(line), Commands: []string{"x"}} }
	launch := func(line int) *kubefile.Launch { return &kubefile.Launch{At: kubefile.At(line), Apps: []string{"a"}} }
	app := func(line int, name string) *kubefile.App {
		return &kubefile.App{At: kubefile.At(line), Kind: "APP", Name: name, Sources: []string{"local://x"}}
	}
	for name, tc := range map[string]struct {
		list []kubefile.Instruction
		want string
	}{
		"ARG first":       {[]kubefile.Instruction{arg(1), from(2), cmd(3)}, ""},
		"nothing":         {nil, "Kubefile: the file has no FROM"},
		"ARG alone":       {[]kubefile.Instruction{arg(1)}, "Kubefile: the file has no FROM"},
		"CMD first":       {[]kubefile.Instruction{cmd(1), cmd(2), from(3)}, "Kubefile:1: CMD: it stands before FROM"},
		"two FROM":        {[]kubefile.Instruction{from(1), from(2)}, "Kubefile:2: FROM: it stands in line 1 already"},
		"LAUNCH":          {[]kubefile.Instruction{from(1), app(2, "a"), launch(3)}, ""},
		"LAUNCH, CMD":     {[]kubefile.Instruction{from(1), cmd(2), launch(3), &kubefile.Cmds{At: 4, Commands: []string{"x"}}}, "Kubefile:2: CMD: LAUNCH in line 3 excludes it\nKubefile:4: CMDS: LAUNCH in line 3 excludes it"},
		"two LAUNCH":      {[]kubefile.Instruction{from(1), launch(2), launch(3)}, "Kubefile:3: LAUNCH: it stands in line 2 already"},
		"two KUBEVERSION": {[]kubefile.Instruction{from(1), &kubefile.KubeVersion{At: 2, Range: "1"}, &kubefile.KubeVersion{At: 3, Range: "1"}}, "Kubefile:3: KUBEVERSION: it stands in line 2 already"},
		"one app twice":   {[]kubefile.Instruction{from(1), app(2, "a"), app(3, "b"), app(4, "a")}, "Kubefile:4: APP: application a stands in line 2 already"},
		"by line":         {[]kubefile.Instruction{from(1), &kubefile.Cmd{At: 3}, &kubefile.Maintainer{At: 2}}, "Kubefile:2: MAINTAINER: the name is missing\nKubefile:3: CMD: the command is missing"},
	} {
		f := &kubefile.File{Name: "Kubefile", Instructions: tc.list}
		var got []string
		for _, e := range f.Faults() {
			e.Fix = ""
			got = append(got, e.Error())
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := f.Validate(); (err == nil) != (tc.want == "") || err != nil && strings.Count(err.Error(), "\n") != strings.Count(tc.want, "\n") {
			t.Errorf("%s: Validate = %v", name, err)
		}
	}
	expanded := &kubefile.File{Expanded: true, Instructions: []kubefile.Instruction{cmd(1), &kubefile.Copy{At: 2, Sources: []string{"a"}, Dest: "$x/.."}}}
	if err := expanded.Validate(); err == nil || strings.Contains(err.Error(), "FROM") || !strings.Contains(err.Error(), "leads out of the rootfs") {
		t.Errorf("an expanded file: %v, want words judged as they stand, and the order not again", err)
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	cause := kubefile.ErrUnset
	for want, e := range map[string]*kubefile.Error{
		"K:1: COPY: bad: mend it": {File: "K", Line: 1, Instruction: "COPY", Msg: "bad", Fix: "mend it"},
		"K: bad":                  {File: "K", Msg: "bad", Err: cause},
	} {
		if e.Error() != want || e.Unwrap() != e.Err {
			t.Errorf("%+v prints %q, want %q", e, e.Error(), want)
		}
	}
}
