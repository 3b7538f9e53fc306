package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/store"
)

// A part is one ClusterImage of a cluster with the Clusterfile about it: the
// image that made the cluster, or an application that came later.
type part struct {
	*source
	file *spec.File
}

// isApplication says whether an image is meant for a cluster that stands.
func (s *source) isApplication() bool {
	return s.Kubernetes == "" || s.Type == image.TypeAppInstaller
}

// IsApplication says whether the ClusterImage name of the store is an
// application: its type says so, or it brings no Kubernetes.
func IsApplication(ctx context.Context, s *store.Store, name string) (app bool, err error) {
	img, err := readImage(ctx, s, name)
	if err != nil {
		return false, err
	}
	return img.isApplication(), img.Close()
}

// applicationsFile is the name of the list in the cluster's directory.
const applicationsFile = "applications.json"

// An Application is a ClusterImage that was brought to a cluster after it was
// made.
type Application struct {
	Image string `json:"image"` // its name in the store
	// Clusterfile has the settings for it: environment, start commands, Configs.
	// Its passwords are not kept.
	Clusterfile string `json:"clusterfile"`
	// Manifest is the image's on the masters.
	Manifest ocispec.Descriptor `json:"manifest"`
}

// Applications lists the applications of the cluster name, in the order in
// which they came.
func Applications(dir, name string) ([]Application, error) {
	return state{filepath.Join(dir, name)}.applications()
}

func (s state) applications() ([]Application, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, applicationsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("applications: %w", err)
	}
	var out []Application
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("applications: %s: %w", filepath.Join(s.dir, applicationsFile), err)
	}
	return out, nil
}

// openApps opens the images of the cluster's applications, with the one that
// this run adds.
func (e *engine) openApps(ctx context.Context) error {
	known, err := e.state.applications()
	if err != nil {
		return err
	}
	for _, a := range known {
		if e.Add != nil && a.Image == e.Add.Cluster.Image {
			continue
		}
		f, err := spec.Parse(applicationsFile+" of "+e.file.Cluster.Name, []byte(a.Clusterfile))
		if err != nil {
			return err
		}
		if err := e.openApp(ctx, f, a.Image, a.Manifest); err != nil {
			return fmt.Errorf("application of cluster %s: %w", e.file.Cluster.Name, err)
		}
	}
	if e.Add == nil {
		return nil
	}
	if err := e.openApp(ctx, e.Add, e.Add.Cluster.Image, ocispec.Descriptor{}); err != nil {
		return err
	}
	added := e.apps[len(e.apps)-1]
	// One image under two names is one application.
	e.apps = slices.DeleteFunc(e.apps, func(p *part) bool { return p != added && p.Digest == added.Digest && p.Close() == nil })
	return nil
}

// openApp opens the image of an application. One that came before and is no longer
// in the store is fetched back from a master, whose store has the manifest.
func (e *engine) openApp(ctx context.Context, f *spec.File, name string, manifest ocispec.Descriptor) error {
	img, err := readImage(ctx, e.Store, name)
	if errors.Is(err, store.ErrNotFound) && manifest.Digest != "" {
		if err := e.fetchBack(ctx, name, manifest); err != nil {
			return err
		}
		img, err = readImage(ctx, e.Store, name)
	}
	if err != nil {
		return err
	}
	e.apps = append(e.apps, &part{img, f})
	return nil
}

func (e *engine) closeApps() error {
	var errs []error
	for _, a := range e.apps {
		errs = append(errs, a.Close())
	}
	return errors.Join(errs...)
}

// keepApps remembers the applications.
func (e *engine) keepApps() error {
	b, err := e.listApps()
	if err != nil || b == nil {
		return err
	}
	return e.state.write(applicationsFile, b)
}

// listApps returns the list of the applications, JSON; nil for none.
func (e *engine) listApps() ([]byte, error) {
	if len(e.apps) == 0 {
		return nil, nil
	}
	var list []Application
	for _, a := range e.apps {
		text, err := spec.Print(a.file)
		if err != nil {
			return nil, err
		}
		list = append(list, Application{Image: a.Name, Clusterfile: string(text), Manifest: a.full})
	}
	b, err := json.MarshalIndent(list, "", "  ")
	return append(b, '\n'), err
}

// wantApps looks up what a plan needs of the applications; first is the first
// master.
func (e *engine) wantApps(first plan.Host) ([]plan.App, error) {
	var out []plan.App
	for _, a := range e.apps {
		app := plan.App{Image: a.Image, Full: a.full}
		var err error
		if app.Generation, app.Inputs, err = e.generation(a, first); err != nil {
			return nil, fmt.Errorf("application %s: %w", a.Name, err)
		}
		if app.Commands, err = a.commands(a.file); err != nil {
			return nil, err
		}
		e.parts[app.Generation] = a
		out = append(out, app)
	}
	return out, nil
}

// served are the blobs that a registry's machine holds.
func (e *engine) served(img *source) []plan.Blob {
	blobs := slices.Concat(img.Layers, img.Registry)
	for _, a := range e.apps {
		blobs = slices.Concat(blobs, a.Layers, a.Registry)
	}
	return blobs
}

// blobsOf are the blobs of the image that a step brings to a machine.
func (e *engine) blobsOf(img *source, digest string) []plan.Blob {
	for _, a := range e.apps {
		if a.full.Digest.String() == digest {
			return slices.Concat(a.Layers, a.Registry)
		}
	}
	if img.full.Digest.String() == digest {
		return slices.Concat(img.Layers, img.Registry)
	}
	return img.Layers
}
