// Package plugin stands in for the plugin package of sealer 0.8.
package plugin

import (
	v1 "github.com/alibaba/sealer/types/api/v1"
	v2 "github.com/alibaba/sealer/types/api/v2"
)

type Interface interface {
	Run(context Context, phase Phase) error
}

type Phase string

const (
	PhaseOriginally    = Phase("Originally")
	PhasePreInit       = Phase("PreInit")
	PhasePreInstall    = Phase("PreInstall")
	PhasePreJoin       = Phase("PreJoin")
	PhasePostJoin      = Phase("PostJoin")
	PhasePreGuest      = Phase("PreGuest")
	PhasePostInstall   = Phase("PostInstall")
	PhasePreClean      = Phase("PreClean")
	PhasePostClean     = Phase("PostClean")
	UpgradeHost        = Phase("UpgradeHost")
	UpgradeCluster     = Phase("UpgradeCluster")
	Plugin             = "Plugin"
	PluginType         = "PluginType"
	EtcdPlugin         = "ETCD"
	LabelPlugin        = "LABEL"
	ShellPlugin        = "SHELL"
	TaintPlugin        = "TAINT"
	HostNamePlugin     = "HOSTNAME"
	ClusterCheckPlugin = "CLUSTERCHECK"
)

type Context struct {
	Plugin  *v1.Plugin
	Cluster *v2.Cluster
	Host    []string
}
