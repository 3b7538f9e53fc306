package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/distribution/reference"

	"github.com/clusterimage/sealer/registry/ref"
)

// sources returns the places to read r from, as registries.conf says: mirrors
// first, the registry itself last. The source that last answered for this
// repository comes before all others, so that a dead mirror is not asked for
// every blob.
func (c *Client) sources(r ref.Reference) ([]target, error) {
	conf, err := sysregistriesv2.FindRegistry(c.sys, r.Name())
	if err != nil {
		return nil, fmt.Errorf("read registries.conf: %w", err)
	}
	if conf == nil {
		h, err := c.host(r.Registry, false)
		return []target{{h, r.Repository}}, err
	}
	if conf.Blocked {
		return nil, fmt.Errorf("registry %s: %w", conf.Prefix, ErrBlocked)
	}
	named, err := reference.ParseNamed(r.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	pulls, err := conf.PullSourcesFromReference(named)
	if err != nil {
		return nil, fmt.Errorf("apply registries.conf: %w", err)
	}
	var out []target
	for _, p := range pulls {
		h, err := c.host(reference.Domain(p.Reference), p.Endpoint.Insecure)
		if err != nil {
			return nil, err
		}
		out = append(out, target{h, reference.Path(p.Reference)})
	}
	c.mu.Lock()
	last := c.preferred[r.Name()]
	c.mu.Unlock()
	for i, t := range out {
		if t.String() == last {
			copy(out[1:i+1], out[:i])
			out[0] = t
		}
	}
	return out, nil
}

// destination returns the place to write r to. Mirrors are only read from; a
// rewritten location of the registry itself applies.
func (c *Client) destination(r ref.Reference) (target, error) {
	conf, err := sysregistriesv2.FindRegistry(c.sys, r.Name())
	if err != nil {
		return target{}, fmt.Errorf("read registries.conf: %w", err)
	}
	if conf != nil {
		conf.Mirrors = nil
		if conf.Blocked {
			return target{}, fmt.Errorf("registry %s: %w", conf.Prefix, ErrBlocked)
		}
		named, err := reference.ParseNamed(r.String())
		if err != nil {
			return target{}, fmt.Errorf("%s: %w", r, err)
		}
		pulls, err := conf.PullSourcesFromReference(named)
		if err != nil {
			return target{}, fmt.Errorf("apply registries.conf: %w", err)
		}
		h, err := c.host(reference.Domain(pulls[0].Reference), pulls[0].Endpoint.Insecure)
		return target{h, reference.Path(pulls[0].Reference)}, err
	}
	h, err := c.host(r.Registry, false)
	return target{h, r.Repository}, err
}

// insecureByConf reports whether registries.conf calls registry insecure.
func (c *Client) insecureByConf(registry string) bool {
	conf, err := sysregistriesv2.FindRegistry(c.sys, registry)
	return err == nil && conf != nil && conf.Insecure
}

// read calls op for each source of r until one succeeds. If none does, the error
// lists the failure of each. op gets a Client that does not retry while there is
// another source to ask.
func (c *Client) read(ctx context.Context, r ref.Reference, op func(c *Client, t target) error) error {
	sources, err := c.sources(r)
	if err != nil {
		return err
	}
	var errs []error
	for i, t := range sources {
		asker := c
		if i < len(sources)-1 {
			asker = c.withoutRetry()
		}
		err := op(asker, t)
		if err == nil {
			if len(sources) > 1 {
				c.mu.Lock()
				c.preferred[r.Name()] = t.String()
				c.mu.Unlock()
			}
			return nil
		}
		var sink sinkError
		if errors.As(err, &sink) || ctx.Err() != nil {
			return err
		}
		if i < len(sources)-1 {
			c.log.Debug("asking the next source", "reference", r.String(), "error", err)
		}
		errs = append(errs, err)
	}
	return oneLine(errs)
}
