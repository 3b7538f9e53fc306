//go:build suite

package conformance

// The suite is a test of its own package, built by TestPull; this line keeps
// its module, and the needs of its tests, in go.mod and go.sum.
import _ "github.com/opencontainers/distribution-spec/conformance"
