// Command sealer-sohost runs a plugin of sealer 0.8 that is a .so file: it
// opens the file and speaks the exec protocol of docs/plugins.md for it.
//
//	sealer-sohost FILE.so < request.json
//
// Go opens a .so file only in a program that was built by the same Go with the
// same flags. The program imports nothing but Go's own library, so no version
// of another package has to fit: the argument of the plugin's Run is filled in
// by its field names. Build it, with cgo, by the Go of the file:
//
//	CGO_ENABLED=1 go build -o sealer-sohost .            # or with -trimpath, as the file was
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"plugin"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
)

// A request is the JSON object that sealer writes to stdin.
type request struct {
	Op      string          `json:"op"`
	Phase   string          `json:"phase"`
	Plugin  json.RawMessage `json:"plugin"`
	Cluster struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		Image       string            `json:"image"`
		Env         []string          `json:"env"`
		Hosts       []host            `json:"hosts"`
	} `json:"cluster"`
	Hosts      []string `json:"hosts"`
	Rootfs     string   `json:"rootfs"`
	Kubeconfig string   `json:"kubeconfig"`
}

type host struct {
	IPs   []string `json:"ips"`
	Roles []string `json:"roles"`
	Env   []string `json:"env,omitempty"`
}

type response struct {
	Type  string `json:"type,omitempty"`
	Error string `json:"error,omitempty"`
}

func main() {
	answers := os.Stdout
	os.Stdout = os.Stderr // the plugin's own output is for people
	res, err := serve(os.Args[1:], os.Stdin)
	if err != nil {
		res.Error = err.Error()
	}
	if err := json.NewEncoder(answers).Encode(res); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string, in io.Reader) (response, error) {
	if len(args) != 1 {
		return response{}, errors.New("usage: sealer-sohost FILE.so < request.json")
	}
	var req request
	if err := json.NewDecoder(in).Decode(&req); err != nil {
		return response{}, fmt.Errorf("read the request: %w", err)
	}
	work, kind, err := open(args[0])
	if err != nil {
		return response{}, err
	}
	switch req.Op {
	case "describe":
		return response{Type: kind}, nil
	case "run":
		return response{}, run(work, req)
	}
	return response{}, fmt.Errorf("unknown operation %q", req.Op)
}

// open returns the variable Plugin of a file, and its type.
func open(file string) (reflect.Value, string, error) {
	p, err := plugin.Open(file)
	if err != nil {
		return reflect.Value{}, "", loadError(file, err)
	}
	work, err := p.Lookup("Plugin")
	if err != nil {
		return reflect.Value{}, "", fmt.Errorf("%s has no variable Plugin: is it a plugin of sealer?", file)
	}
	kind := "GOLANG" // the oldest plugins had no type
	if v, err := p.Lookup("PluginType"); err == nil {
		s, ok := v.(*string)
		if !ok {
			return reflect.Value{}, "", fmt.Errorf("%s: PluginType is %T, want a string", file, v)
		}
		kind = *s
	}
	return reflect.ValueOf(work), kind, nil
}

// loadError is the error of a file that does not load: it names the Go and the
// flags that built the file and this program, and the way out.
func loadError(file string, err error) error {
	const out = "build sealer-sohost by the Go of the file with its flags, or, better, make a program of the plugin's source: sealer plugin build FILE.go -o NAME"
	text := strings.TrimSpace(err.Error())
	switch {
	case strings.Contains(text, "not implemented"):
		return fmt.Errorf("%s: this sealer-sohost was built without cgo and opens no .so file: build it with CGO_ENABLED=1", file)
	case !strings.Contains(text, "different version of package"):
		return fmt.Errorf("%s: %s", file, text)
	}
	theirs := "the file does not say by which Go it was built"
	if info, err := buildinfo.ReadFile(file); err == nil {
		theirs = "the file was built by " + describe(info.GoVersion, info.Settings)
	}
	ours := runtime.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		ours = describe(ours, info.Settings)
	}
	return fmt.Errorf("%s: %s: %s, sealer-sohost by %s: %s", file, text, theirs, ours, out)
}

// describe names the settings that must be equal: Go's version and the flags
// that change packages.
func describe(version string, settings []debug.BuildSetting) string {
	for _, s := range settings {
		switch s.Key {
		case "-trimpath", "-race", "-msan", "-asan", "-gcflags", "-tags", "-ldflags":
			version += " " + s.Key + "=" + s.Value
		}
	}
	return version
}

func run(work reflect.Value, req request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if req.Kubeconfig != "" {
		os.Setenv("KUBECONFIG", req.Kubeconfig)
	}
	if m := work.MethodByName("Run"); m.IsValid() && m.Type().NumIn() == 2 && m.Type().NumOut() == 1 {
		context := reflect.New(m.Type().In(0)).Elem()
		phase := reflect.New(m.Type().In(1)).Elem()
		if context.Kind() != reflect.Struct || phase.Kind() != reflect.String {
			return fmt.Errorf("Run is %s, want func(plugin.Context, plugin.Phase) error", m.Type())
		}
		phase.SetString(req.Phase)
		if err := fillContext(context, req); err != nil {
			return err
		}
		return call(m, context, phase)
	}
	if m := work.MethodByName("Exec"); m.IsValid() && m.Type().NumIn() == 1 && m.Type().NumOut() == 1 && m.Type().In(0).Kind() == reflect.Pointer {
		cluster := reflect.New(m.Type().In(0).Elem())
		if err := fill(cluster, clusterDocument(req)); err != nil {
			return err
		}
		return call(m, cluster)
	}
	return errors.New("Plugin has neither Run(plugin.Context, plugin.Phase) error nor Exec(*v1.Cluster) error")
}

func call(m reflect.Value, args ...reflect.Value) error {
	err, _ := m.Call(args)[0].Interface().(error)
	return err
}

// fillContext fills the fields that the versions of sealer had.
func fillContext(context reflect.Value, req request) error {
	for name, document := range map[string]any{"Plugin": pluginDocument(req), "Cluster": clusterDocument(req), "Host": req.Hosts} {
		f := context.FieldByName(name)
		if !f.IsValid() || !f.CanSet() {
			continue
		}
		v := reflect.New(f.Type())
		if err := fill(v, document); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.Set(v.Elem())
	}
	return nil
}

func fill(v reflect.Value, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v.Interface())
}

func pluginDocument(req request) any {
	var p struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(req.Plugin, &p) // the name is "" then
	return map[string]any{"kind": "Plugin", "metadata": map[string]any{"name": p.Name}, "spec": req.Plugin}
}

// clusterDocument has the fields of both versions of Cluster.
func clusterDocument(req request) any {
	ips := map[string][]string{}
	for _, h := range req.Cluster.Hosts {
		for _, r := range h.Roles {
			ips[r] = append(ips[r], h.IPs...)
		}
	}
	return map[string]any{
		"kind": "Cluster", "metadata": map[string]any{"name": req.Cluster.Name, "annotations": req.Cluster.Annotations},
		"spec": map[string]any{
			"image": req.Cluster.Image, "env": req.Cluster.Env, "hosts": req.Cluster.Hosts,
			"masters": map[string]any{"ipList": ips["master"]}, "nodes": map[string]any{"ipList": ips["node"]},
		},
	}
}
