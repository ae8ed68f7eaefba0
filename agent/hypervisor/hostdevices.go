package hypervisor

import "quantix/internal/fleet"

// NothingPlugged refuses to start a guest that uses a USB port of the host at which nothing is plugged in.
func NothingPlugged(port, host string) error {
	return fleet.Errorf(fleet.Conflict, "At the USB port %s of %s nothing is plugged in that a guest could have. Plug the device in, or take the port out of the VM.", port, host)
}

// NoMdevFree refuses to start a guest that needs a mediated device if the host cannot create another one.
func NoMdevFree(kind, host string) error {
	return fleet.Errorf(fleet.Conflict, "%s can make no mediated device of the type %s now. Stop a VM that has one, or take it out of this VM.", host, kind)
}
