//go:build !linux

package node

import (
	"context"
	"errors"
	"io"
)

// KubeadmImages works on Linux, which every node runs.
func KubeadmImages(context.Context, string, io.Reader) ([]string, error) {
	return nil, errors.New("kubeadm config images list: kubeadm runs on Linux alone")
}
