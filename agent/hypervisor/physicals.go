package hypervisor

import "quantix/internal/fleet"

// The following errors explain why a guest cannot use a physical disk of the host. Both backends use these errors.

// NoPhysicalDiskError reports that the host has no such disk.
func NoPhysicalDiskError(device string) error {
	return fleet.Errorf(fleet.NotFound, "The host has no disk %s. Plug the disk in again, or remove the disk from the VM.", device)
}

// RefuseBusyPhysicalDisk refuses a disk that the host itself uses. how completes the sentence "The disk is …".
func RefuseBusyPhysicalDisk(device, how string) error {
	return fleet.Errorf(fleet.Conflict, "The host itself uses %s: the disk is %s. A guest can get the disk once the host has released it.", device, how)
}

// RefuseTakenPhysicalDisk refuses a disk that another domain of the host uses.
func RefuseTakenPhysicalDisk(device string) error {
	return fleet.Errorf(fleet.Conflict, "Another VM of the host uses %s or a part of it. Two guests would destroy the data of a shared disk.", device)
}
