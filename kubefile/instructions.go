package kubefile

// Scratch is the image of FROM that is empty.
const Scratch = "scratch"

// From is FROM [--platform=P] IMAGE|scratch.
type From struct {
	At
	Platform string // of the base; "" is the platform that is built
	Image    string
	Alias    string // "AS name", as in Kubefiles of sealer 0.9; ignored
}

// Arg is ARG name[=default]...
type Arg struct {
	At
	Pairs []Pair
}

// Env is ENV k=v ...
type Env struct {
	At
	Pairs []Pair
}

// Label is LABEL k=v ...
type Label struct {
	At
	Pairs []Pair
}

// Maintainer is MAINTAINER name.
type Maintainer struct {
	At
	Name string
}

// Copy is COPY or ADD: SRC... DEST.
type Copy struct {
	At
	Add      bool     // written as ADD, which unpacks the archives of the context
	Sources  []string // paths and patterns in the context, URLs, git URLs, "<<NAME" for a heredoc
	Dest     string   // directory or file in the rootfs
	Chmod    string   // octal, "" keeps 0644 or 0755
	Chown    string   // USER[:GROUP], numbers or names of the rootfs below; "" is 0:0
	Checksum string   // sha256:... of the one URL
	Exclude  []string // patterns
	Heredocs []Heredoc
}

// Run is RUN [--mount=...] [--network=...] command.
type Run struct {
	At
	Command  string   // for the shell; "" when Args is set
	Args     []string // the JSON form: run without a shell
	Mounts   []Mount
	Network  string // host, none, or "" for the build's --run-network
	Heredocs []Heredoc
}

// A Mount is --mount=type=secret of RUN.
type Mount struct {
	Type     string // secret
	ID       string
	Target   string // "" is /run/secrets/ID
	Env      string // put the secret into this variable, too
	Required bool
	Mode     string // octal, "" is 0400
}

// Cmd is CMD: commands for the start of the cluster.
type Cmd struct {
	At
	Commands []string
}

// App is APP, CNI or CSI: name SRC...
type App struct {
	At
	Kind    string // APP, CNI or CSI
	Name    string
	Sources []string // local://PATH, http://..., https://...
}

// AppCmds is APPCMDS name ["c1", "c2"].
type AppCmds struct {
	At
	Name     string
	Commands []string
}

// AppEnv is APPENV name k=v ...
type AppEnv struct {
	At
	Name  string
	Pairs []Pair
}

// KubeVersion is KUBEVERSION range.
type KubeVersion struct {
	At
	Range string
}

// Launch is LAUNCH a b, or LAUNCH ["a", "b"].
type Launch struct {
	At
	Apps []string
}

// Cmds is CMDS ["c1", "c2"].
type Cmds struct {
	At
	Commands []string
}

// Keyword returns FROM.
func (*From) Keyword() string { return "FROM" }

// Keyword returns ARG.
func (*Arg) Keyword() string { return "ARG" }

// Keyword returns ENV.
func (*Env) Keyword() string { return "ENV" }

// Keyword returns LABEL.
func (*Label) Keyword() string { return "LABEL" }

// Keyword returns MAINTAINER.
func (*Maintainer) Keyword() string { return "MAINTAINER" }

// Keyword returns COPY or ADD.
func (c *Copy) Keyword() string {
	if c.Add {
		return "ADD"
	}
	return "COPY"
}

// Keyword returns RUN.
func (*Run) Keyword() string { return "RUN" }

// Keyword returns CMD.
func (*Cmd) Keyword() string { return "CMD" }

// Keyword returns APP, CNI or CSI.
func (a *App) Keyword() string { return a.Kind }

// Keyword returns APPCMDS.
func (*AppCmds) Keyword() string { return "APPCMDS" }

// Keyword returns APPENV.
func (*AppEnv) Keyword() string { return "APPENV" }

// Keyword returns KUBEVERSION.
func (*KubeVersion) Keyword() string { return "KUBEVERSION" }

// Keyword returns LAUNCH.
func (*Launch) Keyword() string { return "LAUNCH" }

// Keyword returns CMDS.
func (*Cmds) Keyword() string { return "CMDS" }

// Keywords returns the name of every instruction, in the order of the
// documentation.
func Keywords() []string {
	return []string{
		"FROM", "ARG", "ENV", "LABEL", "MAINTAINER", "COPY", "ADD", "RUN", "CMD",
		"APP", "APPCMDS", "APPENV", "CNI", "CSI", "KUBEVERSION", "LAUNCH", "CMDS",
	}
}

// Flags returns the flags that an instruction takes, without their dashes.
func Flags(keyword string) []string {
	switch keyword {
	case "FROM":
		return []string{"platform"}
	case "COPY", "ADD":
		return []string{"chmod", "chown", "exclude", "checksum", "link"}
	case "RUN":
		return []string{"mount", "network"}
	}
	return nil
}
