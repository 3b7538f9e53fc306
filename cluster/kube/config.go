package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// A Config says where an API server is and who asks: one context of a kubeconfig
// file, with the files that it names read.
type Config struct {
	Server     string // https://host:port
	ServerName string // in the server's certificate; empty is the host of Server
	CA         []byte // PEM; empty means the system's authorities
	Insecure   bool   // the server's certificate is not checked: the file says so
	Proxy      string // URL; empty means that of the environment

	Certificate, Key []byte // PEM, of the client; empty without
	Token            string // bearer token; empty without
}

// The fields of the file, after "kubeconfig (v1)" in the reference of the
// Kubernetes API's client configuration.
type file struct {
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User user   `json:"user"`
	} `json:"users"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
}

type cluster struct {
	Server   string `json:"server"`
	Name     string `json:"tls-server-name"`
	CA       []byte `json:"certificate-authority-data"`
	CAFile   string `json:"certificate-authority"`
	Insecure bool   `json:"insecure-skip-tls-verify"`
	Proxy    string `json:"proxy-url"`
}

type user struct {
	Certificate     []byte          `json:"client-certificate-data"`
	CertificateFile string          `json:"client-certificate"`
	Key             []byte          `json:"client-key-data"`
	KeyFile         string          `json:"client-key"`
	Token           string          `json:"token"`
	TokenFile       string          `json:"tokenFile"`
	Username        string          `json:"username"`
	Exec            json.RawMessage `json:"exec"`
	AuthProvider    json.RawMessage `json:"auth-provider"`
	As              string          `json:"as"`
}

// ReadConfig reads the current context of a kubeconfig file. The error names
// every setting of it that is not supported, and never quotes a credential.
func ReadConfig(name string) (Config, error) { return ReadConfigs([]string{name}, "") }

// ReadConfigs reads a context of several files, as kubectl does for KUBECONFIG: the
// first of them that says something counts, and of several files one need not be
// there. context is the name of the one that is wanted, "" for the current one.
func ReadConfigs(names []string, context string) (Config, error) {
	var all file
	var missing error
	read := 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && len(names) > 1 {
			missing = err
			continue
		}
		if err != nil {
			return Config{}, fmt.Errorf("read kubeconfig: %w", err)
		}
		f, err := parseFile(b, filepath.Dir(name))
		if err != nil {
			return Config{}, fmt.Errorf("kubeconfig %s: %w", name, err)
		}
		read++
		all.CurrentContext = cmp.Or(all.CurrentContext, f.CurrentContext)
		all.Clusters, all.Users, all.Contexts = append(all.Clusters, f.Clusters...), append(all.Users, f.Users...), append(all.Contexts, f.Contexts...)
	}
	if read == 0 {
		return Config{}, fmt.Errorf("read kubeconfig: %w", cmp.Or(missing, fs.ErrNotExist))
	}
	all.CurrentContext = cmp.Or(context, all.CurrentContext)
	c, err := all.config()
	if err != nil {
		return Config{}, fmt.Errorf("kubeconfig %s: %w", strings.Join(names, string(filepath.ListSeparator)), err)
	}
	return c, nil
}

// parseFile reads a kubeconfig file. Relative paths in it begin
// at dir.
func parseFile(b []byte, dir string) (file, error) {
	var f file
	if err := yaml.Unmarshal(b, &f); err != nil {
		return file{}, errors.New("it is not the YAML of a kubeconfig file") // the decoder's error quotes values
	}
	in := func(names ...*string) {
		for _, name := range names {
			if *name != "" && !filepath.IsAbs(*name) {
				*name = filepath.Join(dir, *name)
			}
		}
	}
	for i := range f.Clusters {
		in(&f.Clusters[i].Cluster.CAFile)
	}
	for i := range f.Users {
		in(&f.Users[i].User.CertificateFile, &f.Users[i].User.KeyFile, &f.Users[i].User.TokenFile)
	}
	return f, nil
}

// config is the current context, with the files that it names read.
func (f *file) config() (Config, error) {
	cl, us, err := f.current()
	if err != nil {
		return Config{}, err
	}
	c := Config{Server: strings.TrimRight(cl.Server, "/"), ServerName: cl.Name, Insecure: cl.Insecure, Proxy: cl.Proxy, Token: us.Token}
	errs := []error{checkServer(c.Server), checkProxy(c.Proxy), us.unsupported()}
	for _, from := range []struct {
		to   *[]byte
		data []byte
		file string
	}{
		{&c.CA, cl.CA, cl.CAFile}, {&c.Certificate, us.Certificate, us.CertificateFile}, {&c.Key, us.Key, us.KeyFile},
	} {
		data, err := content(from.data, from.file)
		*from.to = data
		errs = append(errs, err)
	}
	if us.TokenFile != "" { // it wins when it can be read, as in client-go
		token, err := content(nil, us.TokenFile)
		if c.Token = cmp.Or(strings.TrimSpace(string(token)), us.Token); us.Token == "" {
			errs = append(errs, err)
		}
	}
	if c.Insecure && len(c.CA) > 0 { // kubectl refuses it too
		errs = append(errs, errors.New("a certificate authority and insecure-skip-tls-verify exclude each other: take one of them out"))
	}
	if (len(c.Certificate) == 0) != (len(c.Key) == 0) {
		errs = append(errs, errors.New("a client certificate and its key must both be there"))
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// current finds the cluster and the user of the current context. A file with one
// context needs no choice.
func (f *file) current() (cl cluster, us user, err error) {
	name := f.CurrentContext
	if name == "" && len(f.Contexts) == 1 {
		name = f.Contexts[0].Name
	}
	for _, c := range f.Contexts {
		if c.Name != name {
			continue
		}
		for _, k := range slices.Backward(f.Clusters) { // the first counts
			if k.Name == c.Context.Cluster {
				cl = k.Cluster
			}
		}
		for _, u := range slices.Backward(f.Users) {
			if u.Name == c.Context.User {
				us = u.User
			}
		}
		if cl.Server == "" {
			return cl, us, fmt.Errorf("context %q: its cluster %q has no server", name, c.Context.Cluster)
		}
		return cl, us, nil
	}
	if name == "" {
		return cl, us, errors.New("no current-context")
	}
	var there []string
	for _, c := range f.Contexts {
		there = append(there, c.Name)
	}
	return cl, us, fmt.Errorf("the context %q is not in it; there are: %s", name, strings.Join(there, ", "))
}

func checkServer(server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("server: want https://HOST[:PORT]")
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("server: scheme %q: want https", u.Scheme)
	}
	return nil
}

func checkProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return errors.New("proxy-url: want http://, https:// or socks5://HOST:PORT")
	}
	return nil
}

func (u user) unsupported() error {
	for what, is := range map[string]bool{
		"exec": isGiven(u.Exec), "auth-provider": isGiven(u.AuthProvider), "username": u.Username != "", "as": u.As != "",
	} {
		if is {
			return fmt.Errorf("user: %s is not supported: use a client certificate or a token, as kubectl create token makes one", what)
		}
	}
	return nil
}

// isGiven reports whether a field is there and not null, as some programs write what
// is not used.
func isGiven(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

// content returns data, or else the content of the file name.
func content(data []byte, name string) ([]byte, error) {
	if len(data) > 0 || name == "" {
		return data, nil
	}
	return os.ReadFile(name)
}
