package conformance

import "quantix/internal/fleet"

// FullSpec sets all fields that a test host can start to non-default values, for a backend's own tests.
func FullSpec(s fleet.VMSpec) fleet.VMSpec { return fullSpec(s) }

// FullDisk sets all fields of a disk to non-default values.
func FullDisk(d fleet.Disk) fleet.Disk { return fullDisk(d) }

// FullNIC sets all fields of a NIC to non-default values.
func FullNIC(n fleet.NIC) fleet.NIC { return fullNIC(n) }
