package hostile

import (
	"maps"
	"slices"
	"strings"
)

// A kubefileCase is a Kubefile in a context and what sealer build says of it.
type kubefileCase struct {
	name  string
	exit  int
	text  string
	lines string
	files map[string]string
}

// kubefiles returns Kubefiles and contexts.
func kubefiles() []Case {
	var out []Case
	for _, c := range slices.Concat(kubefilePaths(), kubefileLinks(), kubefileArchives(), kubefileWords()) {
		one := Case{
			Group: "Kubefile", Name: c.name, Exit: c.exit, Text: c.text,
			Args: []string{"build", "--offline", "--no-cache", "-q", "--scan", "off", "-t", loaded, "."},
			Make: func(dir string, p Places) {
				Write(dir, "a", "1")
				for _, name := range slices.Sorted(maps.Keys(c.files)) {
					place(dir, name, p.in(c.files[name]))
				}
				Write(dir, "Kubefile", "FROM scratch\n"+p.in(c.lines)+"\n")
			},
		}
		if c.exit == 0 {
			one.Image = loaded
		}
		out = append(out, one)
	}
	return out
}

func kubefilePaths() []kubefileCase {
	return []kubefileCase{
		{"COPY from ..", 1, "leads out of the build context", "COPY ../secret .", nil},
		{"COPY from .. in the middle", 1, "leads out of the build context", "COPY a/../../secret .", nil},
		{"COPY of an absolute path", 1, "sources are looked for in the build context", "COPY {victim}/file .", nil},
		{"COPY of .. by ARG", 1, "leads out of the build context", "ARG P=..\nCOPY ${P}/secret .", nil},
		{"COPY of a pattern outside", 1, "leads out of the build context", "COPY ../*/file .", nil},
		{"COPY to ..", 1, "leads out of the rootfs", "COPY a ../../../../../../{victim}", nil},
		{"COPY to .. by ARG", 1, "leads out of the rootfs", "ARG P=../..\nCOPY a ${P}/x", nil},
		{"COPY to an absolute path", 0, "", "COPY a {victim}", nil},
		{"COPY of a file URL", 1, "file:// is nothing that can be copied", "COPY file:///etc/passwd .", nil},
		{"COPY of a URL, offline", 1, "it needs the network, and the build is offline", "COPY http://{other}/x .", nil},
		{"COPY of a git URL that is an option", 1, "unknown flag --upload-pack", "COPY --upload-pack=x.git .", nil},
		{"COPY of a git URL with a program", 1, "sources are looked for in the build context", "COPY ext::sh%20-c%20x.git .", nil},
		{"COPY from another stage", 1, "unknown flag --from", "COPY --from=evil /etc .", nil},
		{"APP with ..", 1, "is no name for an application", "APP ../../x local://a", nil},
		{"APP of a path outside", 1, "leads out of the build context", "APP x local://../secret", nil},
		{"RUN with a secret over /etc", 1, "lies neither in /run nor in /tmp", "RUN --mount=type=secret,id=x,target=/etc/passwd true", nil},
		{"RUN with a bind mount", 1, "--mount=type=bind is not supported", "RUN --mount=type=bind,source=/,target=/host true", nil},
		{"RUN without a sandbox", 1, "unknown flag --security", "RUN --security=insecure true", nil},
	}
}

func kubefileLinks() []kubefileCase {
	return []kubefileCase{
		{"COPY of a link outside", 1, "a symbolic link leads out of the build context", "COPY l .", map[string]string{"l": "-> {victim}/file"}},
		{"COPY through a link outside", 1, "a symbolic link leads out of the build context", "COPY l/file .", map[string]string{"l": "-> {victim}"}},
		{"COPY of a pattern through a link outside", 1, "sources are looked for in the build context", "COPY l/* .", map[string]string{"l": "-> {victim}"}},
		{"COPY into a link of the context", 1, "a symbolic link leads out of the build context", "COPY l .\nCOPY a l/file", map[string]string{"l": "-> {victim}"}},
		{"COPY of a loop of links", 1, "too many levels of symbolic links", "COPY l/x .", map[string]string{"l": "-> m", "m": "-> l"}},
		{"COPY of the credentials' file", 0, "is not copied: it holds credentials", "COPY imageListWithAuth.yaml etc/", map[string]string{"imageListWithAuth.yaml": "[]\n"}},
		{"COPY of the credentials' file by a link", 0, "is not copied: it holds credentials", "COPY l etc/", map[string]string{"imageListWithAuth.yaml": "[]\n", "l": "-> imageListWithAuth.yaml"}},
		{"heredoc of the credentials' file", 0, "is not copied: it holds credentials", "COPY <<imageListWithAuth.yaml etc/\n[]\nimageListWithAuth.yaml", nil},
		{".sealerignore that is a link outside", 1, "a symbolic link leads out of the build context", "COPY a .", map[string]string{".sealerignore": "-> {victim}/file"}},
		{"Kubefile's heredoc to ..", 1, "the path leads out of the layer", "COPY <<../../x .\n1\n../../x", nil},
	}
}

func kubefileArchives() []kubefileCase {
	add := func(name, text string, entries ...Entry) kubefileCase {
		return kubefileCase{"ADD of " + name, 1, text, "ADD x.tar etc", map[string]string{"x.tar": string(Tar(entries...))}}
	}
	return []kubefileCase{
		add("an archive with ..", "it leads out of the archive", File("../../x", "evil")),
		add("an archive with a file through a link", "path escapes from parent", Symlink("l", "/tmp"), File("l/x", "evil")),
		add("an archive with a hard link outside", "which the archive has not", Link("h", "../../../etc/passwd")),
		add("an archive with a device", "it is a device", Node("d", '3', 1, 3)),
		add("an archive with a whiteout", "names that begin with .wh. mean a deletion", File(".wh.x", "")),
		{"ADD of a file that is cut, and so no archive", 0, "", "ADD x.tgz etc", map[string]string{"x.tgz": string(Gzip(Tar(File("a", strings.Repeat("x", 5000))))[:40])}},
	}
}

func kubefileWords() []kubefileCase {
	return []kubefileCase{
		{"unknown instruction with escape sequences", 1, "it holds the control character 0x1b", "EVIL\x1b[2J x", nil},
		{"line of 1 MB", 1, "a Kubefile is text", "LABEL a=" + strings.Repeat("x", 1<<20) + " b", nil},
		{"100,000 lines that are wrong: 100 are printed", 1, "99900 more faults: correct these first", strings.Repeat("EVIL x\n", 100_000), nil},
		{"variable that contains itself", 0, "", "ARG A=${A}${A}\nENV A=${A}${A}\nCOPY a .", nil},
		{"variables that multiply to 2^30 bytes", 1, "the variables of the file give more than 16 MiB", "ENV A0=xxxxxxxxxx\n" + multiplied(), nil},
		{"FROM twice, the second time the image itself", 1, "it stands in line 1 already: keep one", "COPY a .\nFROM " + loaded, nil},
		{"heredoc with a NUL", 1, "it holds the control character 0x00", "RUN <<E\ntrue\x00\nE", nil},
		{"heredoc of 2 MB in one line", 1, "it is larger than 1024 KiB", "COPY <<big .\n" + strings.Repeat("x", 2<<20) + "\nbig", nil},
		{"COPY for an owner beyond 2^31", 1, "names no owner", "COPY --chown=4294967294:4294967294 a .", nil},
		{"label with escape sequences", 0, "", "LABEL \"a\\u001b[2J\"=\"<script>alert(1)</script>\\u202e\"", nil},
		{"environment of 200 kB", 1, "line greater than max allowed size", "ENV A=" + strings.Repeat("x", 200_000) + "\nRUN true", nil},
		{"heredoc without an end", 1, "the heredoc has no end", "RUN <<E\ntrue", nil},
		{"bytes that are no text", 1, "it holds the control character 0x00", "\x00\xff\xfe", nil},
	}
}

// multiplied returns ENV lines, each ten times the one before.
func multiplied() string {
	var b strings.Builder
	for i := 1; i < 9; i++ {
		n, p := string(rune('0'+i)), string(rune('0'+i-1))
		b.WriteString("ENV A" + n + "=" + strings.Repeat("${A"+p+"}", 10) + "\n")
	}
	return b.String()
}
