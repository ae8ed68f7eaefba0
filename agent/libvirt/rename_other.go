//go:build !linux

package libvirt

func renameNoReplace(from, to string) error { return linkNoReplace(from, to) }
