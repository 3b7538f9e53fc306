package ref

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// CheckHost returns nil when s is host[:port] and ref.Parse reads a reference
// that begins with s/ as one of that registry. A first segment that has neither a
// dot nor a port, and is not localhost, is a path on Docker Hub.
func CheckHost(s string) error {
	host, port := s, "1"
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	number, err := strconv.Atoi(port)
	ok := err == nil && number > 0 && number < 1<<16 && (hostName.MatchString(host) || net.ParseIP(host) != nil)
	if !ok || !strings.ContainsAny(s, ".:") && s != "localhost" {
		return fmt.Errorf("%q: want host[:port], such as sea.hub:5000", s)
	}
	return nil
}
