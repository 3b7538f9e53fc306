package extend

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEtcdScript runs the script with a kubectl that does what etcd's tools
// would do.
func TestEtcdScript(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "it's here")
	script := strings.ReplaceAll(EtcdScript("m1", dir, "s'.db"), "/var/lib/etcd", root)
	kubectl := "#!/bin/sh\necho \"$*\" >>" + root + "/log\ncase \"$*\" in *'snapshot save'*) for f; do :; done; echo data >\"$f\" ;; *etcdutl*) exit 1 ;; esac\n"
	if err := os.WriteFile(filepath.Join(root, "kubectl"), []byte(kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+root+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != dir+"/s'.db" {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(filepath.Join(dir, "s'.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	log, _ := os.ReadFile(filepath.Join(root, "log"))
	if !strings.Contains(string(log), "exec etcd-m1 -- etcdctl") || !strings.Contains(string(log), "etcdctl snapshot status") {
		t.Errorf("%s", log)
	}
}
