package kubeadm

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// A Version is a release of Kubernetes.
type Version struct {
	Major, Minor, Patch int
	Pre                 string // "-rc.1"; "" for a release
}

var versionRE = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4})([-+][0-9A-Za-z.+-]+)?)?$`)

// ParseVersion reads v1.33.13, 1.33.13, 1.33 and v1.34.0-rc.1.
func ParseVersion(s string) (Version, error) {
	m := versionRE.FindStringSubmatch(s)
	if m == nil {
		return Version{}, fmt.Errorf("%q is no version of Kubernetes: write for example v1.33.1", s)
	}
	n := func(i int) int { v, _ := strconv.Atoi("0" + m[i]); return v }
	return Version{n(1), n(2), n(3), m[4]}, nil
}

// String returns v1.33.13.
func (v Version) String() string { return fmt.Sprintf("v%d.%d.%d%s", v.Major, v.Minor, v.Patch, v.Pre) }

// before reports whether v is older than 1.minor.
func (v Version) before(minor int) bool { return v.Major < 1 || v.Major == 1 && v.Minor < minor }

// older compares releases; pre-releases count as the release.
func (v Version) older(o Version) bool {
	if v.Major != o.Major {
		return v.Major < o.Major
	}
	return v.Minor < o.Minor || v.Minor == o.Minor && v.Patch < o.Patch
}

// The API versions of kubeadm, and the first Kubernetes that knows each.
const (
	v1beta2 = "kubeadm.k8s.io/v1beta2" // 1.15 to 1.26
	v1beta3 = "kubeadm.k8s.io/v1beta3" // 1.22
	v1beta4 = "kubeadm.k8s.io/v1beta4" // 1.31
)

// APIVersion returns the newest API version that kubeadm of v reads.
func APIVersion(v Version) (string, error) {
	switch {
	case v.Major != 1 || v.before(15):
		return "", fmt.Errorf("kubeadm %s is not supported: use Kubernetes 1.15 or later", v)
	case v.before(22):
		return v1beta2, nil
	case v.before(31):
		return v1beta3, nil
	}
	return v1beta4, nil
}

// ErrSkew is wrapped by errors about versions that do not go together.
var ErrSkew = errors.New("versions do not go together")

// Skew checks a kubelet beside an API server: it is never newer, and at most
// three minors older, two before 1.28
// (kubernetes.io/releases/version-skew-policy).
func Skew(apiServer, kubelet Version) error {
	behind := 3
	if kubelet.before(25) {
		behind = 2
	}
	switch {
	case kubelet.Major != apiServer.Major || kubelet.Minor > apiServer.Minor:
		return fmt.Errorf("kubelet %s is newer than the API server %s: %w: upgrade the masters first", kubelet, apiServer, ErrSkew)
	case apiServer.Minor-kubelet.Minor > behind:
		return fmt.Errorf("kubelet %s is more than %d minor versions older than the API server %s: %w: upgrade the node first", kubelet, behind, apiServer, ErrSkew)
	}
	return nil
}

// JoinSkew checks that an image may add nodes to a cluster: its kubeadm has the
// minor version of the cluster's API server.
func JoinSkew(cluster, image Version) error {
	if cluster.Major != image.Major || cluster.Minor != image.Minor {
		return fmt.Errorf("the image has kubeadm %s, the cluster runs %s: %w: join with an image of %d.%d, or upgrade first",
			image, cluster, ErrSkew, cluster.Major, cluster.Minor)
	}
	return nil
}

// Upgrade checks a way from one version to another. kubeadm goes one minor at a
// time; the error names the versions in between, each of which needs an image.
func Upgrade(from, to Version) error {
	switch {
	case to.older(from):
		return fmt.Errorf("%s is older than %s: %w: kubeadm does not go back; restore a snapshot", to, from, ErrSkew)
	case from.Major != to.Major:
		return fmt.Errorf("%s to %s: %w", from, to, ErrSkew)
	case to.Minor-from.Minor > 1:
		between := ""
		for m := from.Minor + 1; m < to.Minor; m++ {
			between += fmt.Sprintf(" %d.%d", from.Major, m)
		}
		return fmt.Errorf("%s to %s skips minor versions: %w: upgrade with images of%s first", from, to, ErrSkew, between)
	}
	return nil
}
