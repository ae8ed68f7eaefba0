//go:build !linux

package diagnose

// MachineItems returns none: only Linux machines are hosts.
func MachineItems() []Item { return nil }
