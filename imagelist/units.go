package imagelist

import (
	"path"
	"strings"
)

// unitEndings are the endings of systemd's units that start containers: services, and
// Podman's quadlets (podman-systemd.unit(5)).
var unitEndings = map[string]bool{".service": true, ".container": true, ".image": true, ".volume": true}

// isUnit reports whether a file outside the directories made for manifests is a unit, by
// where it lies: etc/systemd/system, usr/share/containers/systemd, and the directories of users.
func isUnit(name string) bool {
	dir := "/" + path.Dir(name) + "/"
	return unitEndings[path.Ext(name)] && (strings.Contains(dir, "/systemd/system/") || strings.Contains(dir, "/containers/systemd/"))
}

// unitFile takes the images of a unit: Image= of a quadlet, and those that the commands
// of a service pull or run.
func (s *scanner) unitFile(name string, data []byte) {
	p := place{file: name, object: "unit", limit: High}
	st := &starter{s: s, rootfs: s.rootfs(), limit: Medium}
	section, joined, at, n := "", "", 0, 0
	for l := range strings.Lines(string(data)) {
		n++
		if joined == "" {
			at = n
		}
		joined += strings.TrimSpace(l)
		if begin, ok := strings.CutSuffix(joined, "\\"); ok {
			joined = begin + " "
			continue
		}
		if strings.HasPrefix(joined, "[") {
			section = joined
		} else {
			s.unitLine(p, st, section, joined, at)
		}
		joined = ""
	}
}

func (s *scanner) unitLine(p place, st *starter, section, l string, line int) {
	key, value, ok := strings.Cut(l, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case !ok || strings.HasPrefix(l, "#") || strings.HasPrefix(l, ";"):
	case key == "Image" && (section == "[Container]" || section == "[Image]" || section == "[Volume]"):
		if !strings.HasSuffix(value, ".image") && !strings.HasSuffix(value, ".build") { // else another unit names it
			s.setting(p, pair{key, value, line, key}, "unit")
		}
	case strings.HasPrefix(key, "Exec"):
		for _, cmd := range shellCommands(strings.TrimLeft(value, "-@:+!"), nil) {
			if pullers[path.Base(cmd.words[0].text)] {
				st.pull(Command{File: p.file, Line: line}, cmd)
			}
		}
	}
}
