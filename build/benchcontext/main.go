// Command benchcontext makes the build context that bench.sh measures with: the
// directories of a rootfs as they are, programs, compressed packages, a tree of
// text, and configuration. Equal arguments give equal files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchcontext:", err)
		os.Exit(1)
	}
}

// A maker writes files below dir.
type maker struct {
	dir      string
	rand     *rand.Rand
	chacha   *rand.ChaCha8
	programs []byte // the bytes that programs are made of
	text     []byte // the words that text is made of
}

func run(args []string) error {
	flags := flag.NewFlagSet("benchcontext", flag.ContinueOnError)
	dir := flags.String("dir", "", "`directory` to make")
	files := flags.Int("files", 20_000, "number of files")
	mib := flags.Int("mib", 5<<10, "`MiB` of all files together")
	images := flags.Int("images", 100, "lines of the imageList")
	program := flags.String("program", "", "`file` that programs are cut from")
	text := flags.String("text", "", "`directory` whose .go files text is cut from")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *program == "" || *text == "" || *files < 1000 {
		return errors.New("-dir, -program and -text are needed, and 1000 files or more")
	}
	m := &maker{dir: *dir, rand: rand.New(rand.NewPCG(1, 2)), chacha: rand.NewChaCha8([32]byte{1})}
	var err error
	if m.programs, err = os.ReadFile(*program); err != nil {
		return err
	}
	if m.text, err = corpus(*text); err != nil {
		return err
	}
	return m.context(*files, int64(*mib)<<20, *images)
}

// corpus reads .go files, 64 MiB of them at most.
func corpus(dir string) ([]byte, error) {
	var out []byte
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if filepath.Ext(path) != ".go" || !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		if out = append(out, b...); len(out) > 64<<20 {
			return fs.SkipAll
		}
		return err
	})
	if err == nil && len(out) < 1<<20 {
		err = fmt.Errorf("%s has too little text", dir)
	}
	return out, err
}

// context makes the Kubefile, the imageList and, of all bytes, 3 in 10 in bin,
// as programs compress, 3 in packages, which do not, and the rest in share; of
// all files one in ten in etc.
func (m *maker) context(files int, size int64, images int) error {
	kubefile := "FROM scratch\nCOPY bin .\nCOPY packages .\nCOPY share .\nCOPY etc .\nCOPY imageList manifests\n"
	if err := m.write("Kubefile", strings.NewReader(kubefile).WriteTo); err != nil {
		return err
	}
	var list strings.Builder
	for i := range images {
		fmt.Fprintf(&list, "bench/image%02d:v1\n", i)
	}
	if err := m.write("imageList", strings.NewReader(list.String()).WriteTo); err != nil {
		return err
	}
	const programs, packages = 40, 120
	configs := files / 10
	for i := range programs {
		if err := m.write(fmt.Sprintf("bin/program%02d", i), m.cut(m.programs, size*3/10/programs, 4<<10, 64<<10)); err != nil {
			return err
		}
	}
	for i := range packages {
		if err := m.write(fmt.Sprintf("packages/package%03d.rpm", i), m.noise(size*3/10/packages)); err != nil {
			return err
		}
	}
	for i := range configs {
		if err := m.write(fmt.Sprintf("etc/app%02d/config%04d.yaml", i%50, i), m.configMap(i)); err != nil {
			return err
		}
	}
	return m.share(files-programs-packages-configs-2, size*4/10-int64(configs)*configSize)
}

// share makes n files of size bytes together: most are small, some large.
func (m *maker) share(n int, size int64) error {
	weights, sum := make([]float64, n), 0.0
	for i := range weights {
		weights[i] = m.rand.ExpFloat64() * m.rand.ExpFloat64()
		sum += weights[i]
	}
	for i, w := range weights {
		name := fmt.Sprintf("share/part%02d/sub%02d/file%05d.txt", i%20, i/20%25, i)
		if err := m.write(name, m.cut(m.text, int64(w/sum*float64(size)), 200, 2000)); err != nil {
			return err
		}
	}
	return nil
}

const configSize = 3 << 10

// configMap makes a manifest of about configSize bytes.
func (m *maker) configMap(i int) content {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config%04d\ndata:\n", i)
	for b.Len() < configSize {
		fmt.Fprintf(&b, "  key%d: %q\n", b.Len(), fmt.Sprintf("value %x", m.rand.Uint64()))
	}
	return strings.NewReader(b.String()).WriteTo
}
