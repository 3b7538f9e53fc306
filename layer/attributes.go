package layer

import "strings"

const (
	// AttributeRecord begins the PAX records of a tar that hold extended
	// attributes; a convention of star(1) that all container tools share.
	AttributeRecord = "SCHILY.xattr."
	// AttributeCapability holds the capabilities of a program; capabilities(7).
	AttributeCapability = "security.capability"
)

// KeepsAttribute reports whether layers keep the extended attribute name:
// the capabilities of programs, and the user attributes. The rest is of the
// machine, or, as overlayfs's own, would change the content that a mount shows.
func KeepsAttribute(name string) bool {
	return name == AttributeCapability || strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}
