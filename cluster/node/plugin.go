package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/plan"
)

// pluginKind runs a program of the rootfs that is a plugin. As with scripts,
// the journal alone knows whether its work is done.
type pluginKind struct{}

func (pluginKind) Check(_ context.Context, w *Work, _ json.RawMessage) (bool, error) {
	return w.Journal.Records().Done(w.Step.ID), nil
}

func (pluginKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.PluginArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	var req extend.Request
	if err := json.Unmarshal([]byte(w.Secrets[plan.SecretRequest]), &req); err != nil {
		return fmt.Errorf("plugin %s: its request: %w", a.Plugin.Name, err)
	}
	req.Rootfs = w.rootfs(a.Generation, "")
	if a.Kube {
		req.Kubeconfig = w.Path(adminConf)
	}
	r := extend.Runner{
		Log: w.Log, Dir: req.Rootfs, Env: []string{"PATH=" + filepath.Join(req.Rootfs, "bin") + ":" + w.path(), "ROOTFS=" + req.Rootfs, w.mark(w.Step.ID)},
	}
	if host := filepath.Join(req.Rootfs, "bin", "sealer-sohost"); exists(host) {
		r.SoHost = host
	}
	res, err := r.Run(ctx, filepath.Join(req.Rootfs, filepath.Join("/", a.Program)), req)
	for _, c := range res.Changes {
		w.Log(c)
	}
	return err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
