package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/image/sbom"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// checkSBOM checks the format of --sbom, and that it stands alone.
func checkSBOM(cmd *cobra.Command, format string) error {
	switch format {
	case "":
		if cmd.Flags().Changed("sbom") {
			return usagef("--sbom \"\": want spdx or cyclonedx")
		}
		return nil
	case "spdx", "cyclonedx":
	default:
		return usagef("--sbom %q: want spdx or cyclonedx", format)
	}
	for _, other := range []string{"output", "format", "images"} {
		if cmd.Flags().Changed(other) {
			return usagef("--sbom prints JSON of its own: leave out --%s", other)
		}
	}
	return nil
}

// printSBOM prints the software bill of materials of im.
func (a *app) printSBOM(ctx context.Context, s *store.Store, im *store.Image, asked, format string) (err error) {
	if err := s.Hold(ctx); err != nil {
		a.logger().Debug("inspect without a lock", "error", err) // a read-only store cannot be pruned either
	}
	root, err := s.Rootfs(im.LayerIDs())
	if err != nil {
		return fmt.Errorf("inspect %s: %w", asked, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	docs := im.Documents
	held, err := transfer.HeldInFiles(s, im)
	if err != nil {
		return err
	}
	if held != nil {
		docs = append([]*tree.Document{held}, docs...)
	}
	inventory, err := sbom.Gather(ctx, sbom.Source{
		Name: shownName(asked, im), Manifest: im.ManifestDescriptor, Config: &im.Config, Layers: im.Layers, Documents: docs, Rootfs: root, Blobs: s,
	})
	if err != nil {
		return fmt.Errorf("inspect %s: %w", asked, err)
	}
	if format == "spdx" {
		err = sbom.WriteSPDX(a.Out, inventory, "sealer-"+Version)
	} else {
		err = sbom.WriteCycloneDX(a.Out, inventory, Version)
	}
	if err != nil {
		return fmt.Errorf("inspect %s: %w", asked, err)
	}
	for _, e := range inventory.Unread {
		printf(a.Err, "warning: not read: %v\n", e)
	}
	if n := inventory.Listed; n > 0 {
		printf(a.Err, "%s listed and not inside: not in this SBOM\n", counted(n, "image is", "images are"))
	}
	if n := inventory.Without(); n > 0 {
		printf(a.Err, "%d of %s without an SBOM: NOASSERTION stands for their software and licences\n", n, counted(len(inventory.Images), "image", "images"))
	}
	return nil
}
