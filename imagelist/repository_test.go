package imagelist_test

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/perf/figure"
)

// BenchmarkRepository scans all charts of a repository: those below charts/ of the
// directory $SEALER_CHARTS, else 1,127 charts as helm create makes them, with a
// library of helpers and definitions. peak-MB is the highest size of the heap that
// was seen, each 10 ms.
//
//	SEALER_CHARTS=DIR go test ./imagelist -run xxx -bench Repository -benchtime 1x
func BenchmarkRepository(b *testing.B) {
	var fsys fs.FS
	if dir := os.Getenv("SEALER_CHARTS"); dir != "" {
		root, err := os.OpenRoot(dir)
		if err != nil {
			b.Fatal(err)
		}
		defer root.Close()
		fsys = root.FS()
	} else {
		fsys = repository(1127)
	}
	runtime.GC()
	var peak atomic.Uint64
	done := make(chan struct{})
	go func() {
		var m runtime.MemStats
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-tick.C:
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
		}
	}()
	b.ReportAllocs()
	n, before := 0, figure.ProcessorTime()
	for b.Loop() {
		res, err := imagelist.Scan(b.Context(), fsys, imagelist.Options{Lenient: true, Mode: imagelist.ModeSealer})
		if err != nil {
			b.Fatal(err)
		}
		n = len(res.Charts)
	}
	close(done)
	b.ReportMetric(float64(peak.Load()>>20), "peak-MB")
	b.ReportMetric(float64(n), "charts")
	cpu, name := (figure.ProcessorTime()-before).Seconds()/float64(b.N), fmt.Sprintf("corpus/%d charts in one scan", n)
	b.ReportMetric(cpu, "cpu-s/op")
	for _, f := range []figure.Figure{
		{Name: name, Value: cpu, Unit: "CPU s", Goal: new(45.0), Runs: b.N}, {Name: name, Value: float64(peak.Load()) / 1e6, Unit: "MB of heap", Goal: new(600.0), Runs: b.N},
	} {
		if err := figure.Add(f); err != nil {
			b.Error(err)
		}
	}
}

// repository makes n charts.
func repository(n int) fstest.MapFS {
	fsys := fstest.MapFS{}
	var helpers, schema strings.Builder
	for i := range 60 {
		fmt.Fprintf(&helpers, "{{- define \"common.h%d\" -}}\n{{- $v := .Values.image -}}\n{{- printf \"%%s/%%s\" $v.registry $v.repository -}}{{- if $v.tag }}:{{ $v.tag }}{{- end -}}\n{{- end -}}\n", i)
	}
	for i := range 1500 {
		fmt.Fprintf(&schema, "                field%d:\n                  description: The field number %d of the object, with a text that says what it is for.\n                  type: string\n", i, i)
	}
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: things.example.com\nspec:\n  group: example.com\n  names: {kind: Thing, plural: things}\n  versions:\n  - name: v1\n    served: true\n    schema:\n      openAPIV3Schema:\n        properties:\n          spec:\n            properties:\n" + schema.String()
	add := func(name, text string) { fsys[name] = &fstest.MapFile{Data: []byte(text)} }
	for i := range n {
		dir := fmt.Sprintf("charts/app%d/", i)
		add(dir+"Chart.yaml", fmt.Sprintf("apiVersion: v2\nname: app%d\nversion: 1.0.0\nappVersion: 1.%d.0\ndependencies: [{name: common, version: 1.x.x, repository: \"https://charts.example.com\"}]\n", i, i))
		add(dir+"values.yaml", "image: {registry: quay.io, repository: x/app, tag: \"\"}\nreplicas: 1\nservice: {port: 80}\nresources: {}\nmetrics: {enabled: false, image: {registry: quay.io, repository: x/exporter, tag: v1}}\n")
		add(dir+"charts/common/Chart.yaml", "apiVersion: v2\nname: common\nversion: 1.0.0\ntype: library\n")
		add(dir+"charts/common/templates/_helpers.tpl", helpers.String())
		for j := range 12 {
			add(fmt.Sprintf("%stemplates/t%d.yaml", dir, j), fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}-%d\n  labels:\n    app: {{ .Chart.Name | quote }}\nspec:\n  replicas: {{ .Values.replicas }}\n  template:\n    spec:\n      containers:\n      - name: app\n        image: {{ include \"common.h%d\" . }}:{{ .Values.image.tag | default .Chart.AppVersion }}\n        resources: {{- toYaml .Values.resources | nindent 10 }}\n        env:\n        - {name: HELPER_IMAGE, value: \"quay.io/x/helper:v%d\"}\n{{- if .Values.metrics.enabled }}\n      - name: metrics\n        image: {{ .Values.metrics.image.repository }}\n{{- end }}\n", j, j, j))
		}
		if i%4 == 0 {
			add(dir+"crds/thing.yaml", crd)
		}
	}
	return fsys
}
