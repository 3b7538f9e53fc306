package kubefile

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	appName      = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	owner        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*\$?(:[A-Za-z0-9_][A-Za-z0-9_.-]*\$?)?$`)
	largeNumber  = regexp.MustCompile(`(^|:)[0-9]{10,}(:|$)`)
	sha256Sum    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// Validate returns every fault of f that can be found without its base and its
// context, joined in line order; each is an *Error. Words with variables are
// judged once f is expanded.
func (f *File) Validate() error {
	return Join(f.Faults())
}

// Faults returns the faults that Validate joins.
func (f *File) Faults() []*Error {
	c := &checker{file: f, seen: map[string]int{}, apps: map[string]int{}}
	if !f.Expanded { // variables do not change the order
		c.order()
	}
	for _, in := range f.Instructions {
		c.in = in
		in.check(c)
	}
	slices.SortStableFunc(c.errs, func(a, b *Error) int { return a.Line - b.Line })
	return c.errs
}

type checker struct {
	file *File
	in   Instruction
	errs []*Error
	seen map[string]int // keyword -> line, of instructions that are allowed once
	apps map[string]int // name -> line
}

func (c *checker) bad(msg, fix string) {
	e := &Error{File: c.file.Name, Msg: msg, Fix: fix}
	if c.in != nil {
		e.Line, e.Instruction = c.in.Line(), c.in.Keyword()
	}
	c.errs = append(c.errs, e)
}

func (c *checker) once() {
	if line, ok := c.seen[c.in.Keyword()]; ok {
		c.bad(fmt.Sprintf("it stands in line %d already", line), "keep one")
		return
	}
	c.seen[c.in.Keyword()] = c.in.Line()
}

// plain reports whether s has its final value: f is expanded, or s contains no
// variable, quote or escape.
func (c *checker) plain(s string) bool { return c.file.Expanded || !strings.ContainsAny(s, "$\"'\\`") }

// order checks that FROM comes first, and that LAUNCH stands alone.
func (c *checker) order() {
	var launch *Launch
	begun := false
	for _, in := range c.file.Instructions {
		switch in := in.(type) {
		case *Launch:
			launch = in
		case *Arg:
			continue // FROM may use it
		}
		if _, ok := in.(*From); !ok && !begun {
			c.in = in
			c.bad("it stands before FROM", "begin the file with FROM scratch or FROM IMAGE")
		}
		begun = true
	}
	if !begun {
		c.in = nil
		c.bad("the file has no FROM", "begin it with FROM scratch or FROM IMAGE")
	}
	if launch == nil {
		return
	}
	for _, in := range c.file.Instructions {
		switch in.(type) {
		case *Cmd, *Cmds:
			c.in = in
			c.bad(fmt.Sprintf("LAUNCH in line %d excludes it", launch.Line()), "put the command into an APPCMDS, or drop LAUNCH")
		}
	}
}

func (f *From) check(c *checker) {
	c.once()
	if f.Image == "" {
		c.bad("the image is missing", "FROM scratch or FROM IMAGE")
	}
}

func (a *Arg) check(c *checker)   { c.variables(a.Pairs) }
func (e *Env) check(c *checker)   { c.variables(e.Pairs) }
func (l *Label) check(c *checker) { c.keys(l.Pairs) }

func (m *Maintainer) check(c *checker) {
	if m.Name == "" {
		c.bad("the name is missing", "MAINTAINER NAME <MAIL>")
	}
}

func (c *checker) variables(list []Pair) {
	for _, p := range list {
		if !variableName.MatchString(p.Name) {
			c.bad(fmt.Sprintf("%q is no name for a variable", p.Name), "use letters, digits and _")
		}
	}
}

func (c *checker) keys(list []Pair) {
	for _, p := range list {
		if c.plain(p.Name) && strings.Trim(p.Name, `"' `) == "" {
			c.bad("a name is empty", "write name=value")
		}
	}
}

func (cp *Copy) check(c *checker) {
	if len(cp.Sources) == 0 || cp.Dest == "" {
		c.bad("it needs a source and a destination", cp.Keyword()+" SRC... DEST")
		return
	}
	for _, p := range strings.Split(cp.Dest, "/") {
		switch {
		case !c.plain(cp.Dest):
		case p == "..":
			c.bad(fmt.Sprintf("destination %s leads out of the rootfs", cp.Dest), "drop the ..")
			return
		case strings.HasPrefix(p, ".wh."):
			c.bad(fmt.Sprintf("destination %s has a name that means a deletion in a layer", cp.Dest), "give it one that does not begin with .wh.")
			return
		}
	}
	if c.plain(cp.Chmod) && cp.Chmod != "" {
		if n, err := strconv.ParseUint(cp.Chmod, 8, 32); err != nil || n > 0o7777 {
			c.bad(fmt.Sprintf("--chmod=%s is no octal mode", cp.Chmod), "such as --chmod=0755")
		}
	}
	if c.plain(cp.Chown) && cp.Chown != "" && (!owner.MatchString(cp.Chown) || largeNumber.MatchString(cp.Chown)) {
		c.bad(fmt.Sprintf("--chown=%s names no owner", cp.Chown), "USER[:GROUP], such as --chown=1000:1000")
	}
	if c.plain(cp.Checksum) && cp.Checksum != "" {
		if !sha256Sum.MatchString(cp.Checksum) {
			c.bad(fmt.Sprintf("--checksum=%s is no checksum", cp.Checksum), "--checksum=sha256: and 64 hexadecimal digits")
		}
		if len(cp.Sources) != 1 || c.plain(cp.Sources[0]) && !IsURL(cp.Sources[0]) && !IsChart(cp.Sources[0]) {
			c.bad("--checksum needs exactly one source, an http(s) URL or a chart", "split the instruction")
		}
	}
}

// IsURL reports whether a source is an http or https URL.
func IsURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// IsChart reports whether a source is a chart of a registry (oci://) or of a
// chart repository (repo+https://).
func IsChart(s string) bool {
	return strings.HasPrefix(s, "oci://") || strings.HasPrefix(s, "repo+")
}

func (r *Run) check(c *checker) {
	if strings.Trim(r.Command, `"'`+Space) == "" && (len(r.Args) == 0 || r.Args[0] == "") {
		c.bad("the command is missing", "RUN COMMAND")
	}
	switch r.Network {
	case "", "default", "host", "none":
	default:
		if c.plain(r.Network) {
			c.bad(fmt.Sprintf("--network=%s is unknown", r.Network), "use host or none")
		}
	}
	for _, m := range r.Mounts {
		if m.Type != "secret" {
			c.bad(fmt.Sprintf("--mount=type=%s is not supported", m.Type), "only type=secret is; COPY brings other files")
		} else if m.ID == "" {
			c.bad("--mount=type=secret has no id", "add id=NAME, and give --secret id=NAME,src=FILE to sealer build")
		}
		if to := m.Target; to != "" && c.plain(to) && !strings.HasPrefix(path.Clean(to), "/run/") && !strings.HasPrefix(path.Clean(to), "/tmp/") {
			c.bad(fmt.Sprintf("--mount: target=%s lies neither in /run nor in /tmp", to), "leave it out: the secret is at /run/secrets/ID then")
		}
		if m.Mode != "" {
			if n, err := strconv.ParseUint(m.Mode, 8, 32); err != nil || n > 0o777 {
				c.bad(fmt.Sprintf("--mount: mode=%s is no octal mode", m.Mode), "such as mode=0400")
			}
		}
	}
}

func (c *Cmd) check(k *checker)  { k.commands(c.Commands, "CMD COMMAND") }
func (c *Cmds) check(k *checker) { k.once(); k.commands(c.Commands, `CMDS ["c1", "c2"]`) }

func (c *checker) commands(list []string, form string) {
	if len(list) == 0 {
		c.bad("the command is missing", form)
	}
	for i, s := range list {
		if strings.Trim(s, `"'`+Space) == "" {
			c.bad(fmt.Sprintf("command %d is empty", i+1), "drop it")
		}
	}
}

func (c *checker) name(name, form string) bool {
	switch {
	case name == "":
		c.bad("the application's name is missing", form)
	case c.plain(name) && !appName.MatchString(name):
		c.bad(fmt.Sprintf("%q is no name for an application", name), "use letters, digits, '.', '_' and '-'")
	default:
		return true
	}
	return false
}

func (a *App) check(c *checker) {
	if !c.name(a.Name, a.Kind+" NAME SRC...") {
		return
	}
	if line, ok := c.apps[a.Name]; ok {
		c.bad(fmt.Sprintf("application %s stands in line %d already", a.Name, line), "give it another name, or put the sources into one instruction")
	}
	c.apps[a.Name] = a.Line()
	if len(a.Sources) == 0 {
		c.bad(fmt.Sprintf("application %s has no source", a.Name), fmt.Sprintf("%s %s local://PATH", a.Kind, a.Name))
	}
	for _, s := range a.Sources {
		switch local, ok := strings.CutPrefix(s, "local://"); {
		case ok && local == "":
			c.bad("a source local:// has no path", "local://PATH, relative to the build context")
		case !ok && !IsURL(s) && !IsChart(s) && c.plain(s):
			c.bad(fmt.Sprintf("source %s has no scheme", s), "write local://"+strings.TrimPrefix(s, "/")+", http://..., https://..., or for a chart oci://... or repo+https://...")
		}
	}
}

func (a *AppCmds) check(c *checker) {
	if c.name(a.Name, `APPCMDS NAME ["c1", "c2"]`) {
		c.commands(a.Commands, `APPCMDS `+a.Name+` ["c1", "c2"]`)
	}
}

func (a *AppEnv) check(c *checker) {
	if !c.name(a.Name, "APPENV NAME k=v ...") {
		return
	}
	if len(a.Pairs) == 0 {
		c.bad("the variables are missing", "APPENV "+a.Name+" k=v ...")
	}
	c.variables(a.Pairs)
}

func (k *KubeVersion) check(c *checker) {
	c.once()
	if k.Range == "" {
		c.bad("the range is missing", "such as KUBEVERSION >=1.22 <1.30")
		return
	}
	if !c.plain(k.Range) {
		return
	}
	if _, err := semver.NewConstraint(k.Range); err != nil {
		c.bad(fmt.Sprintf("%q is no range of versions", k.Range), "such as >=1.22.0 <1.30.0, or 1.22 - 1.27")
	}
}

func (l *Launch) check(c *checker) {
	c.once()
	if len(l.Apps) == 0 {
		c.bad("the applications are missing", "LAUNCH NAME...")
	}
	seen := map[string]bool{}
	for _, a := range l.Apps {
		if seen[a] {
			c.bad(fmt.Sprintf("application %s stands twice", a), "keep one")
		}
		seen[a] = true
		c.name(a, "LAUNCH NAME...")
	}
}
