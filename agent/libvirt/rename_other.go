//go:build !linux

package libvirt

func renameAlone(from, to string) error { return linkAlone(from, to) }
