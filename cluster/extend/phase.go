package extend

import (
	"fmt"
	"slices"
	"strings"
)

// A Phase is a moment in the life of a cluster at which plugins work. Its text
// is the first of its names.
type Phase string

// The phases, in the order in which a cluster meets them.
const (
	Originally    Phase = "Originally"
	PreInstall    Phase = "pre-install"
	PreInit       Phase = "PreInit"
	PreJoin       Phase = "PreJoin"
	PreGuest      Phase = "PreGuest"
	PostInitHost  Phase = "post-init-host"
	AfterInstall  Phase = "post-install"
	PostInstall   Phase = "PostInstall"
	PostJoin      Phase = "PostJoin"
	UpgradeHost   Phase = "UpgradeHost"
	Upgrade       Phase = "Upgrade"
	PreUninstall  Phase = "pre-uninstall"
	PreClean      Phase = "PreClean"
	PostClean     Phase = "PostClean"
	PostUninstall Phase = "post-uninstall"
)

// Where says on which machines a phase's plugins work when they name none.
type Where string

// The places.
const (
	OnAll   Where = "all"   // every machine that the verb is about
	OnFirst Where = "first" // the first master
)

// A Moment describes a phase: its names, where its work runs, and its meaning.
type Moment struct {
	Phase Phase
	Names []string // in the Clusterfile, the first being Phase
	Where Where
	Means string
}

// Moments returns all phases in order.
func Moments() []Moment {
	return []Moment{
		{Originally, nil, OnAll, "before anything is sent to the machine; there is no rootfs yet"},
		{PreInstall, []string{"PreInstall"}, OnFirst, "before the machines are made ready"},
		{PreInit, []string{"pre-init-host"}, OnAll, "the rootfs is there; nothing is installed"},
		{PreJoin, []string{"pre-scaleup"}, OnFirst, "before machines join a cluster that runs"},
		{PreGuest, nil, OnFirst, "the nodes are known; before the start commands"},
		{PostInitHost, nil, OnAll, "the machine is a node; before the start commands"},
		{AfterInstall, nil, OnFirst, "the cluster runs; before the start commands"},
		{PostInstall, nil, OnFirst, "after the start commands"},
		{PostJoin, []string{"post-scaleup"}, OnFirst, "after machines joined a cluster that runs"},
		{UpgradeHost, []string{"upgrade-host"}, OnAll, "before the machine is upgraded"},
		{Upgrade, []string{"upgrade", "UpgradeCluster"}, OnFirst, "after the masters are upgraded"},
		{PreUninstall, nil, OnFirst, "before the cluster is deleted"},
		{PreClean, []string{"pre-clean-host"}, OnAll, "before a machine leaves"},
		{PostClean, []string{"post-clean-host"}, OnAll, "after a machine left"},
		{PostUninstall, nil, OnFirst, "after the cluster is deleted"},
	}
}

// moment returns the phase of a name, in whichever vocabulary and case.
func moment(name string) (Moment, error) {
	var known []string
	for _, m := range Moments() {
		all := append([]string{string(m.Phase)}, m.Names...)
		if slices.ContainsFunc(all, func(n string) bool { return n == name }) {
			return m, nil
		}
		known = append(known, all...)
	}
	for _, k := range known {
		if strings.EqualFold(k, name) {
			return Moment{}, fmt.Errorf("unknown phase %q: write %q", name, k)
		}
	}
	return Moment{}, fmt.Errorf("unknown phase %q: known are %s", name, strings.Join(slices.Compact(known), ", "))
}

// ParsePhase returns the phase of a name in either vocabulary.
func ParsePhase(name string) (Phase, error) {
	m, err := moment(name)
	return m.Phase, err
}
