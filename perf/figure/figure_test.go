package figure_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/perf/figure"
)

func TestAdd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures")
	t.Setenv(figure.Variable, file)
	for _, f := range []figure.Figure{
		{Name: "travel/push again", Value: 3, Unit: "requests", Goal: new(0.0)},
		{Name: "travel/push", Value: 1.5, Unit: "s", Low: 1, High: 2, Runs: 3, Goal: new(1.1), Peer: `skopeo "1.9.3"`, PeerValue: 2, X: 200, XUnit: "images", Note: "loopback"},
	} {
		if err := figure.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"figure":"travel/push again","value":3,"unit":"requests","goal":0}
{"figure":"travel/push","value":1.5,"unit":"s","low":1,"high":2,"runs":3,"goal":1.1,"peer":"skopeo \"1.9.3\"","peerValue":2,"x":200,"xUnit":"images","note":"loopback"}
`
	got, err := os.ReadFile(file)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestAddRefuses(t *testing.T) {
	t.Setenv(figure.Variable, filepath.Join(t.TempDir(), "figures"))
	for _, f := range []figure.Figure{
		{Value: 1, Unit: "s"}, {Name: "a/b", Value: 1}, {Name: "a/b", Value: math.NaN(), Unit: "s"}, {Name: "a/b", Unit: "s", High: math.Inf(1)},
		{Name: "a/b", Unit: "s", X: 5}, {Name: "a/b", Unit: "s", XUnit: "images"}, {Name: "a/b", Unit: "s", X: -1, XUnit: "images"}, {Name: "a/b", Unit: "s", Peer: "tar"},
	} {
		if err := figure.Add(f); err == nil {
			t.Errorf("%+v was written", f)
		}
	}
}

func TestAddWithoutAFile(t *testing.T) {
	t.Setenv(figure.Variable, "")
	if err := figure.Add(figure.Figure{Name: "a/b", Value: 1, Unit: "s"}); err != nil {
		t.Error(err)
	}
}

// The shell's function writes the same lines.
func TestScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures")
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("bash", "-euc", `. ../figure.sh
figure 'run/one "master"' 41.2 s goal=1.10 'peer=by hand' peerValue=40.5 low=40 high=43 runs=3
figure corpus/recall 99.5 % goal=99 least=true
figure run/requests 30 requests x=20 xUnit=machines
figure run/ratio .66 ratio low=.5`)
	cmd.Env = append(os.Environ(), figure.Variable+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("bash: %v: %s", err, out)
	}
	const want = `{"figure":"run/one \"master\"","value":41.2,"unit":"s","goal":1.10,"peer":"by hand","peerValue":40.5,"low":40,"high":43,"runs":3}
{"figure":"corpus/recall","value":99.5,"unit":"%","goal":99,"least":true}
{"figure":"run/requests","value":30,"unit":"requests","x":20,"xUnit":"machines"}
{"figure":"run/ratio","value":0.66,"unit":"ratio","low":0.5}
`
	got, err := os.ReadFile(file)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
