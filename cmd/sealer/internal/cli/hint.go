package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/policy"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// hint returns advice for an error of the libraries, which do not know the
// command line, or "".
func (a *app) hint(err error) string {
	var dns *net.DNSError
	var in *kubefile.Error
	var trust *remote.TrustError
	if hint := reachHint(err); hint != "" {
		return hint
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "The disk is full: free space, or drop what no image needs with: sealer prune"
	case errors.Is(err, store.ErrLimit):
		return "Where its author is trusted, raise that limit with --limit (see: sealer load --help); docs/security.md has the limits."
	case errors.As(err, &trust):
		return trustHint(trust)
	case errors.Is(err, policy.ErrRefused):
		return "What that file asks for, docs/security.md explains; another policy is named with --policy FILE"
	case errors.Is(err, remote.ErrStalled):
		return "Where the line is so slow, make fewer transfers at a time with --jobs 1, or wait longer with --stall-timeout"
	case errors.Is(err, remote.ErrUnauthorized):
		return "Give credentials for that registry with: sealer login HOST"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "If that registry speaks plain http, say so with: --insecure-registry http://HOST[:PORT]"
	case (errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &dns)) && errors.As(err, &in) && in.Instruction != "FROM":
		return "Check the URL and the network; a proxy is told by HTTPS_PROXY, HTTP_PROXY and NO_PROXY."
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &dns):
		return "Check the registry's name and the network; a registries.conf (--registries-conf FILE) can name a mirror."
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return a.refused(err)
	}
	return ""
}

// trustHint returns advice for a host that is not trusted.
func trustHint(e *remote.TrustError) string {
	switch {
	case errors.Is(e, remote.ErrPlainHTTP):
		return "Where that registry may be used without TLS, allow it with: --insecure-registry " + e.Host
	case e.Unknown():
		return fmt.Sprintf("Put the certificate of its CA into /etc/containers/certs.d/%s/ca.crt (or ~/.config/containers/certs.d/%[1]s/ca.crt, or DIR/%[1]s/ca.crt with --cert-dir DIR)", e.Host)
	}
	return "Have that registry's certificate renewed, or made for this name; where it may be used unverified: --insecure-registry " + e.Host
}

// refused returns advice for a path that this user may not read or write, such as
// to choose another store.
func (a *app) refused(err error) string {
	var one *fs.PathError
	var two *os.LinkError
	var path string
	switch {
	case errors.As(err, &one):
		path = one.Path
	case errors.As(err, &two):
		path = two.New
	default:
		return ""
	}
	root, err := filepath.Abs(a.storeRoot())
	if err == nil && (within(path, root) || within(root, path)) {
		return "Choose a store that you may write with --root DIR or SEALER_ROOT=DIR"
	}
	return fmt.Sprintf("Let this user read or write %s, or choose another", path)
}

// within reports whether path is dir or below dir.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
