package imagelist

import "go.yaml.in/yaml/v3"
import "helm.sh/helm/v3/pkg/chartutil"

func (s *scanner) environment(p place, ct *yaml.Node, path string)                    {}
func (s *scanner) arguments(p place, ct *yaml.Node, path string)                      {}
func (s *scanner) podAnnotations(p place, n *yaml.Node, path string)                  {}
func (s *scanner) custom(p place, n *yaml.Node)                                       { s.podSpecsIn(p, n, "") }
func (s *scanner) configMap(p place, n *yaml.Node)                                    {}
func (s *scanner) secret(p place, n *yaml.Node)                                       {}
func (s *scanner) fieldRules(p place, n *yaml.Node)                                   {}
func (s *scanner) commentedDefaults(name string, data []byte)                         {}
func trace(fs []Finding, tmpl, out string)                                            {}
func (s *scanner) announced(c *source)                                                {}
func (s *scanner) probe(c *source, vals map[string]any, caps *chartutil.Capabilities) {}
func (s *scanner) valuesOf(c *source, vals map[string]any, must bool)                 {}
