package tree

import (
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
)

// AttachmentPrefix begins the tags under which artifacts that belong to an image
// lie in its repository: cosign's, and those of the referrers tag schema of the OCI
// distribution specification 1.1.
const AttachmentPrefix = "sha256-"

// CosignSuffixes end cosign's tags: of signatures, attestations and SBOMs.
var CosignSuffixes = []string{".sig", ".att", ".sbom"}

// AttachmentTag returns the tag of the referrers tag schema for the image d, which
// also begins cosign's tags.
func AttachmentTag(d digest.Digest) string { return strings.Replace(d.String(), ":", "-", 1) }

var attachmentTag = regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.sig|\.att|\.sbom)?$`)

// IsAttachmentTag reports whether a tag holds artifacts that belong to an image.
func IsAttachmentTag(tag string) bool { return attachmentTag.MatchString(tag) }

// IsReferrersTag reports whether a tag is one of the referrers tag schema.
func IsReferrersTag(tag string) bool {
	return len(tag) == len(AttachmentPrefix)+64 && IsAttachmentTag(tag)
}
