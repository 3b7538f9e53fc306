// A plugin of the oldest kind.
package main

import "errors"

type Cluster struct {
	Spec struct {
		Masters struct {
			IPList []string `json:"ipList"`
		} `json:"masters"`
	} `json:"spec"`
}

type nodes struct{}

func (nodes) Exec(c *Cluster) error { return errors.New(c.Spec.Masters.IPList[0]) }

var Plugin nodes
