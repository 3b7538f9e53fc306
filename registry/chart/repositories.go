package chart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/registry/remote"
)

// maxRepositories bounds helm's file, in bytes.
const maxRepositories = 4 << 20

// A repository is an entry of helm's repositories.yaml, as helm repo add writes it.
type repository struct {
	URL                string `json:"url"`
	Username           string `json:"username"`
	Password           string `json:"password"`
	CAFile             string `json:"caFile"`
	CertFile           string `json:"certFile"`
	KeyFile            string `json:"keyFile"`
	Insecure           bool   `json:"insecure_skip_tls_verify"`
	PassCredentialsAll bool   `json:"pass_credentials_all"`
}

// RepositoriesFile is the file in which helm repo add keeps repositories and their
// credentials: HELM_REPOSITORY_CONFIG, or repositories.yaml in helm's directory. It
// is "" where there is no home.
func RepositoriesFile() string {
	if name := os.Getenv("HELM_REPOSITORY_CONFIG"); name != "" {
		return name
	}
	dir := os.Getenv("HELM_CONFIG_HOME")
	if base := os.Getenv("XDG_CONFIG_HOME"); dir == "" && base != "" {
		dir = filepath.Join(base, "helm")
	}
	if home, err := os.UserHomeDir(); dir == "" && err == nil {
		switch runtime.GOOS {
		case "darwin":
			dir = filepath.Join(home, "Library", "Preferences", "helm")
		case "windows":
			dir = filepath.Join(cmp.Or(os.Getenv("APPDATA"), home), "helm")
		default:
			dir = filepath.Join(home, ".config", "helm")
		}
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "repositories.yaml")
}

// readRepositories reads helm's file; one that is not there has no entries. The errors
// quote nothing of the file, which has passwords.
func readRepositories(name string) ([]repository, error) {
	f, err := os.Open(name)
	if name == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read helm's repositories: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRepositories+1))
	if err != nil {
		return nil, fmt.Errorf("read helm's repositories: %w", err)
	}
	var all struct {
		Repositories []repository `json:"repositories"`
	}
	if len(data) > maxRepositories || yaml.Unmarshal(data, &all) != nil {
		return nil, fmt.Errorf("read helm's repositories: %s is not the YAML that helm repo add writes: correct it, or name another file with HELM_REPOSITORY_CONFIG", name)
	}
	return all.Repositories, nil
}

// file brings a file that belongs to the repository of s. What helm's file says of the
// repository holds for its scheme, host and port alone, unless it says that all hosts get
// the credentials: an index may name any host.
func (f *Fetcher) file(ctx context.Context, s Source, rawURL string, limit int64) ([]byte, error) {
	if !f.read {
		list, err := readRepositories(RepositoriesFile())
		if err != nil {
			return nil, err
		}
		f.repositories, f.read = list, true
	}
	for _, r := range f.repositories {
		if !sameURL(r.URL, s.Repository) {
			continue
		}
		if !r.PassCredentialsAll && !sameOrigin(rawURL, s.Repository) {
			break
		}
		return f.client.FileWith(ctx, rawURL, limit, remote.Access{Username: r.Username, Password: r.Password,
			CAFile: r.CAFile, CertFile: r.CertFile, KeyFile: r.KeyFile, Unverified: r.Insecure})
	}
	return f.client.File(ctx, rawURL, limit)
}

// sameURL reports whether two URLs name one repository.
func sameURL(a, b string) bool {
	x, xerr := url.Parse(strings.TrimRight(a, "/"))
	y, yerr := url.Parse(strings.TrimRight(b, "/"))
	return xerr == nil && yerr == nil && origin(x) == origin(y) && x.EscapedPath() == y.EscapedPath() && x.RawQuery == y.RawQuery
}

func sameOrigin(a, b string) bool {
	x, xerr := url.Parse(a)
	y, yerr := url.Parse(b)
	return xerr == nil && yerr == nil && origin(x) == origin(y)
}

// origin is the scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}
