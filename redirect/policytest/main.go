// Command policytest prints, as JSON, the cases of `make test-policy`: the policy
// of each engine with each option, and for each admission request the images that
// must result. The requests are redirect/testdata/cases.json and,
// where it is present, kyverno/cases.json of the shared files. The
// wanted images are worked out from Redirect.Target, without the policies.
//
// The modules below evaluate the policies with Kyverno's own engine. They are
// modules of their own since that engine brings 2,400 packages.
package main

import (
	_ "crypto/sha256" // for digest
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// A request is an admission request of a cases.json.
type request struct {
	Name        string            `json:"name"`
	Operation   string            `json:"op"` // "" is CREATE
	SubResource string            `json:"subResource,omitempty"`
	NSLabels    map[string]string `json:"nsLabels"`
	Object      json.RawMessage   `json:"object"`
	OldObject   json.RawMessage   `json:"oldObject,omitempty"`
}

// A pod is the part of an object that decides; other kinds have none of it.
type pod struct {
	Kind     string
	Metadata struct {
		Namespace   string
		Annotations map[string]string
	}
	Spec struct{ Containers, InitContainers, EphemeralContainers []container }
}

type container struct{ Name, Image string }

// A check is a request with the wanted result.
type check struct {
	request
	Want   []string `json:"want"` // images of containers, initContainers, ephemeralContainers
	Denied bool     `json:"denied"`
}

// A policy is one engine with one option.
type policy struct {
	Name   string  `json:"name"`
	Engine string  `json:"engine"`
	YAML   string  `json:"yaml"`
	Checks []check `json:"checks"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "policytest:", err)
		os.Exit(1)
	}
}

func run() error {
	requests, err := read("redirect/testdata/cases.json", filepath.Join(shared(), "kyverno/cases.json"))
	if err != nil {
		return err
	}
	var plan []policy
	for _, o := range options(requests) {
		for _, e := range []redirect.Engine{redirect.ClusterPolicy, redirect.MutatingPolicy, redirect.AdmissionPolicy} {
			o.redirect.Engine = e
			files, err := o.redirect.Policy()
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			p := policy{Name: o.name, Engine: string(e), YAML: string(files[0].Content)}
			for _, r := range requests {
				c, err := o.check(r)
				if err != nil {
					return fmt.Errorf("case %s: %w", r.Name, err)
				}
				p.Checks = append(p.Checks, c)
			}
			plan = append(plan, p)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(plan)
}

func shared() string {
	if dir := os.Getenv("SEALER_SHARED"); dir != "" {
		return dir
	}
	return "../shared"
}

// read returns the requests of the files that there are.
func read(files ...string) ([]request, error) {
	var all []request
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "policytest: no %s: its cases are left out\n", file)
			continue
		}
		if err != nil {
			return nil, err
		}
		var some []request
		if err := json.Unmarshal(b, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

type option struct {
	name     string
	redirect redirect.Redirect
	selects  func(labels map[string]string) bool // nil: all namespaces
}

// options are the combinations that are tested. The exact ones hold every
// second image of the requests.
func options(requests []request) []option {
	var images []redirect.Image
	taken := map[ref.Reference]bool{}
	for _, r := range requests {
		var p pod
		if json.Unmarshal(r.Object, &p) != nil || p.Kind != "Pod" {
			continue
		}
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers, p.Spec.EphemeralContainers) {
			image, err := ref.Parse(c.Image)
			if err != nil || taken[image] {
				continue
			}
			taken[image] = true
			if len(taken)%2 == 1 {
				// Equal digests, so that equal names are no collision here.
				images = append(images, redirect.Image{Reference: image, Digests: []digest.Digest{digest.FromString("one content")}})
			}
		}
	}
	prefixes := []redirect.Prefix{{Registry: "docker.io", Path: "docker-hub"}, {Registry: "quay.io", Path: "cache/quay"}}
	two := []string{"docker.io", "quay.io"}
	on := func(l map[string]string) bool { return l["redirect"] == "on" }
	enabled := func(l map[string]string) bool { return l["sealer.io/redirect-registry"] != "disabled" }
	return []option{
		{"path", redirect.Redirect{}, nil},
		{"full", redirect.Redirect{Naming: tree.NamingFull}, nil},
		{"other registry", redirect.Redirect{PrivateRegistry: "reg.example:8443"}, nil},
		{"two sources", redirect.Redirect{SourceRegistries: two}, nil},
		{"two sources, full", redirect.Redirect{SourceRegistries: two, Naming: tree.NamingFull}, nil},
		{"namespaces redirect=on", redirect.Redirect{NamespaceSelector: "redirect=on"}, on},
		{"namespaces not disabled, full", redirect.Redirect{NamespaceSelector: "sealer.io/redirect-registry!=disabled", Naming: tree.NamingFull}, enabled},
		{"prefixes", redirect.Redirect{Prefixes: prefixes}, nil},
		{"exact", redirect.Redirect{Exact: true, Images: images}, nil},
		{"exact, full", redirect.Redirect{Exact: true, Images: images, Naming: tree.NamingFull}, nil},
		{"exact, deny others", redirect.Redirect{Exact: true, Images: images, DenyOthers: true}, nil},
		{"exact, deny others, full, namespaces redirect=on", redirect.Redirect{Exact: true, Images: images, DenyOthers: true, Naming: tree.NamingFull, NamespaceSelector: "redirect=on"}, on},
	}
}

// check works out the wanted result of a request.
func (o option) check(r request) (check, error) {
	c := check{request: r}
	if c.Operation == "" {
		c.Operation = "CREATE"
	}
	var now, old pod
	if err := json.Unmarshal(r.Object, &now); err != nil {
		return c, err
	}
	if len(r.OldObject) > 0 {
		if err := json.Unmarshal(r.OldObject, &old); err != nil {
			return c, err
		}
	}
	_, static := now.Metadata.Annotations["kubernetes.io/config.mirror"]
	concerned := now.Kind == "Pod" && !static && (c.Operation == "CREATE" || c.Operation == "UPDATE") && (o.selects == nil || o.selects(r.NSLabels))
	main := concerned && r.SubResource == ""
	ephemeral := concerned && r.SubResource == "ephemeralcontainers" && c.Operation == "UPDATE"
	for _, l := range []struct {
		now, old  []container
		concerned bool
		byName    bool // an old name is enough, the image cannot change
	}{
		{now.Spec.Containers, old.Spec.Containers, main, false},
		{now.Spec.InitContainers, old.Spec.InitContainers, main, false},
		{now.Spec.EphemeralContainers, old.Spec.EphemeralContainers, ephemeral, true},
	} {
		for _, x := range l.now {
			known := c.Operation == "UPDATE" && slices.ContainsFunc(l.old, func(y container) bool { return y.Name == x.Name && (l.byName || y.Image == x.Image) })
			want, denied := x.Image, false
			if l.concerned && !known {
				want, denied = o.become(x.Image, now.Metadata.Namespace)
			}
			c.Want = append(c.Want, want)
			c.Denied = c.Denied || denied
		}
	}
	return c, nil
}

// become returns the wanted name of a new image in a namespace, or that the image
// is denied.
func (o option) become(image, namespace string) (want string, denied bool) {
	d := o.redirect
	// Kubernetes' own policies leave kube-system alone; Kyverno is not asked.
	refuses := d.DenyOthers && !(d.Engine == redirect.AdmissionPolicy && namespace == "kube-system")
	r, err := ref.Parse(image)
	if err != nil {
		// A ClusterPolicy fails on text that Kyverno cannot read as an image, and
		// does not see an empty one, which the API server refuses. The others
		// do not touch text that is no reference.
		if d.Engine == redirect.ClusterPolicy {
			return image, image != ""
		}
		return image, refuses
	}
	if target, ok := d.Target(r); ok {
		return target.String(), false
	}
	if !refuses {
		return image, false
	}
	served := slices.ContainsFunc(d.Images, func(i redirect.Image) bool {
		t := i.Reference
		if target, ok := d.Target(t); ok {
			t = target
		}
		if r.Digest != "" {
			return t.Name() == r.Name() && (t.Digest == r.Digest || slices.Contains(i.Digests, r.Digest))
		}
		return t.Name() == r.Name() && t.Tag == r.Tag
	})
	return image, !served
}
