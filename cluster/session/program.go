package session

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
)

// A Program is a file of sealer for one operating system and architecture. It is
// safe for concurrent use: one Program serves all hosts.
type Program struct {
	// OS and Arch are as GOOS and GOARCH name them.
	OS, Arch string
	// Digest is the SHA-256 of the file: "sha256:" and 64 hex digits.
	Digest string
	// Open returns the file's bytes.
	Open func() (io.ReadCloser, error)

	once   sync.Once
	packed []byte // compressed; one copy for all hosts
	err    error
}

// Own returns the running program.
func Own() (*Program, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the running program: %w", err)
	}
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	f, err := open()
	if err != nil {
		return nil, fmt.Errorf("read the running program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("read the running program: %w", err)
	}
	return &Program{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Digest: "sha256:" + hex.EncodeToString(h.Sum(nil)), Open: open,
	}, nil
}

// name is the file's name on a host.
func (p *Program) name() string { return "sealer-" + p.sum()[:16] }

func (p *Program) sum() string { return strings.TrimPrefix(p.Digest, "sha256:") }

// compressed returns the file as gzip packs it fast: on the wire it is half the
// size, and it is packed once for all hosts.
func (p *Program) compressed() ([]byte, error) {
	p.once.Do(func() {
		var b bytes.Buffer
		p.err = p.pack(&b)
		p.packed = b.Bytes()
	})
	return p.packed, p.err
}

func (p *Program) pack(to io.Writer) error {
	f, err := p.Open()
	if err != nil {
		return fmt.Errorf("read sealer for %s/%s: %w", p.OS, p.Arch, err)
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, f); err != nil {
		return fmt.Errorf("read sealer for %s/%s: %w", p.OS, p.Arch, err)
	}
	return z.Close()
}

// goArch translates the output of uname -m.
func goArch(machine string) string {
	switch machine {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	case "armv7l", "armv6l":
		return "arm"
	case "i386", "i686":
		return "386"
	}
	return machine // riscv64, ppc64le, s390x, loongarch64 are the same
}
