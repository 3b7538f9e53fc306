package cli

import (
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
)

// A platformFlag is the --platform of a command for one platform. Platform is nil
// when the flag is missing or empty.
type platformFlag struct{ *ocispec.Platform }

// Set implements pflag.Value.
func (f *platformFlag) Set(s string) error {
	if s == "" {
		f.Platform = nil
		return nil
	}
	p, err := platform.Parse(s)
	f.Platform = &p
	return err
}

// String implements pflag.Value.
func (f *platformFlag) String() string {
	if f.Platform == nil {
		return ""
	}
	return platform.String(*f.Platform)
}

// Type implements pflag.Value.
func (*platformFlag) Type() string { return "string" }
