package hypervisor

import "quantix/internal/fleet"

// RefuseEmptyUSBPort refuses to start a guest with a USB port of the host if nothing is plugged into the port.
func RefuseEmptyUSBPort(port, host string) error {
	return fleet.Errorf(fleet.Conflict, "The USB port %s of %s has no device that a guest could use. Plug the device in, or remove the port from the VM.", port, host)
}

// RefuseUnavailableMdev refuses to start a guest with a mediated device if the host cannot create another one.
func RefuseUnavailableMdev(kind, host string) error {
	return fleet.Errorf(fleet.Conflict, "%s cannot create another mediated device of the type %s. Stop a VM that uses a device of this type, or remove the device from this VM.", host, kind)
}
