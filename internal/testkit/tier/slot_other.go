//go:build !linux

package tier

// GuestSlot does nothing, because real guests run only on Linux.
func GuestSlot() (release func(), err error) { return func() {}, nil }
