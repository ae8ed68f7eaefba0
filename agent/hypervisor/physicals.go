package hypervisor

import "quantix/internal/fleet"

// Reasons why a guest does not get a disk of the host, shared by both backends.

// NoPhysical reports that the host has no such disk.
func NoPhysical(device string) error {
	return fleet.Errorf(fleet.NotFound, "The host has no disk %s now. Plug it in again, or take it out of the VM.", device)
}

// PhysicalBusy refuses a disk that the host itself uses; how is the end of "it is …".
func PhysicalBusy(device, how string) error {
	return fleet.Errorf(fleet.Conflict, "The host uses %s itself: it is %s. No guest gets it before the host has released it.", device, how)
}

// PhysicalTaken refuses a disk that another domain of the host has.
func PhysicalTaken(device string) error {
	return fleet.Errorf(fleet.Conflict, "Another VM of the host has %s, or a part of it: two guests on one disk destroy it.", device)
}
