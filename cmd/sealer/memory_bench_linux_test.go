package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/clusterimage/sealer/perf/figure"
	"github.com/clusterimage/sealer/registry/registrytest"
)

// resident is the most resident memory that any command may take, in MB.
const resident = 64

// BenchmarkMemory prints the most resident memory, the processor time and the disk
// that the commands of a ClusterImage's travel take, by its size: make
// bench-travel. SEALER is the program to measure; this test binary, which is
// larger, stands for it where that is not set.
func BenchmarkMemory(b *testing.B) {
	for _, lab := range []memoryLab{
		{name: "1 image, 100 files", images: 1, files: 100},
		{name: "500 images, 2,000 blobs", images: 500, files: 100},
		{name: "2,750 images, 11,000 blobs", images: 2750, files: 100},
		{name: "1 image, 100,000 files", images: 1, files: 100_000},
	} {
		b.Run(strings.ReplaceAll(lab.name, " ", ""), func(b *testing.B) {
			for range b.N {
				lab.run(b)
			}
		})
	}
}

// BenchmarkSixtyThousand is BenchmarkMemory of an image with blob manifests: make
// bench-blobs.
func BenchmarkSixtyThousand(b *testing.B) {
	for range b.N {
		memoryLab{name: "15,000 images, 60,000 blobs", images: 15_000, files: 100}.run(b)
	}
}

// A memoryLab is a ClusterImage, by its size. Each container image in it has four
// blobs.
type memoryLab struct {
	name          string
	images, files int

	dir, host string
}

func (l memoryLab) run(b *testing.B) {
	b.Helper()
	l.dir = b.TempDir()
	var images []registrytest.Image
	var list strings.Builder
	for i := range l.images {
		name := fmt.Sprintf("team-%02d/app-%04d", i%20, i)
		images = append(images, registrytest.Image{
			Name:   "mirror.test/" + name + ":v1",
			Layers: []registrytest.Layer{{Name: name + "/a", Size: 512}, {Name: name + "/b", Size: 512}},
		})
		fmt.Fprintf(&list, "mirror.test/%s:v1\n", name)
	}
	up := registrytest.New(b, registrytest.Options{Images: images})
	l.host = up.Host()
	l.write(b, "context/imageList", list.String())
	l.write(b, "context/Kubefile", "FROM scratch\nCOPY imageList manifests\nCOPY files files\n")
	l.write(b, "registries.conf", up.RegistriesConf("mirror.test"))
	for i := range l.files {
		l.write(b, fmt.Sprintf("context/files/d%03d/f%05d", i%300, i), fmt.Sprintf("the content of file %d", i))
	}
	plain := "--insecure-registry=" + l.host
	image, far := l.host+"/team/lab:v1", "--root="+filepath.Join(l.dir, "far")
	l.sealer(b, "build", "-t", image, "--platform", "linux/amd64", "--no-referrers", filepath.Join(l.dir, "context"))
	l.write(b, "context/files/changed", "a file more")
	l.write(b, "context/imageList", strings.Replace(list.String(), "app-0000:v1", "app-0000:v2", 1))
	again := images[0]
	again.Name, again.Revision = strings.Replace(again.Name, ":v1", ":v2", 1), 1
	if _, err := up.Add(again); err != nil {
		b.Fatal(err)
	}
	l.sealer(b, "build", "-t", l.host+"/team/lab:v2", "--platform", "linux/amd64", "--no-referrers", filepath.Join(l.dir, "context"))
	l.sealer(b, "push", image, plain)
	l.sealer(b, "push", l.host+"/team/lab:v2", plain)
	l.sealer(b, "pull", far, image, plain)
	l.sealer(b, "pull", far, l.host+"/team/lab:v2", plain)
	archive := filepath.Join(l.dir, "lab.tar")
	l.sealer(b, "save", "-o", archive, image)
	l.sealer(b, "load", "--root="+filepath.Join(l.dir, "third"), "-i", archive)
	l.sealer(b, "verify", image)
	l.sealer(b, "verify", far, image)
	l.sealer(b, "inspect", image)
	l.sealer(b, "rmi", image)
}

func (l memoryLab) write(b *testing.B, name, content string) {
	b.Helper()
	name = filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

// sealer runs a command and prints its use of memory, processors and disk.
func (l memoryLab) sealer(b *testing.B, args ...string) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), cmp.Or(os.Getenv("SEALER"), self), args...)
	cmd.Args[0] = "sealer" // see testscript.Main
	cmd.Env = append(os.Environ(), "SEALER_ROOT="+filepath.Join(l.dir, "near"), "NO_PROXY=127.0.0.1",
		"CONTAINERS_REGISTRIES_CONF="+filepath.Join(l.dir, "registries.conf"))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	before, begin := diskUsage(l.dir), time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	most := watchResident(cmd.Process.Pid)
	err = cmd.Wait()
	took := time.Since(begin)
	all, own := most()
	if err != nil {
		b.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	mb := float64(all) / 1000
	fmt.Printf("%-28s %-8s %6.1f MB resident, %6.1f without the program's file  %6.2f s of processors of %7.2f s  %8.2f MB more on disk\n", l.name, args[0], mb, float64(own)/1000,
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), took.Seconds(), float64(diskUsage(l.dir)-before)/1e6)
	goal := float64(resident)
	for _, f := range []figure.Figure{
		{Name: "memory", Value: mb, Unit: "MB of memory", Goal: &goal},
		{Name: "processor time", Value: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), Unit: "CPU s"},
	} {
		f.Name = fmt.Sprintf("travel/%s of %s, %s", args[0], l.name, f.Name)
		if err := figure.Add(f); err != nil {
			b.Error(err)
		}
	}
	if mb > resident {
		b.Logf("%s: %s took %.1f MB, %d are good", l.name, args[0], mb, resident)
	}
}

// watchResident follows the most resident memory of a process, in kB, until the
// function that it returns is called: all of it, and the anonymous part, which is
// not the pages of the program's file. The process's own rusage would not do: it
// begins with that of its parent.
func watchResident(pid int) func() (all, anonymous int64) {
	stop, done := make(chan struct{}), make(chan struct{})
	var all, anonymous int64
	field := func(status, name string) (kb int64) {
		_, rest, _ := strings.Cut(status, "\n"+name+":")
		_, _ = fmt.Sscan(rest, &kb)
		return kb
	}
	go func() {
		defer close(done)
		for {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			all, anonymous = max(all, field(string(status), "VmHWM")), max(anonymous, field(string(status), "RssAnon"))
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() (int64, int64) { close(stop); <-done; return all, anonymous }
}

// diskUsage returns the bytes of the blocks below dir, each file's once.
func diskUsage(dir string) int64 {
	var total int64
	seen := map[uint64]bool{}
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return nil
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && !seen[st.Ino] {
			seen[st.Ino] = true
			total += st.Blocks * 512
		}
		return nil
	})
	return total
}
