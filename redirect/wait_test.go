package redirect_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/redirect"
)

func waitScript(t *testing.T, d redirect.Redirect) string {
	t.Helper()
	b, err := d.WaitScript()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "wait.sh")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWaitScriptIsClean(t *testing.T) {
	t.Parallel()
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		if os.Getenv("SEALER_REQUIRE_TOOLS") != "" {
			t.Fatal(err)
		}
		t.Skip("shellcheck is not installed")
	}
	for _, engine := range redirect.Engines() {
		if engine == redirect.Containerd {
			continue
		}
		for _, selector := range []string{"", "redirect in (on, soon),!legacy"} {
			path := waitScript(t, redirect.Redirect{Engine: engine, NamespaceSelector: selector})
			if out, err := exec.CommandContext(t.Context(), shellcheck, "--shell=sh", path).CombinedOutput(); err != nil {
				t.Errorf("%s, %q: %v\n%s", engine, selector, err, out)
			}
		}
	}
}

// TestWaitScript runs the script against answers of kubectl; make test-cluster
// runs it against a cluster.
func TestWaitScript(t *testing.T) {
	t.Parallel()
	const rewritten = "sea.hub:5000/redirect/probe:1"
	for name, tc := range map[string]struct {
		d              redirect.Redirect
		get, run, list string // what kubectl does
		pods           string // of Kyverno; "" are good ones
		timeout        int    // in seconds; with 0 it tries once
		code           int
		want           string
	}{
		"condition":           {get: "echo /True", run: "echo " + rewritten, want: "redirect-registry works: probe.invalid/redirect/probe:1 becomes " + rewritten},
		"old status":          {get: "echo true/", run: "echo " + rewritten, want: "works"},
		"ready later":         {get: `[ -e "$HOME/asked" ] && echo /True || touch "$HOME/asked"`, run: "echo " + rewritten, timeout: 300, want: "works"},
		"works once":          {get: "echo /True", run: `[ ! -e "$HOME/tried" ] && touch "$HOME/tried" && echo ` + rewritten, code: 1, want: "refused the pod"},
		"warnings":            {get: "echo /True", run: "echo " + rewritten + "; echo Warning: x >&2", want: "works"},
		"not ready":           {get: "echo /False", run: "exit 9", code: 1, want: "The policy is not ready"},
		"image not pulled":    {get: "echo /False", pods: "echo 'kyverno-admission-controller-7d|Pending|False|ImagePullBackOff  |ghcr.io/kyverno/kyverno:v1.19.1 |'", code: 1, want: "Kyverno's pod kyverno-admission-controller-7d does not run: Pending, ImagePullBackOff\n  Its node cannot pull ghcr.io/kyverno/kyverno:v1.19.1.\n  Do the nodes reach the registry, trust its certificate"},
		"init not pulled":     {get: "exit 1", pods: "echo 'job|Succeeded|False|||'; echo 'a|Pending|False|ErrImagePull PodInitializing  |x:1 |'", code: 1, want: "Kyverno's pod a does not run: Pending, ErrImagePull PodInitializing\n  Its node cannot pull x:1."},
		"crash":               {get: "echo /False", pods: "echo 'a|Running|False|CrashLoopBackOff OOMKilled |x:1 |'", code: 1, want: "See: kubectl logs -n kyverno a --all-containers --previous"},
		"no node":             {get: "echo /False", pods: "echo 'a|Pending|||x:1 |0/1 nodes are available | a | b'", code: 1, want: "0/1 nodes are available | a | b See: kubectl describe pod -n kyverno a"},
		"no pods":             {get: "echo /False", pods: "true", code: 1, want: "Namespace kyverno has no pods"},
		"pods not readable":   {get: "echo /False", pods: "exit 1", code: 1, want: "The policy is not ready"},
		"pods and webhook":    {get: "echo /True", run: "echo 'failed calling webhook: refused' >&2; exit 1", pods: "echo 'a|Running|False|||'", code: 1, want: "Kyverno's pod a does not run: Running"},
		"two policies":        {get: "echo truetrue/", run: "exit 9", code: 1, want: "The policy is not ready"},
		"no policy":           {get: "echo 'Error: not found' >&2; exit 1", run: "exit 9", code: 1, want: "Error: not found"},
		"unchanged":           {get: "echo /True", run: "echo probe.invalid/redirect/probe:1", code: 1, want: "wrong image: probe.invalid/redirect/probe:1 became probe.invalid"},
		"wrong path":          {get: "echo /True", run: "echo sea.hub:5000/probe.invalid/redirect/probe:1", code: 1, want: "wrong image"},
		"no webhook":          {get: "echo /True", run: "echo 'failed calling webhook: refused' >&2; exit 1", code: 1, want: "cannot reach a webhook"},
		"denied":              {get: "echo /True", run: "echo 'admission webhook denied the request: x' >&2; exit 1", code: 1, want: "A policy denied the pod"},
		"no service account":  {get: "echo /True", run: "echo 'serviceaccount not found' >&2; exit 1", code: 1, want: "refused the pod"},
		"mutating policy":     {d: redirect.Redirect{Engine: redirect.MutatingPolicy}, get: "echo true", run: "echo " + rewritten, want: "works"},
		"admission policy":    {d: redirect.Redirect{Engine: redirect.AdmissionPolicy}, get: "echo x", run: "echo " + rewritten, want: "wait-redirect-ready: redirect-registry works"},
		"full naming":         {d: redirect.Redirect{Naming: "full"}, get: "echo /True", run: "echo sea.hub:5000/probe.invalid/redirect/probe:1", want: "works"},
		"source registry":     {d: redirect.Redirect{SourceRegistries: []string{"quay.io"}}, get: "echo /True", run: "echo " + rewritten, want: "quay.io/redirect/probe:1 becomes"},
		"chosen namespace":    {d: redirect.Redirect{NamespaceSelector: "a=b"}, get: "echo /True", list: "echo namespace/kube-system; echo namespace/x", run: `[ "$2" = --namespace=x ] && echo ` + rewritten, want: "works"},
		"no namespace chosen": {d: redirect.Redirect{NamespaceSelector: "a=b"}, get: "echo /True", list: "echo namespace/kyverno", run: "exit 9", want: "no namespace is labelled for it (a=b)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			pods := cmp.Or(tc.pods, "echo 'a|Running|True|||'")
			kubectl := "#!/bin/sh\ncase \"$1 $2\" in\n\"get pods\") " + pods + " ;;\n\"get namespaces\") " + tc.list + " ;;\nget*) " + tc.get + " ;;\nrun*) shift; " + tc.run + " ;;\nesac\n"
			if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(kubectl), 0o755); err != nil {
				t.Fatal(err)
			}
			out, code := runScript(t, waitScript(t, tc.d), "HOME="+bin, "PATH="+bin+":"+os.Getenv("PATH"), "WAIT_INTERVAL=0.05", "WAIT_TIMEOUT="+strconv.Itoa(tc.timeout))
			if code != tc.code || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, tc.code, tc.want, out)
			}
		})
	}
}

func TestWaitScriptWithoutKubectl(t *testing.T) {
	t.Parallel()
	if out, code := runScript(t, waitScript(t, redirect.Redirect{}), "PATH="); code != 2 {
		t.Errorf("exit code %d, want 2:\n%s", code, out)
	}
	if _, err := (redirect.Redirect{Engine: redirect.Containerd}).WaitScript(); err == nil {
		t.Error("containerd has a wait script")
	}
}

func runScript(t *testing.T, path string, env ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", path)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
