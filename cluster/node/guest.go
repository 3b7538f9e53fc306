package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/plan"
)

type scriptKind struct{}

func (scriptKind) Check(_ context.Context, w *Work, _ json.RawMessage) (bool, error) {
	return w.Journal.Records().Done(w.Step.ID), nil
}

func (scriptKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.ScriptArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	dir, env := w.Path("/"), []string{"PATH=" + w.path()}
	if a.Generation != "" {
		dir = w.rootfs(a.Generation, "")
		env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + w.path(), "ROOTFS=" + dir}
	}
	if a.Kube {
		env = append(env, "KUBECONFIG="+w.adminConf())
		if k, err := w.newKube(); err == nil { // else the command itself reports the fault of the file
			if err := awaitAccount(ctx, k); err != nil {
				return err
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a.Env)) {
		env = append(env, k+"="+a.Env[k])
	}
	if lines := w.Secrets[plan.SecretEnv]; lines != "" {
		env = append(env, strings.Split(lines, "\x00")...)
	}
	return w.run(ctx, program{Args: []string{"/bin/sh", "-c", a.Run}, Env: env, Dir: filepath.Join(dir, filepath.Join("/", a.Dir))})
}

// A getter reads an object of the API.
type getter interface {
	Do(ctx context.Context, method, path, contentType string, body, out any) error
}

// awaitAccount waits until pods can be made in the namespace default: the
// controller manager makes its service account some seconds after kubeadm init,
// and "kubectl run" is refused before. An API server that does not answer is left
// to the command to report.
func awaitAccount(ctx context.Context, k getter) error {
	const account = "/api/v1/namespaces/default/serviceaccounts/default"
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the controller manager has made no service account in namespace default within %v", readyWithin))
	defer cancel()
	for absent(k.Do(ctx, http.MethodGet, account, "", nil, nil)) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// path is the PATH of scripts: below the machine's root first.
func (m *Machine) path() string {
	const standard = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if m.Root == "/" {
		return standard
	}
	return m.Path("/usr/bin") + ":" + standard
}
