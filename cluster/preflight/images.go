package preflight

import "strings"

// ImagesCheck is the name of the check about container images that the
// ClusterImage lacks.
const ImagesCheck = "images"

func imageChecks() []check { return []check{{ImagesCheck, checkImages}} }

func checkImages(f *findings) {
	if f.in.Images == nil || len(f.in.Nodes) == 0 {
		return
	}
	host := f.in.Nodes[0].Host
	if err := f.in.Images.Err; err != nil {
		f.fail(host, "mend etc/kubeadm.yml of the image or the kubeadm documents of the Clusterfile, or leave the check out with --skip-check "+ImagesCheck,
			"the image's kubeadm does not say which images it wants: %v", err)
	}
	if lacks := f.in.Images.Lacks; len(lacks) > 0 {
		f.fail(host, "build the image with them (a line each in manifests/imageList), or leave the check out with --skip-check "+ImagesCheck,
			"kubeadm wants images that the ClusterImage does not have: %s", strings.Join(lacks, ", "))
	}
}
