package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
func ReadConfig(name string) (Config, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return Config{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	c, err := parseConfig(b, filepath.Dir(name))
	if err != nil {
		return Config{}, fmt.Errorf("kubeconfig %s: %w", name, err)
	}
	return c, nil
}

// parseConfig reads a kubeconfig file; dir is where the files that it names by
// relative paths lie.
func parseConfig(b []byte, dir string) (Config, error) {
	var f file
	if err := yaml.Unmarshal(b, &f); err != nil {
		return Config{}, errors.New("it is not the YAML of a kubeconfig file") // the decoder's error quotes values
	}
	cl, us, err := f.current()
	if err != nil {
		return Config{}, err
	}
	c := Config{Server: strings.TrimRight(cl.Server, "/"), ServerName: cl.Name, Insecure: cl.Insecure, Token: us.Token}
	errs := []error{checkServer(c.Server), cl.unsupported(), us.unsupported()}
	for _, from := range []struct {
		to   *[]byte
		data []byte
		file string
	}{
		{&c.CA, cl.CA, cl.CAFile}, {&c.Certificate, us.Certificate, us.CertificateFile}, {&c.Key, us.Key, us.KeyFile},
	} {
		data, err := content(from.data, from.file, dir)
		*from.to = data
		errs = append(errs, err)
	}
	if us.TokenFile != "" && us.Token == "" {
		token, err := content(nil, us.TokenFile, dir)
		c.Token = strings.TrimSpace(string(token))
		errs = append(errs, err)
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
		for _, k := range f.Clusters {
			if k.Name == c.Context.Cluster {
				cl = k.Cluster
			}
		}
		for _, u := range f.Users {
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
	return cl, us, fmt.Errorf("the current context %q is not in it", name)
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

func (c cluster) unsupported() error {
	if c.Proxy != "" {
		return errors.New("proxy-url is not supported: set HTTPS_PROXY")
	}
	return nil
}

func (u user) unsupported() error {
	for what, is := range map[string]bool{
		"exec": len(u.Exec) > 0, "auth-provider": len(u.AuthProvider) > 0, "username": u.Username != "", "as": u.As != "",
	} {
		if is {
			return fmt.Errorf("user: %s is not supported: use a client certificate or a token, as kubectl create token makes one", what)
		}
	}
	return nil
}

// content returns data, or else the content of the file name.
func content(data []byte, name, dir string) ([]byte, error) {
	if len(data) > 0 || name == "" {
		return data, nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return os.ReadFile(name)
}
