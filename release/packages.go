package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // format
)

// packages writes a .deb and an .rpm of the program of p.
func (r *release) packages(p platform, path string) error {
	var errs []error
	for _, format := range []string{"deb", "rpm"} {
		if err := r.pack(p, path, format); err != nil {
			errs = append(errs, fmt.Errorf("make the %s of %s: %w", format, p, err))
		}
	}
	return errors.Join(errs...)
}

func (r *release) pack(p platform, path, format string) (err error) {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "sealer", Arch: p.arch(), Platform: "linux", Version: r.version, Release: "1", MTime: r.time,
		Section: "admin", Priority: "optional", Maintainer: "The sealer authors", Vendor: "clusterimage",
		Description: "Kubernetes clusters and applications as one artifact\nsealer packs a cluster or an application with every container image that it\nwill pull, for places without internet, and starts it there.",
		Homepage:    "https://github.com/clusterimage/sealer", License: "Apache-2.0",
		Overridables: nfpm.Overridables{
			Recommends: []string{"openssh-client"},
			RPM:        nfpm.RPM{BuildHost: "localhost", Compression: "gzip:9"},
			Deb:        nfpm.Deb{Compression: "gzip"},
		},
	})
	info.Contents = files.Contents{
		r.content("/usr/bin/sealer", path, 0o755),
		{Destination: "/etc/sealer/registry", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.time, Owner: "root", Group: "root"}},
	}
	dir, err := os.MkdirTemp(r.scratch, "package-")
	if err != nil {
		return err
	}
	for _, f := range r.common {
		from := filepath.Join(dir, strings.ReplaceAll(f.name, "/", "-"))
		if err := os.WriteFile(from, f.data, 0o600); err != nil {
			return err
		}
		info.Contents = append(info.Contents, r.content(f.to, from, f.mode))
	}
	out, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, out), out.Close())
}

func (r *release) content(to, from string, mode os.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"}}
}
