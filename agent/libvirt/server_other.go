//go:build !linux

package libvirt

func serverRuns(string, string) bool { return true }
