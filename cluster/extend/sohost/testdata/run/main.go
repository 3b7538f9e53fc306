// A plugin of sealer 0.8, with the types that it would import.
package main

import "fmt"

type meta struct {
	Name string `json:"name"`
}

type cluster struct {
	meta `json:"metadata"`
	Spec struct {
		Hosts []struct {
			IPS []string `json:"ips"`
		} `json:"hosts"`
	} `json:"spec"`
}

type document struct {
	meta `json:"metadata"`
	Spec struct {
		Data string `json:"data"`
	} `json:"spec"`
}

type Context struct {
	Plugin  *document
	Cluster *cluster
	Host    []string
}

type Phase string

type list string

func (l *list) Run(context Context, phase Phase) error {
	if phase == "panic" {
		panic("as asked")
	}
	fmt.Println("printed")
	return fmt.Errorf("%s %s %s %s %s %s", phase, context.Plugin.Name, context.Plugin.Spec.Data, context.Cluster.Name, context.Cluster.Spec.Hosts[0].IPS[0], context.Host[0])
}

var PluginType = "LIST_NODE"
var Plugin list
