package imagelist

import "go.yaml.in/yaml/v3"

func (s *scanner) environment(p place, ct *yaml.Node, path string)   {}
func (s *scanner) arguments(p place, ct *yaml.Node, path string)     {}
func (s *scanner) podAnnotations(p place, n *yaml.Node, path string) {}
func (s *scanner) custom(p place, n *yaml.Node)                      { s.podSpecsIn(p, n, "") }
func (s *scanner) configMap(p place, n *yaml.Node)                   {}
func (s *scanner) secret(p place, n *yaml.Node)                      {}
func (s *scanner) fieldRules(p place, n *yaml.Node)                  {}
func (s *scanner) commentedDefaults(name string, data []byte)        {}
func (s *scanner) readCharts(paths []string) error                   { return nil }
