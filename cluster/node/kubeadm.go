package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/kubeadm"
	"github.com/clusterimage/sealer/cluster/plan"
)

const (
	adminConf   = "/etc/kubernetes/admin.conf"
	kubeletConf = "/etc/kubernetes/kubelet.conf"
	kubeletUnit = "kubelet.service"
)

// The names of the secrets that the step kubeadm.admit hands on to
// kubeadm.join.
const (
	secretToken  = "token"
	secretKey    = "certificateKey"
	secretCAHash = "caHash"
)

// joined says whether kubeadm made a node of the machine and nothing undid it.
func (w *Work) joined() bool {
	made := false
	for _, r := range w.Journal.Records() {
		switch {
		case r.Event == journal.End && (r.Kind == "kubeadm.init" || r.Kind == "kubeadm.join"):
			made = true
		case r.Event == journal.Undone && r.Change != nil && r.Change.What == journal.Kube:
			made = false
		}
	}
	_, err := os.Stat(w.Path(kubeletConf))
	return made && err == nil
}

// begin makes the machine ready for kubeadm: it records the machine's state,
// and removes the remains of an earlier try.
func (w *Work) begin(ctx context.Context, a plan.KubeadmArgs) error {
	// Before the node is recorded: these are undone after it.
	if err := w.noteSysctls(); err != nil {
		return err
	}
	if _, known := w.ours(journal.Kube, "node"); known {
		if err := errors.Join(w.kubeadmReset(ctx, a.Socket, w.Log), w.Units.Start(ctx, kubeletUnit, true)); err != nil {
			return err
		}
	} else {
		before, err := w.saveNetwork(ctx)
		if err != nil {
			return err
		}
		if err := w.change(journal.Change{What: journal.Kube, Name: "node", Now: a.Socket, Was: &journal.State{Digest: before, Value: strings.Join(a.Pods, " ")}}); err != nil {
			return err
		}
	}
	return os.MkdirAll(w.Path("/etc/cni/net.d"), 0o755) // containerd wants to watch it
}

// noteSysctls records the kernel parameters that kubelet and kube-proxy change
// without asking.
func (w *Work) noteSysctls() error {
	for _, name := range []string{
		"kernel.panic", "kernel.panic_on_oops", "vm.overcommit_memory", "vm.panic_on_oom",
		"kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes", "net.ipv4.conf.all.route_localnet",
		"net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_tcp_be_liberal",
		"net.netfilter.nf_conntrack_tcp_timeout_established", "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
	} {
		was, err := w.sysctl(name)
		if _, known := w.ours(journal.Sysctl, name); known || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("sysctl %s: %w", name, err)
		}
		if err := w.change(journal.Change{What: journal.Sysctl, Name: name, Was: &journal.State{Value: was}}); err != nil {
			return err
		}
	}
	return nil
}

// config writes kubeadm's documents where only root reads them.
func (w *Work) config(name string, content []byte) (string, error) {
	dir := filepath.Join(w.Dir(), "kubeadm")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return file, os.WriteFile(file, content, 0o600)
}

func ignored(a plan.KubeadmArgs) []string {
	if len(a.Ignore) == 0 {
		return nil
	}
	return []string{"--ignore-preflight-errors=" + strings.Join(a.Ignore, ",")}
}

type initKind struct{}

func (initKind) Check(_ context.Context, w *Work, _ json.RawMessage) (bool, error) {
	return w.joined(), nil
}

func (initKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.KubeadmArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	if err := w.begin(ctx, a); err != nil {
		return err
	}
	file, err := w.config("init.yaml", []byte(a.Config))
	if err != nil {
		return err
	}
	argv := append([]string{"kubeadm", "init", "--config", file, "--skip-token-print"}, ignored(a)...)
	return w.kubeadm(ctx, program{Args: argv})
}

// kubeadm runs kubeadm; where it fails, the last lines of the kubelet say more.
func (w *Work) kubeadm(ctx context.Context, p program) error {
	err := w.run(ctx, p)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return w.withTail(ctx, kubeletUnit, err)
}

type admitKind struct{}

// Check is never true: a token is short-lived, and a plan has the step only
// when somebody joins.
func (admitKind) Check(context.Context, *Work, json.RawMessage) (bool, error) { return false, nil }

func (admitKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.KubeadmArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	token, err := kubeadm.NewToken()
	if err != nil {
		return err
	}
	key, err := kubeadm.NewCertificateKey()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(w.Dir(), "kubeadm", "init.yaml"))
	if err != nil {
		return fmt.Errorf("kubeadm's documents: %w", err)
	}
	if b, err = (kubeadm.Material{Token: token, CertificateKey: key}).Fill(b); err != nil {
		return err
	}
	file, err := w.config("admit.yaml", b)
	if err != nil {
		return err
	}
	if err := w.run(ctx, program{Args: []string{"kubeadm", "token", "create", "--config", file, "--kubeconfig", w.Path(adminConf)}, Quiet: true}); err != nil {
		return err
	}
	if a.Master {
		if err := w.run(ctx, program{Args: []string{"kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", file}, Quiet: true}); err != nil {
			return err
		}
	}
	ca, err := os.ReadFile(w.Path("/etc/kubernetes/pki/ca.crt"))
	if err != nil {
		return err
	}
	hash, err := kubeadm.CAHash(ca)
	if err != nil {
		return err
	}
	w.Output = map[string]string{secretToken: token, secretKey: key, secretCAHash: hash}
	return os.Remove(file)
}

type joinKind struct{}

func (joinKind) Check(_ context.Context, w *Work, _ json.RawMessage) (bool, error) {
	return w.joined(), nil
}

func (joinKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.KubeadmArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	for _, name := range []string{secretToken, secretCAHash} {
		if w.Secrets[name] == "" {
			return fmt.Errorf("join: the first master handed out no %s", name)
		}
	}
	if err := w.begin(ctx, a); err != nil {
		return err
	}
	material := kubeadm.Material{Token: w.Secrets[secretToken], CertificateKey: w.Secrets[secretKey], CAHashes: []string{w.Secrets[secretCAHash]}}
	b, err := material.Fill([]byte(a.Config))
	if err != nil {
		return err
	}
	file, err := w.config("join.yaml", b)
	if err != nil {
		return err
	}
	argv := append([]string{"kubeadm", "join", "--config", file}, ignored(a)...)
	return errors.Join(w.kubeadm(ctx, program{Args: argv}), os.Remove(file))
}
