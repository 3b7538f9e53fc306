package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// The test binary runs as another process of the same store when childEnv
// names what it shall do.
const childEnv = "SEALER_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(context.Background(), what, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command runs this binary as a child.
func command(ctx context.Context, what string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	return cmd
}

func child(ctx context.Context, what string, args []string) error {
	switch what {
	case "full":
		return childFull(ctx, args[0])
	case "overlay":
		return childOverlay(ctx, args[0])
	case "mount":
		return childMount(ctx, args[0])
	case "readonly":
		return childReadOnly(ctx, args[0])
	}
	s, err := store.Open(args[0], store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	switch what {
	case "hold":
		if err := s.Hold(ctx); err != nil {
			return err
		}
		fmt.Println("holding")
		_, err := io.Copy(io.Discard, os.Stdin) // until the parent is done
		return err
	case "pin":
		img, err := s.Image(ctx, args[1], nil)
		if err != nil {
			return err
		}
		if _, err := s.Pin(ctx, img.LayerIDs()); err != nil {
			return err
		}
		fmt.Println("pinned")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "blobs":
		return childBlobs(ctx, s)
	case "build":
		stop := -1
		if len(args) > 2 {
			if stop, err = strconv.Atoi(args[2]); err != nil {
				return err
			}
		}
		return childBuild(ctx, s, args[1], stop)
	}
	return fmt.Errorf("child: %q", what)
}

const childBlobCount = 20

func childBlob(name string, i int) []byte {
	return bytes.Repeat(append([]byte(name), byte(i)), 400_000/(len(name)+1))
}

// childBlobs puts blobs and prints those that it wrote itself.
func childBlobs(ctx context.Context, s *store.Store) error {
	for i := range childBlobCount {
		b := childBlob("", i)
		err := s.PutBlob(ctx, describe(b), func(w io.Writer) error {
			fmt.Println(i)
			return copyIn(b)(w)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// buildSteps is how many steps childBuild has, commitStep the one right before
// its commit.
const (
	buildSteps = 28
	commitStep = buildSteps - 1
)

// childBuild builds and commits an image, printing a line at every step. At
// step number stop, counted from 1, it waits to be killed.
func childBuild(ctx context.Context, s *store.Store, name string, stop int) error {
	steps := 0
	step := func(what string) {
		fmt.Println(what)
		if steps++; steps == stop {
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
	doc := &tree.Document{}
	for i := range 4 {
		b := childBlob(name, i)
		step("blob")
		err := s.PutBlob(ctx, describe(b), func(w io.Writer) error {
			for c := range slices.Chunk(b, 100_000) {
				if _, err := w.Write(c); err != nil {
					return err
				}
				step("inside a blob")
			}
			return nil
		})
		if err != nil {
			return err
		}
		d := describe(childBlob(name, i))
		doc.Blobs = append(doc.Blobs, tree.Blob{Digest: d.Digest, Size: d.Size})
		doc.Repositories = append(doc.Repositories, tree.Repository{
			Name: fmt.Sprintf("r%d", i), Revisions: []tree.Revision{{Digest: d.Digest, MediaType: "m", Size: d.Size}},
			Tags: []tree.Tag{{Name: "v1", Digest: d.Digest}},
		})
	}
	rootfs, err := s.WriteLayer(ctx, store.LayerOptions{}, func(w io.Writer) error {
		for i := range 20 {
			if i%5 == 0 {
				step("inside a layer")
			}
			var b bytes.Buffer
			if err := writeTar(file(fmt.Sprintf("d%d/f", i), strings.Repeat("x", 100_000)))(&b); err != nil {
				return err
			}
			if _, err := w.Write(b.Bytes()[:b.Len()-1024]); err != nil { // without the archive's end
				return err
			}
		}
		_, err := w.Write(make([]byte, 1024))
		return err
	})
	if err != nil {
		return err
	}
	step("registry layer")
	reg, err := s.WriteRegistryLayer(ctx, doc)
	if err != nil {
		return err
	}
	step("image")
	c := image.Config{Platform: platform.Default(), Layers: []image.ConfigLayer{{Type: "COPY", Value: name}, {Type: "BASE"}}}
	d, err := s.WriteImage(ctx, c, []image.Layer{rootfs, reg}, nil)
	if err != nil {
		return err
	}
	r, err := ref.Parse(name)
	if err != nil {
		return err
	}
	step("commit")
	if err := s.Commit(ctx, []ref.Reference{r}, d); err != nil {
		return err
	}
	step("done")
	return nil
}

// background runs a child until the returned function is called. The child has
// printed its first line when background returns.
func background(t *testing.T, what string, args ...string) (pid int, end func()) {
	t.Helper()
	cmd := command(t.Context(), what, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	return cmd.Process.Pid, func() {
		if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
			t.Fatal(err)
		}
	}
}

// named returns the reference of a short name.
func named(name string) ref.Reference {
	return ref.Reference{Registry: ref.DockerHub, Repository: "library/" + name, Tag: ref.DefaultTag}
}
