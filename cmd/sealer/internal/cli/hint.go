package cli

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/remote"
)

// hint returns what to do about an error that the libraries return without
// knowing the command line, or "".
func hint(err error) string {
	var dns *net.DNSError
	var in *kubefile.Error
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "The disk is full: free space, or drop what no image needs with: sealer prune"
	case errors.Is(err, remote.ErrPlainHTTP):
		return "Where that registry may be used without TLS, allow it with: --insecure-registry HOST"
	case errors.Is(err, remote.ErrUnauthorized):
		return "Give credentials for that registry with: sealer login HOST"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "If that registry speaks plain http, say so with: --insecure-registry http://HOST[:PORT]"
	case (errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &dns)) && errors.As(err, &in) && in.Instruction != "FROM":
		return "Check the URL and the network; a proxy is told by HTTPS_PROXY, HTTP_PROXY and NO_PROXY."
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &dns):
		return "Check the registry's name and the network; a registries.conf (--registries-conf FILE) can name a mirror."
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "Choose a store that you may write with --root DIR or SEALER_ROOT=DIR"
	}
	return ""
}
