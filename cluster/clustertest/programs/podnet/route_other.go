//go:build !linux

package main

import (
	"errors"
	"net"
)

func replaceRoute(*net.IPNet, net.IP) error { return errors.New("nodes run Linux") }
