package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the version of sealer, also recorded in each ClusterImage.
const Version = "0.1.0"

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // the source's commit, if the build knew it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func theVersion() versionInfo {
	v := versionInfo{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	return v
}

// String returns the output for people.
func (v versionInfo) String() string {
	return fmt.Sprintf("sealer %s (%s, %s)", v.Version, v.Go, v.Platform)
}

func (a *app) version() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of sealer",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			v := theVersion()
			return o.print(a.Out, v, func(w io.Writer) error {
				_, err := printLine(w, v)
				return err
			})
		},
	}
	o.flags(cmd, "text")
	return cmd
}
