package conformance

import "quantix/internal/fleet"

// SpecWithAllFields sets all fields that a test host can start to non-default values, for a backend's own tests.
func SpecWithAllFields(s fleet.VMSpec) fleet.VMSpec { return specWithAllFields(s) }

// DiskWithAllFields sets all fields of a disk to non-default values.
func DiskWithAllFields(d fleet.Disk) fleet.Disk { return diskWithAllFields(d) }

// NICWithAllFields sets all fields of a NIC to non-default values.
func NICWithAllFields(n fleet.NIC) fleet.NIC { return nicWithAllFields(n) }
