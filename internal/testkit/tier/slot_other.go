//go:build !linux

package tier

// GuestSlot takes nothing: real guests run on Linux only.
func GuestSlot() (release func(), err error) { return func() {}, nil }
