package rootfs

import "github.com/clusterimage/sealer/layer"

// MaxLayers is the most layers that overlayfs takes, OVL_MAX_STACK of Linux.
const MaxLayers = 500

// An Overlay is a mount of overlayfs. The zero value of every field but Lower and
// Spare is good: a read-only mount without setuid bits.
type Overlay struct {
	// Lower are the directories of the layers, lowest first, at most MaxLayers,
	// none of them twice. Paths may be of any length and hold any character.
	Lower []string
	// Spare is an empty directory on the disk. Where overlayfs wants more layers
	// than Lower has, directories that Mount makes in Spare stand below them.
	// Spare must outlive the mount; it may be "" where Lower has two layers, or
	// one and Upper is set.
	Spare string
	// Upper receives all changes, and Work is overlayfs's own: two directories of
	// one file system that takes extended attributes. Both "" is a read-only
	// mount.
	Upper, Work string
	// UserXattr marks deletions by attributes of the namespace "user." instead of
	// "trusted.", as LinkTree does. See UserXattr.
	UserXattr bool
	// SetUID lets setuid bits and file capabilities count.
	SetUID bool
}

// UserXattr reports whether a mount by this process needs Overlay.UserXattr: in a
// user namespace even root may not write attributes of the namespace "trusted.".
func UserXattr() bool { return layer.InUserNamespace() }
