package imagelist

import (
	"bytes"
	"fmt"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// CheckArchive returns nil when data is the archive of the chart name in that
// version, within Helm's limits.
func CheckArchive(data []byte, name, version string) error {
	ch, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	if err := ch.Validate(); err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	got, err := semver.NewVersion(ch.Metadata.Version)
	if want, wantErr := semver.NewVersion(version); ch.Name() != name || err != nil || wantErr != nil || !got.Equal(want) {
		return fmt.Errorf("the archive holds the chart %s %s, not %s %s", ch.Name(), ch.Metadata.Version, name, version)
	}
	return nil
}
