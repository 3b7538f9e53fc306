package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
)

// A file is one of an archive or a package.
type file struct {
	name string // in an archive
	to   string // in a package; "" for none
	mode os.FileMode
	data []byte
}

// compile builds the program of p and returns its path.
func (r *release) compile(ctx context.Context, p platform) (string, error) {
	out := filepath.Join(r.scratch, p.system()+"_"+p.arch(), program(p))
	// The commit is named in the archive and the inventory. In the program itself
	// it would differ between a clone with its history and an unpacked archive.
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", out, "./cmd/sealer")
	c.Dir, c.Stderr = r.root, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.system(), "GOARCH="+p.arch(), "GOAMD64=v1", "GOARM64=v8.0")
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("compile for %s: %w", p, err)
	}
	info, err := os.Stat(out)
	if err != nil {
		return "", err
	}
	fmt.Printf("release: %s: %.1f MB\n", p, float64(info.Size())/1e6)
	return out, nil
}

func program(p platform) string {
	if p.system() == "windows" {
		return "sealer.exe"
	}
	return "sealer"
}

// prepare makes the man pages and the completion scripts, by a program that runs
// here, and reads the pages that every archive has.
func (r *release) prepare(ctx context.Context) (err error) {
	here := filepath.Join(r.scratch, "sealer-here")
	if _, err := r.command(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", here, "./cmd/sealer"); err != nil {
		return err
	}
	if r.version, err = r.command(ctx, here, "version", "--format", "{{.version}}"); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"} {
		b, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		r.add(name, "/usr/share/doc/sealer/"+name, 0o644, b)
	}
	unit, err := os.ReadFile(filepath.Join(r.root, "release/files/sealer-registry@.service"))
	if err != nil {
		return err
	}
	r.add("systemd/sealer-registry@.service", "/usr/lib/systemd/system/sealer-registry@.service", 0o644, unit)
	completions := map[string]string{
		"bash": "/usr/share/bash-completion/completions/sealer",
		"fish": "/usr/share/fish/vendor_completions.d/sealer.fish",
		"zsh":  "/usr/share/zsh/vendor-completions/_sealer",
	}
	for shell, to := range completions {
		text, err := r.command(ctx, here, "completion", shell)
		if err != nil {
			return err
		}
		r.add("completions/sealer."+shell, to, 0o644, []byte(text+"\n"))
	}
	if err := r.manual(ctx); err != nil {
		return err
	}
	sort.Slice(r.common, func(i, j int) bool { return r.common[i].name < r.common[j].name })
	return nil
}

func (r *release) add(name, to string, mode os.FileMode, data []byte) {
	r.common = append(r.common, file{name, to, mode, data})
}

func (r *release) manual(ctx context.Context) error {
	dir := filepath.Join(r.scratch, "man")
	if _, err := r.command(ctx, "go", "run", "./cmd/sealer/reference", "-man", dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		packed, err := compress(b)
		if err != nil {
			return err
		}
		name := filepath.Base(page) + ".gz"
		r.add("man/"+name, "/usr/share/man/man1/"+name, 0o644, packed)
	}
	return nil
}
