package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/clusterimage/sealer/certificate"
)

// openAuthority reads the CA in file, or makes it there; "" makes one in memory.
// renewed tells that the file's own one had expired.
func openAuthority(file string) (a certificate.Pair, renewed bool, err error) {
	if file == "" {
		a, _, err = newAuthority()
		return a, false, err
	}
	a, err = readAuthority(file)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return a, false, err
	}
	// A CA that ends before its clients notice is worse than a new one at a restart.
	if !missing && time.Until(a.Certificate.NotAfter) > certificate.Renewal {
		return a, false, nil
	}
	a, content, err := newAuthority()
	if err != nil {
		return a, false, err
	}
	put := os.Rename
	if missing {
		put = os.Link // fails where another process has made one meanwhile
	}
	err = writeAuthority(file, content, put)
	if missing && errors.Is(err, fs.ErrExist) {
		a, err = readAuthority(file)
	}
	return a, !missing, err
}

// readAuthority refuses a key that other users can read: whoever has it is
// trusted as this registry.
func readAuthority(file string) (a certificate.Pair, err error) {
	fi, err := os.Stat(file)
	if err != nil {
		return a, err
	}
	if fi.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return a, fmt.Errorf("%s: mode %04o lets others read the key of the CA: chmod 600 it, or remove it for a new CA if anybody has", file, fi.Mode().Perm())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	if a, err = certificate.ParseAuthority(b); err != nil {
		err = fmt.Errorf("%s: %w; remove the file for a new CA", file, err)
	}
	return a, err
}

// newAuthority makes an authority, and the content of its file.
func newAuthority() (a certificate.Pair, content []byte, err error) {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown host"
	}
	if a, err = certificate.NewAuthority("sealer registry CA " + name); err != nil {
		return a, nil, err
	}
	cert, key, err := a.PEM()
	return a, append(cert, key...), err
}

// writeAuthority makes the file in one step, which put does with the temporary
// file's name and file.
func writeAuthority(file string, content []byte, put func(from, to string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".ca-") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if e := os.Remove(f.Name()); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return put(f.Name(), file)
}
