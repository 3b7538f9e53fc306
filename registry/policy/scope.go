package policy

import (
	"fmt"

	"github.com/clusterimage/sealer/registry/ref"
)

// requirements returns the requirements for r and the words for where they stand:
// those of the most specific scope, else those of all registries, else the default.
func (p *Policy) requirements(r ref.Reference) ([]requirement, string) {
	for _, s := range append(r.Scopes(), "") {
		if list, ok := p.byName[s]; ok {
			return list, fmt.Sprintf("transports.docker[%q]", s)
		}
	}
	return p.others, "default"
}
