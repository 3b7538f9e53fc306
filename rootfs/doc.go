// Package rootfs shows the layers of a ClusterImage as one file tree: [Open]
// reads them merged, without privileges, as an fs.FS; [Overlay] mounts them with
// the kernel's overlayfs.
//
// Both take the directories of unpacked layers, lowest first. A layer with
// deletions must be translated for overlayfs: see [HasWhiteouts] and [LinkTree].
package rootfs
