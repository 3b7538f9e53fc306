//go:build !linux

package main

func (l *lab) fullDisks(n int) { l.skip(n, "loop devices are Linux's") }
func (l *lab) powerCuts(n int) { l.skip(n, "loop devices are Linux's") }
