package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/registry/policy"
	"github.com/clusterimage/sealer/registry/remote"
)

// registryFlags are the flags of every command that uses registries.
type registryFlags struct {
	registriesConf string
	authFile       string
	certsDir       string
	insecure       []string
	policy         string
	jobs           int
	stall          time.Duration
}

func (r *registryFlags) add(f *pflag.FlagSet) {
	r.files(f)
	f.StringSliceVar(&r.insecure, "insecure-registry", nil, "a `HOST[:PORT]` that is spoken to over plain http or unverified TLS")
	f.DurationVar(&r.stall, "stall-timeout", time.Minute, "cut off and resume a transfer of less than 1 kB a second over this time; 0 is never")
	f.IntVarP(&r.jobs, "jobs", "j", 0, "transfers at a time, over all registries (default 8)")
}

// files registers the flags that name files of configuration.
func (r *registryFlags) files(f *pflag.FlagSet) {
	f.StringVar(&r.registriesConf, "registries-conf", "", "registries.conf: mirrors, rewrites, blocked and insecure registries (default: CONTAINERS_REGISTRIES_CONF, else the user's and the system's)")
	f.StringVar(&r.authFile, "authfile", "", "credentials (default: REGISTRY_AUTH_FILE, else where podman and docker keep them)")
	f.StringVar(&r.certsDir, "cert-dir", "", "certificates of registries, a directory for each host (default: certs.d of the user and the system)")
	f.StringVar(&r.policy, "policy", "", "policy.json: which images may be taken from registries, and whose signatures they need (default: ~/.config/containers/policy.json, else "+policy.System+")")
}

// client makes the client of one run of a command.
func (a *app) client(r *registryFlags) (*remote.Client, error) {
	if r.jobs < 0 {
		return nil, usagef("--jobs %d: want a number of transfers, or 0 for the default", r.jobs)
	}
	if r.stall < 0 {
		return nil, usagef("--stall-timeout %s: want a time such as 1m, or 0 for never", r.stall)
	}
	conf := r.registriesConf
	if conf == "" {
		conf = os.Getenv("CONTAINERS_REGISTRIES_CONF")
	}
	judge, err := r.readPolicy()
	if err != nil {
		return nil, err
	}
	c, err := remote.New(remote.Options{
		Policy:         judge,
		RegistriesConf: conf,
		AuthFile:       r.authFile,
		CertsDir:       r.certsDir,
		Insecure:       r.insecure,
		UserAgent:      "sealer/" + Version,
		Jobs:           r.jobs,
		Stall:          cmp.Or(r.stall, -1),
		Logger:         a.logger(),
	})
	if errors.Is(err, fs.ErrPermission) {
		err = advise(err, "Let this user read it, or name another file with --registries-conf FILE")
	}
	return c, err
}

// readPolicy reads the policy of --policy, else that of podman and skopeo. Without
// one it returns nil: every image may be taken.
func (r *registryFlags) readPolicy() (remote.Policy, error) {
	file := r.policy
	if file == "" {
		var err error
		if file, err = policy.Find(); err != nil || file == "" {
			return nil, err
		}
	}
	p, err := policy.Load(file)
	if err != nil {
		return nil, advise(err, "Correct that file (man containers-policy.json), or name another one with --policy FILE")
	}
	return p, nil
}
