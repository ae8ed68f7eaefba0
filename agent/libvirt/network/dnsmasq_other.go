//go:build !linux

package network

func isDnsmasqRunning(string, string) bool { return true }
